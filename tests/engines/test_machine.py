"""What one receiving thread, the kernel and the processor of this computer cannot do is said before anything starts."""

import re
from pathlib import Path

import pytest

from ryle.config import changed, example, load
from ryle.config.rates import links
from ryle.engines.machine import LIMITS, machine_cautions

ASSEMBLY = Path(__file__).parents[2] / "docs" / "explanation" / "assembly.md"


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A computer of 16 cores that grants what is asked for."""
    monkeypatch.setattr("ryle.engines.machine.granted_buffer", lambda size: size)
    monkeypatch.setattr("ryle.engines.machine.os.cpu_count", lambda: 16)


@pytest.fixture(scope="module")
def alma():
    return load(example("alma72"))


def test_limits_are_those_of_the_page():
    """Nanoseconds that a core spends on a packet of 8192 bytes."""
    page = ASSEMBLY.read_text()
    spent = {name: float(re.search(rf"^\| {row} \| \d+ \| (\d+) \|$", page, re.M)[1]) for name, row in
             (("udp", "`recvmmsg`"), ("packet_ring", "packet ring"), ("dpdk", r"memory \(`SyntheticSource`\)"))}  # fmt: skip
    for by, limit in LIMITS.items():
        assert limit.packets == pytest.approx(1e9 / spent[by]) and limit.bits == pytest.approx(limit.packets * 65536)


@pytest.mark.parametrize("name", ["demo", "paper128", "vdif2"])
def test_examples_that_a_thread_can_take(name):
    o = load(example(name))
    assert list(machine_cautions(o)) == list(machine_cautions(o.live)) == []


def test_more_than_a_thread_takes(alma):
    """1.2 Tb/s to one socket, of F and X in one process or apart."""
    (fx,) = machine_cautions(alma)
    apart = alma.model_copy(update={"fx": None})
    f, x = machine_cautions(apart)
    assert fx.key == f.key == x.key == "network.receive.threads" and fx.value == f.value == 1
    assert fx.remedy == f.remedy.replace("F-engine", "FX")
    load_of = next(link for link in links(apart) if link.name == "F-engine in")
    assert load_of.payload == pytest.approx(1.198e12, rel=1e-3)
    assert (
        "18.28 Mpackets/s, 1.198 Tb/s to a thread" in f.remedy
        and "701.8 kpackets/s or 45.99 Gb/s by sockets" in f.remedy
    )
    assert "27 threads with sockets or 10 threads with a packet ring or 4 threads with DPDK" in f.remedy
    assert x.remedy.startswith("X-engine in")


@pytest.mark.parametrize(
    ("by", "threads", "said"), [("udp", 26, True), ("udp", 27, False), ("dpdk", 4, False), ("dpdk", 3, True)]
)
def test_threads_share_the_load(alma, by, threads, said):
    own = {"by": by, "device": "0000:41:00.0", "threads": threads}
    found = [p.key for p in machine_cautions(changed(alma, fengine={"receive": own})) if "FX" in p.remedy]
    assert found == (["fengine.receive.threads"] if said else [])


def test_at_full_speed_nothing_has_to_keep_up(alma):
    o = changed(alma, simulate={"speed": "max"}, observation={"duration": "1 s"})
    assert list(machine_cautions(o)) == []


def test_buffers_that_the_kernel_does_not_grant(monkeypatch):
    paper = load(example("paper128")).live
    monkeypatch.setattr("ryle.engines.machine.granted_buffer", lambda size: 212992)
    (caution,) = machine_cautions(paper)
    assert (caution.key, caution.value) == ("network.receive_buffer", "67.11 MB")
    assert "213 kB" in caution.remedy and "sysctl net.core.rmem_max=67108864" in caution.remedy
    ring = changed(paper, network={"receive": {"by": "packet_ring", "device": "eth1"}})
    assert list(machine_cautions(ring)) == []


def test_cores_that_there_are_not():
    paper = load(example("paper128"))
    (caution,) = machine_cautions(changed(paper, xengine={"cores": ["3,15-16,40"]}))
    assert (caution.key, caution.value) == ("xengine.cores", "16, 40") and "cores 0 to 15" in caution.remedy
    assert list(machine_cautions(changed(paper, xengine={"cores": [0, 15]}))) == []
    (caution,) = machine_cautions(changed(paper, xengine={"threads": 17}))
    assert caution.key == "xengine.threads" and "16 cores" in caution.remedy
