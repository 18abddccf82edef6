"""The script that `--fix` prints, run by a real shell where /sys and /proc/sys are files that can be spoilt."""

import os
import shlex
import subprocess

import pytest

from mistuned import FILES, wrong
from ryle.doctor import examine
from ryle.doctor.fix import script
from tuned import NEEDS, build, card, gpu, machine, write


@pytest.fixture(autouse=True)
def dpdk_is_there(monkeypatch):
    monkeypatch.setattr("ryle.doctor.drivers.dpdk_problem", lambda: None)


def findings(it):
    return [f for part in examine(it, NEEDS).values() for f in part]


def spoilt(root):
    """Put wrong all that the kernel would take back."""
    build(root)
    for name in ("governor", "idle", "realtime", "clocksource", "quota", "thp", "numa-balancing", "zone-reclaim", "swap",
                 "rmem", "wmem", "udp-mem", "rp-filter", "interrupts", "loopback"):  # fmt: skip
        for path, content in FILES[name][0].items():
            write(root, path, content)
    return machine(root, interfaces=[card(mtu=1500, ring=512, gro=False)], gpus=[gpu(persistence=False, clock=1e9)])


#: What the script calls besides the shell, as functions that write down what they are asked.
RECORDED = "ip ethtool setpci nvidia-smi systemctl dpdk-devbind.py modprobe"


def test_whole_script_on_a_machine_of_files(tmp_path):
    """`unshare` gives it a /sys and a /proc/sys of its own: these."""
    root, etc = tmp_path / "root", tmp_path / "etc"
    it = spoilt(root)
    before = wrong(it)
    assert len(before) >= 19
    (etc / "sysctl.d").mkdir(parents=True)
    (etc / "tmpfiles.d").mkdir()
    (tmp_path / "fix.sh").write_text(script(findings(it)))
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in RECORDED.split():
        (bin_ / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {shlex.quote(str(tmp_path / "asked"))}\n')
        (bin_ / name).chmod(0o755)
    mounts = [f"mount --bind {shlex.quote(str(root / where))} /{where}" for where in ("sys", "proc/sys", "proc/irq")]
    mounts += [f"mount --bind {shlex.quote(str(etc / where))} /etc/{where}" for where in ("sysctl.d", "tmpfiles.d")
               if os.path.isdir(f"/etc/{where}") or subprocess.run(["mkdir", "-p", f"/etc/{where}"]).returncode == 0]  # fmt: skip
    # /proc/irq comes before /proc/sys is another's: both are below /proc, which stays.
    line = " && ".join([*mounts, f"PATH={shlex.quote(str(bin_))}:$PATH sh -e {shlex.quote(str(tmp_path / 'fix.sh'))}"])
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", line], capture_output=True, text=True)
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"mount namespaces need root: {ran.stderr}")
    assert ran.returncode == 0, ran.stderr
    after = wrong(machine(root))  # the card and the GPU as if what was asked of them had been done
    assert not after
    asked = (tmp_path / "asked").read_text().splitlines()
    assert "ip link set dev eth2 mtu 9000" in asked
    assert "ethtool -G eth2 rx 8192" in asked
    assert "ethtool -K eth2 gro on" in asked
    assert any(line.startswith("nvidia-smi -i 0000:42:00.0 -pm 1") for line in asked)
    assert "systemctl stop irqbalance" in asked
    kept = (etc / "sysctl.d/90-ryle.conf").read_text()
    assert "net.core.rmem_max = 67108864" in kept
    assert "w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise" in (etc / "tmpfiles.d/ryle.conf").read_text()


def test_script_of_nothing_does_nothing(tmp_path):
    build(tmp_path)
    text = script(findings(machine(tmp_path)))
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == ["set -u"]


def test_what_a_person_has_to_do_stands_in_it_as_words(tmp_path):
    build(tmp_path)
    for name in ("width", "iommu", "damage"):
        for path, content in FILES[name][0].items():
            write(tmp_path, path, content)
    text = script(findings(machine(tmp_path)))
    assert "# From the next start on, on the kernel's command line: iommu=pt" in text
    assert "#   pcie-width (GPU 0): put it into a slot of x16" in text
    assert "#   losses (eth2): cable" in text
    assert subprocess.run(["sh", "-n"], input=text, text=True).returncode == 0
