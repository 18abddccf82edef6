"""What is put wrong is found, and nothing else; on a machine that is as it should be nothing is."""

from dataclasses import replace

import pytest

from fresh import rng
from mistuned import FACTS, FILES, wrong
from ryle.doctor import examine
from ryle.host_clock import ClockFacts
from tuned import CARD, NEEDS, build, card, machine, write


@pytest.fixture(autouse=True)
def dpdk_is_there(monkeypatch):
    monkeypatch.setattr("ryle.doctor.drivers.dpdk_problem", lambda: None)


def test_a_well_tuned_machine_has_nothing_to_mend(tmp_path):
    build(tmp_path)
    found = [f for part in examine(machine(tmp_path), NEEDS).values() for f in part]
    assert {f.state for f in found} == {"good"}, [f for f in found if f.state != "good"]
    assert len(found) > 40
    assert not any(f.mends for f in found)


def expect(found, key, where, state, word):
    assert list(found) == [(key, where)]
    (finding,) = found.values()
    assert finding.state == state
    assert any(word in str(mend) for mend in finding.mends), finding.mends
    assert finding.found and finding.wanted and finding.why


@pytest.mark.parametrize("name", FILES)
def test_what_files_say_is_wrong_is_found_alone(tmp_path, name):
    build(tmp_path)
    changes, expected = FILES[name]
    for path, content in changes.items():
        write(tmp_path, path, content)
    expect(wrong(machine(tmp_path)), *expected)


@pytest.mark.parametrize("name", FACTS)
def test_what_is_wrong_otherwise_is_found_alone(tmp_path, name):
    build(tmp_path)
    facts, needs, expected = FACTS[name]
    expect(wrong(machine(tmp_path, **facts), replace(NEEDS, **needs)), *expected)


def test_many_things_at_once(tmp_path):
    random = rng()
    names = [n for n in FILES if n not in ("quota above", "damage", "interrupts far", "budget")]
    for turn in range(10):
        build(root := tmp_path / str(turn))
        chosen = random.choice(names, 14, replace=False)
        for name in chosen:
            for path, content in FILES[name][0].items():
                write(root, path, content)
        assert set(wrong(machine(root))) == {FILES[name][1][:2] for name in chosen}


def test_drivers_of_dpdk(tmp_path):
    build(tmp_path)
    link = tmp_path / f"sys/bus/pci/devices/{CARD}/driver"
    link.unlink()
    link.symlink_to("../../drivers/ice")
    expect(wrong(machine(tmp_path)), "dpdk-device", CARD, "bad", f"dpdk-devbind.py -b vfio-pci {CARD}")
    link.unlink()
    expect(wrong(machine(tmp_path)), "dpdk-device", CARD, "bad", "modprobe vfio-pci")
    link.symlink_to("../../drivers/vfio-pci")
    assert not wrong(machine(tmp_path))
    (tmp_path / f"sys/bus/pci/devices/{CARD}/iommu_group").unlink()
    expect(wrong(machine(tmp_path)), "vfio", CARD, "bad", "intel_iommu=on")
    write(tmp_path, "sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y")
    assert not wrong(machine(tmp_path))


def test_dpdk_that_is_not_there(tmp_path, monkeypatch):
    build(tmp_path)
    monkeypatch.setattr("ryle.doctor.drivers.dpdk_problem", lambda: "build Ryle where DPDK is")
    expect(wrong(machine(tmp_path)), "dpdk", "", "bad", "build Ryle where DPDK is")


def test_what_is_not_wanted_is_not_asked_for(tmp_path):
    """Without an observation neither DPDK nor a GPU is; and a root's sockets and pages have no limit."""
    build(tmp_path)
    write(tmp_path, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 0)
    needs = replace(NEEDS, dpdk=(), gpus=None, window=0)
    assert not wrong(machine(tmp_path, memlock=0), needs)
    assert not wrong(machine(tmp_path, memlock=0, gpus=[]), replace(needs, gpus=()))
    write(tmp_path, "proc/sys/net/core/rmem_max", 4096)
    assert wrong(machine(tmp_path, root=True), needs)["rmem", ""].state == "poor"


def test_nothing_is_known_of_an_empty_machine(tmp_path):
    found = [f for part in examine(machine(tmp_path, interfaces=[card(speed=None, ring=None, gro=None, pci=None)],
             gpus=[], clock=ClockFacts(None, 0.0)), replace(NEEDS, dpdk=(), gpus=None)).values() for f in part]  # fmt: skip
    assert {f.state for f in found} == {"good", "unknown"}
    assert {"governor", "idle", "smt", "clocksource", "thp", "ring", "link", "interrupts", "gpu", "time"} <= {
        f.key for f in found if f.state == "unknown"
    }
    assert all(f.found for f in found)
