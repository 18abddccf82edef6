"""A GPU made of one CPU: kernels compiled with g++ against an emulated ``ryle/gpu/device.cuh``, run thread by thread.

`EmulatedGpu` has the interface of `ryle.gpu.Gpu`, so that host code and kernels are tested together where there is no GPU::

    gpu = EmulatedGpu()
    out = gpu.array(np.zeros(64, np.float32))
    gpu.kernel(Path("scale.cu"), "scale", {"TAPS": 16}).launch(4, 128, out=out, n=np.int32(64), shared=1024)

Each thread of a block is a fiber that runs until it must wait for others; blocks run one after another. Threads, warps and
blocks take turns at random, by a seed that each launch changes. What a GPU would punish, or not even notice, is an
`EmulationError` that names the block, the thread and mostly the line, or shows as NaN:

- new arrays, shared memory and values of lanes outside a mask are bytes 0xFF: NaN, or -1;
- reading or writing outside an array or shared memory (guard pages; up to 255 bytes after an array, only writing is seen,
  when the kernel has ended), misaligned accesses, indices outside local arrays, too wide shifts, endless loops;
- collectives that only a part of their mask reaches, barriers that only a part of a warp reaches, deadlocks;
- asynchronous copies happen when they are waited for, and poison their destination until then.

What it cannot show: races between blocks, waiting for another block (it never comes: the time limit ends it), the GPU's
own rounding of ``__sinf`` and its like and of sums inside a matrix product (here exact), and anything about speed.
``RYLE_EMULATION_FLAGS`` gives g++ more options, as ``-fsanitize=address`` (preload libasan) or ``-O0 -g``.
"""

from emulation.build import CompilationError
from emulation.gpu import EmulatedGpu, EmulationError, Event, Kernel, Stream
from emulation.memory import DeviceArray

__all__ = ["CompilationError", "DeviceArray", "EmulatedGpu", "EmulationError", "Event", "Kernel", "Stream"]
