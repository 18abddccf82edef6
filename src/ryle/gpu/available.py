"""Is there a GPU that can be used, and if not, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ryle.gpu.interface import IMPORTING, GpuUnavailable

if TYPE_CHECKING:
    from ryle.gpu.device import CudaGpu

__all__ = ["gpu_problem", "open_gpu"]

#: The driver must know CUDA 13: cubins run on every driver of their compiler's major version and on later ones.
OLDEST_DRIVER = 13000
#: Asynchronous copies to shared memory and matrix instructions on bytes begin with Ampere.
OLDEST_CAPABILITY = (8, 0)

INSTALL = "install what is needed with: pip install 'ryle[cuda]'"


def open_gpu(ordinal: int = 0) -> CudaGpu:
    """Open a GPU.

    Parameters
    ----------
    ordinal : int
        Which, in the driver's order (``CUDA_VISIBLE_DEVICES`` restricts and orders them).

    Returns
    -------
    Gpu
        The device, for all threads of the process.

    Raises
    ------
    GpuUnavailable
        If it cannot be used; the message says what is missing and how to mend it.
    """
    problem = gpu_problem(ordinal)
    if problem:
        raise GpuUnavailable(problem)
    from ryle.gpu.device import CudaGpu

    return CudaGpu(ordinal)


def gpu_problem(ordinal: int = 0) -> str | None:
    """Say why a GPU cannot be used.

    Parameters
    ----------
    ordinal : int
        Which, in the driver's order.

    Returns
    -------
    str or None
        What is missing and how to mend it; None if nothing is.
    """
    try:
        with IMPORTING:
            import cuda.core
            from cuda.bindings import driver
    except ImportError as error:
        return f"cuda-core or cuda-bindings is not installed ({error}); {INSTALL}"
    version = cuda.core.__version__
    if _numbers(version) < (1, 2):
        return f"cuda-core {version} is too old, 1.2 is needed; {INSTALL}"
    try:
        (result,) = driver.cuInit(0)
    except RuntimeError:  # libcuda.so.1 is sought at the first call
        return (
            "there is no NVIDIA driver here (libcuda.so.1 is not found); install the driver, 580 or later, "
            "or in a container start it with its GPUs (--gpus all)"
        )
    if result == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        return _absent(ordinal, 0)
    if result != driver.CUresult.CUDA_SUCCESS:
        return f"the NVIDIA driver does not start ({result.name}); see what nvidia-smi says"
    return _driver_problem(driver) or _device_problem(driver, ordinal) or _compiler_problem()


def pci_address(ordinal: int = 0) -> str | None:
    """Give the address of a GPU on its bus, as the system writes it: ``0000:41:00.0``; None if it cannot be used."""
    if gpu_problem(ordinal):
        return None
    from cuda.bindings import driver

    _, device = driver.cuDeviceGet(ordinal)
    _, address = driver.cuDeviceGetPCIBusId(32, device)
    return str(address.split(b"\0")[0].decode()).lower()


def _driver_problem(driver: Any) -> str | None:
    _, known = driver.cuDriverGetVersion()
    if known < OLDEST_DRIVER:
        return (
            f"the NVIDIA driver knows CUDA up to {known // 1000}.{known % 1000 // 10}, 13.0 is needed; "
            "install driver 580 or later"
        )
    return None


def _device_problem(driver: Any, ordinal: int) -> str | None:
    _, count = driver.cuDeviceGetCount()
    if not 0 <= ordinal < count:
        return _absent(ordinal, count)
    _, device = driver.cuDeviceGet(ordinal)
    wanted = driver.CUdevice_attribute
    _, major = driver.cuDeviceGetAttribute(wanted.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    _, minor = driver.cuDeviceGetAttribute(wanted.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    if (major, minor) < OLDEST_CAPABILITY:
        return (
            f"GPU {ordinal} is of compute capability {major}.{minor}, 8.0 (Ampere) or later is needed; "
            "choose another GPU or the 'cpu' backend"
        )
    return None


def _absent(ordinal: int, count: int) -> str:
    have = f"{count}, counted from 0" if count else "none"
    return f"there is no NVIDIA GPU {ordinal} here: the driver shows {have}; CUDA_VISIBLE_DEVICES may hide some"


def _compiler_problem() -> str | None:
    from ryle.gpu.compile import compiler_version

    try:
        compiler_version()
    except GpuUnavailable as error:
        return str(error)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """Read the leading numbers of a version: ``"1.2.2rc1"`` is (1, 2)."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
