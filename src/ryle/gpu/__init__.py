"""The thin layer between Ryle's operations and NVIDIA GPUs: compile, load, copy, launch, measure.

Nothing here needs a GPU to be imported. `open_gpu` opens one or says what is missing; kernels are compiled at run time
by NVRTC (`ryle.gpu.compile`) and kept on disk (`ryle.gpu.cache`).
"""

from ryle.gpu.available import gpu_problem, open_gpu
from ryle.gpu.interface import DeviceArray, Event, Gpu, GpuError, GpuUnavailable, Kernel, Scalar, Stream
from ryle.gpu.kernels import KERNEL_MODULES, KernelVariant, kernel_variants

__all__ = [
    "KERNEL_MODULES",
    "DeviceArray",
    "Event",
    "Gpu",
    "GpuError",
    "GpuUnavailable",
    "Kernel",
    "KernelVariant",
    "Scalar",
    "Stream",
    "gpu_problem",
    "kernel_variants",
    "open_gpu",
]
