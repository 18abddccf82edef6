"""What engines say that they use, against what the system says of this process."""

import json
import mmap
import os
import resource
import struct
import time

import pytest

from observations import observe_rows
from ryle import host_clock
from ryle.config import changed
from ryle.engines import load
from ryle.engines.gpus import gpu_numbers
from ryle.engines.load import measure_load
from ryle.stream.metrics import Registry


@pytest.mark.parametrize(
    ("status", "offset", "told"),
    [
        (0, -1500, (1.0, -1.5e-3, 0.004)),
        (0x2000, -1500, (1.0, -1.5e-6, 0.004)),
        (0x40, 0, (0.0, 0.0, 0.004)),
        (None, 0, (None,) * 3),
    ],
)
def test_the_clock_of_the_host(monkeypatch, status, offset, told):
    """As the kernel's struct timex has it: 0x40 is STA_UNSYNC, 0x2000 STA_NANO."""

    class Kernel:
        def adjtimex(self, buffer):
            if status is None:
                return -1
            struct.pack_into("@Iqqqqi", buffer, 0, 0, offset, 0, 4000, 0, status)
            return 5 if status & 0x40 else 0

    monkeypatch.setattr(host_clock.ctypes, "CDLL", lambda *_, **__: Kernel())
    measure_load(m := Registry())
    values = m.values()
    assert tuple(values[f"clock_{name}"] for name in ("kept", "offset", "error")) == pytest.approx(told)


def test_processor_and_memory():
    m = Registry()
    measure_load(m)
    first, begin = m.values(), resource.getrusage(resource.RUSAGE_SELF)
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    held = mmap.mmap(-1, 64 << 20)  # pages of its own: others may be what earlier tests left
    held[:: mmap.PAGESIZE] = bytes(len(held) // mmap.PAGESIZE)
    last, after = m.values(), resource.getrusage(resource.RUSAGE_SELF)
    used = (after.ru_utime + after.ru_stime) - (begin.ru_utime + begin.ru_stime)
    assert last["cpu"] - first["cpu"] == pytest.approx(1e3 * used, abs=30) and last["cpu"] - first["cpu"] >= 290
    assert last["memory"] - first["memory"] > len(held) // 2
    # The kernel counts pages of each thread in batches; and earlier tests may have held much more than there is now.
    (resident,) = (line.split()[1] for line in open("/proc/self/smaps_rollup") if line.startswith("Rss:"))
    assert 0.8 < last["memory"] / (1024 * int(resident)) < 1.2 and last["memory"] < 1.2 * after.ru_maxrss * 1024
    assert last["cores"] == len(os.sched_getaffinity(0))
    assert {name for name in last if not name.startswith("clock_")} == {
        "cpu",
        "cores",
        "memory",
    }  # of an engine without a GPU nothing is said of any
    assert {x.name: (x.kind, x.unit) for x in m}["cpu"] == ("counter", "ms") and type(last["cpu"]) is int
    json.dumps(last)


def test_each_gpu_has_its_own_and_what_cannot_be_read_is_absent(monkeypatch):
    told = {0: {"busy": 37.0, "power": 212.5, "memory": 5.0, "memory_size": 9.0}, 3: {"power": 70.0}}

    class Meter:
        def __init__(self, number):
            self.read = lambda: told[number]

    monkeypatch.setattr(load, "LoadMeter", Meter)
    m = Registry()
    measure_load(m, [3, 0, 3])
    values = m.values()
    assert values["gpu_busy"] == {"0": 37.0} and values["gpu_power"] == {"3": 70.0, "0": 212.5}
    assert values["gpu_memory"] == {"0": 5.0} and values["gpu_memory_size"] == {"0": 9.0}


def test_which_gpus_an_engine_runs_on():
    o = observe_rows(antennas=3)
    assert gpu_numbers(o, "f") == gpu_numbers(o, "x", 1) == gpu_numbers(o, "catcher") == []
    o = changed(o, fengine={"backend": "cuda", "gpus": [2, 5]}, xengine={"backend": "cuda"})
    assert [gpu_numbers(o, "f", n) for n in range(3)] == [[2], [5], [2]] and gpu_numbers(o, "x", 4) == [0]
    assert gpu_numbers(o, "catcher") == gpu_numbers(o, "simulate") == []
