"""Energy and clock of a GPU, by the driver's management library, for benchmarks."""

from __future__ import annotations

from typing import Any

from ryle.gpu.interface import GpuUnavailable

__all__ = ["EnergyMeter"]


class EnergyMeter:
    """Energy that a GPU uses between two points in time.

    The counter covers the whole board and moves in steps of 20 to 100 ms: measure over a second or more, and finish
    the work (`Stream.synchronize`) before both points. Where there is no counter, `available` is false, `problem` says
    why, and joules and clock are NaN: a benchmark runs on without them.

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
        try:
            self._nvml, self._device = _open(ordinal)
            self._total()
        except Exception as error:  # the library has one exception for each of its errors; none may stop a benchmark
            self.problem = f"the GPU's energy cannot be read: {error}"

    @property
    def available(self) -> bool:
        """Whether energy can be read."""
        return self.problem is None

    def start(self) -> None:
        """Begin to count."""
        self._begin = self._total()

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


def _open(ordinal: int) -> tuple[Any, Any]:
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
