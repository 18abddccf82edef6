"""What an engine uses of its machine: processor time, memory, its GPUs; and how well the machine's clock is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ryle.gpu.power import LoadMeter
from ryle.host_clock import ClockFacts, kernel_clock
from ryle.stream.metrics import Registry

_PAGE = os.sysconf("SC_PAGE_SIZE")


def measure_load(metrics: Registry, gpus: Sequence[int] = ()) -> None:
    """Add to an engine's metrics what it uses.

    Parameters
    ----------
    metrics : Registry
        Where to.
    gpus : sequence of int
        Those that it runs on, in the order of CUDA. What is told of them is of all processes that use them.
    """
    m = metrics
    m.counter("cpu", "ms", "processor time that it has used, on all cores together",
              lambda: int(1e3 * time.process_time()))  # fmt: skip
    m.gauge("cores", "", "that it may run on", lambda: len(os.sched_getaffinity(os.getpid())))
    m.gauge("memory", "B", "that it has in use, resident", _resident)

    def of_clock(figure: Callable[[ClockFacts], float | bool | None]) -> Callable[[], float | None]:
        def read() -> float | None:
            value = figure(kernel_clock())
            return None if value is None or value != value else float(value)

        return read

    m.gauge("clock_kept", "", "1 if something keeps the clock of its host on time",
            of_clock(lambda clock: clock.synchronized))  # fmt: skip
    m.gauge("clock_offset", "s", "by which the clock of its host is being corrected",
            of_clock(lambda clock: clock.offset))  # fmt: skip
    m.gauge("clock_error", "s", "that the clock of its host may be off by, at most",
            of_clock(lambda clock: clock.error))  # fmt: skip
    if not gpus:
        return
    meters = {str(number): LoadMeter(number) for number in dict.fromkeys(gpus)}

    def each(what: str) -> Callable[[], dict[str, float]]:
        def read() -> dict[str, float]:
            loads = {number: meter.read() for number, meter in meters.items()}
            return {number: load[what] for number, load in loads.items() if what in load}

        return read

    m.gauge("gpu_busy", "%", "time lately in which a kernel ran on each of its GPUs", each("busy"))
    m.gauge("gpu_power", "W", "that each of its GPUs draws", each("power"))
    m.gauge("gpu_memory", "B", "in use on each of its GPUs", each("memory"))
    m.gauge("gpu_memory_size", "B", "that each of its GPUs has", each("memory_size"))


def _resident() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
