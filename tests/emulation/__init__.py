"""A GPU made of one CPU: kernels compiled with g++ against an emulated ``ryle/gpu/device.cuh``, run thread by thread.

`EmulatedGpu` has the interface of `ryle.gpu.Gpu`, so that host code and kernels are tested together where there is no GPU.
Arrays and shared memory start as NaN (bytes 0xFF), accesses past the end of an array, deadlocks, collectives that only some
lanes reach, misaligned accesses and early reads of asynchronous copies raise `EmulationError` or show as NaN.
"""

from emulation.gpu import DeviceArray, EmulatedGpu, EmulationError, Event, Kernel, Stream

__all__ = ["DeviceArray", "EmulatedGpu", "EmulationError", "Event", "Kernel", "Stream"]
