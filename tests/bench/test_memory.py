"""What benchmarks copy is copied, and what they fill is full; and the timing of what runs for long."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import gpu_timing, memory
from ryle.bench.gpu_timing import sustain
from ryle.bench.memory import copies, copy_times, random_bytes, repeated


@pytest.mark.parametrize("size", [16, 4080, 32768, 5 * 32768 + 48])
def test_copies_are_copies(rng, size):
    gpu = EmulatedGpu()
    data = rng.integers(0, 256, size + 32, dtype=np.uint8)
    source = gpu.array(data)
    for name in ("kernel", "driver"):
        target = gpu.array(np.full(size + 7, 0x55, np.uint8))
        launches, moved = copies(gpu, source, target)
        launches[name](gpu.default_stream)
        assert moved == 2 * size
        np.testing.assert_array_equal(target.get()[:size], data[:size])
        assert np.all(target.get()[size:] == 0x55)


def test_no_more_is_copied_than_is_said(monkeypatch):
    monkeypatch.setattr(memory, "COPY_BYTES", 1 << 12)
    gpu = EmulatedGpu()
    times, moved = copy_times(gpu, gpu.empty(1 << 14, np.int8), gpu.empty(1 << 13, np.int8), 0.0)
    assert moved == 1 << 13
    assert list(times) == ["kernel", "driver", "driver, recorded"]


def test_a_pattern_fills_everything(rng, monkeypatch):
    gpu = EmulatedGpu()
    pattern = rng.integers(0, 1 << 32, 12, dtype=np.uint32)
    np.testing.assert_array_equal(repeated(gpu, pattern, 100).get(), np.tile(pattern, 3))
    monkeypatch.setattr(memory, "_PATTERN", 1 << 12)
    found = random_bytes(gpu, 10_000, -127).get()
    assert 10_000 <= found.size < 10_000 + (1 << 12)
    np.testing.assert_array_equal(found[4096:8192], found[:4096])
    assert found.min() >= -127


def test_what_comes_after_settling_counts(monkeypatch):
    """A launch that becomes faster as it runs is timed as it is at last, with the energy of that time."""

    looks, counted = [], []

    class Meter:
        def __init__(self, watts):
            self.watts = watts

        def start(self):
            self.begin = clock.now

        def stop(self):
            counted.append(clock.now - self.begin)
            return 100.0 * counted[-1]

        def look(self):
            looks.append(clock.now)

        def sm_clock(self):
            return 1.7e9

    class Clock:
        now = 0.0

        def launch(self, stream):
            self.now += 0.01 if self.now < 1.0 else 0.002

        def record(self):
            return Event(self.now)

        def synchronize(self):
            pass

    class Event:
        def __init__(self, at):
            self.at = at

        def synchronize(self):
            pass

        def seconds_since(self, earlier):
            return self.at - earlier.at

    clock = Clock()
    monkeypatch.setattr(gpu_timing.time, "perf_counter", lambda: clock.now)
    found = sustain(clock.launch, clock, 2.1, Meter(float("nan")))
    assert found.seconds == pytest.approx(0.002)
    assert (found.joules, found.clock) == (pytest.approx(0.2), 1.7e9)
    looks.clear()
    found = sustain(clock.launch, clock, 2.1, Meter(70.0))  # between steps of the counter
    assert found.joules == pytest.approx(0.14) and len(looks) > 20
    sustain(clock.launch, clock, 4.0, Meter(70.0))  # the first second of them is for settling
    sustain(clock.launch, clock, 1.0, Meter(70.0))  # half of it
    assert counted[2:] == pytest.approx([3.0, 0.5], abs=0.05)
