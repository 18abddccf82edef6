"""Energy, clock and load of a GPU, by the driver's management library, for benchmarks and for who watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ryle.gpu.interface import GpuUnavailable

__all__ = ["EnergyMeter", "LoadMeter"]


class EnergyMeter:
    """Energy that a GPU uses between two points in time.

    The counter covers the whole board and moves in steps of 20 to 100 ms: measure over seconds, and finish the work
    (`Stream.synchronize`) before both points; or look often while it goes on, and take `watts`. Where there is no
    counter, `available` is false, `problem` says why, and joules and clock are NaN: a benchmark runs on without them.

    Parameters
    ----------
    ordinal : int
        Which GPU, in the order of CUDA; used to find it by its PCI address.

    Attributes
    ----------
    joules : float
        Energy used between `start` and `stop`; NaN before.
    problem : str or None
        Why nothing can be read.

    Examples
    --------
    >>> with EnergyMeter() as meter:
    ...     work()
    ...     stream.synchronize()
    >>> meter.joules
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.joules = float("nan")
        self.problem: str | None = None
        self._nvml: Any = None
        self._begin = float("nan")
        self._steps: list[tuple[float, float]] = []  # when the counter had moved, and what it then was
        try:
            self._nvml, self._device = open_management(ordinal)
            self._total()
        except Exception as error:  # the library has one exception for each of its errors; none may stop a benchmark
            self.problem = f"the GPU's energy cannot be read: {error}"

    @property
    def available(self) -> bool:
        """Whether energy can be read."""
        return self.problem is None

    def start(self) -> None:
        """Begin to count."""
        self._begin, self._steps = self._total(), []

    def look(self) -> None:
        """Note when the counter moves: called often while the GPU works, it makes `watts` exact."""
        total = self._total()
        if self.available and (not self._steps or total != self._steps[-1][1]):
            self._steps.append((time.perf_counter(), total))

    @property
    def watts(self) -> float:
        """Power between the first step of the counter since `start` and the last that was seen; NaN without two."""
        steps = self._steps[1:]  # when the counter came to what it was at first nobody has seen
        if len(steps) < 2:
            return float("nan")
        return (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0])

    def stop(self) -> float:
        """Give the energy used since `start`, in joules, and keep it in `joules`."""
        self.joules = self._total() - self._begin
        return self.joules

    def sm_clock(self) -> float:
        """Give the present clock of the multiprocessors, in Hz; NaN if it cannot be read."""
        if not self.available:
            return float("nan")
        return 1e6 * float(self._nvml.device_get_clock_info(self._device, self._nvml.ClockType.CLOCK_SM))

    def _total(self) -> float:
        if not self.available:
            return float("nan")
        return 1e-3 * float(self._nvml.device_get_total_energy_consumption(self._device))

    def __enter__(self) -> EnergyMeter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class LoadMeter:
    """What is used of a GPU, by all processes: whoever asks often is given what was read a moment ago.

    Parameters
    ----------
    ordinal : int
        Which GPU, in the order of CUDA.
    """

    _SAME = 0.2  # seconds for which what was read stands: a reading takes the driver a millisecond or so

    def __init__(self, ordinal: int = 0) -> None:
        self._nvml: Any = None
        self._at = -1e9
        self._load: dict[str, float] = {}
        try:
            self._nvml, self._device = open_management(ordinal)
        except Exception:  # the library has one exception for each of its errors; none may stop an engine
            self._nvml = None

    def read(self) -> dict[str, float]:
        """Give what can be read.

        Returns
        -------
        dict of str to float
            "busy", percent of the time lately in which a kernel ran; "power", W; "memory" that is used, and
            "memory_size", bytes.
        """
        now = time.monotonic()
        if self._nvml is not None and now - self._at > self._SAME:
            self._at, self._load = now, {}
            for measure in (self._busy, self._power, self._memory):
                self._take(measure)
        return self._load

    def _take(self, measure: Callable[[], dict[str, float]]) -> None:
        try:
            self._load |= measure()
        except Exception:  # what a card, a part of one (MIG) or a permission does not allow is absent
            return

    def _busy(self) -> dict[str, float]:
        return {"busy": float(self._nvml.device_get_utilization_rates(self._device).gpu)}

    def _power(self) -> dict[str, float]:
        return {"power": 1e-3 * float(self._nvml.device_get_power_usage(self._device))}

    def _memory(self) -> dict[str, float]:
        found = self._nvml.device_get_memory_info_v2(self._device)
        return {"memory": float(found.used), "memory_size": float(found.total)}


def open_management(ordinal: int) -> tuple[Any, Any]:
    try:
        from cuda.bindings import driver, nvml
    except ImportError as error:
        raise GpuUnavailable(
            f"cuda-bindings 13.1 or later is not installed ({error}); pip install 'ryle[cuda]'"
        ) from error
    nvml.init_v2()
    # The library counts every GPU of the machine, CUDA only those it was left: the bus address is what both know.
    (result,) = driver.cuInit(0)
    if result == driver.CUresult.CUDA_SUCCESS:
        result, device = driver.cuDeviceGet(ordinal)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise GpuUnavailable(f"there is no GPU {ordinal} ({result.name})")
    _, address = driver.cuDeviceGetPCIBusId(32, device)
    return nvml, nvml.device_get_handle_by_pci_bus_id_v2(address.split(b"\0")[0].decode())
