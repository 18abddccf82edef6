"""NVIDIA's Fourier transforms for use inside a kernel (cuFFTDx), alone: the rows of an array, each by one thread block.

They are headers (``pip install nvidia-mathdx nvidia-cuda-cccl nvidia-cuda-runtime``, under NVIDIA's own licence) that
take several seconds a size to compile and come to two megabytes. So they are compiled to a folder beforehand, on any
computer, by `compile_all`, and a benchmark is given that folder: the machine with the GPU needs no headers.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from ryle.gpu.compile import CompileError
from ryle.gpu.interface import DeviceArray, Gpu, GpuUnavailable, Kernel, Stream

__all__ = ["SIZES", "DxPlan", "compile_all", "compiled_sizes"]

#: Complex single-precision transforms that fit a thread block of Hopper and later.
SIZES = tuple(1 << k for k in range(6, 15))

_SOURCE = """
#include <cufftdx.hpp>
using namespace cufftdx;
using Row = decltype(Block() + Size<SIZE>() + Type<fft_type::c2c>() + Direction<fft_direction::forward>() +
                     Precision<float>() + SM<ARCHITECTURE>());
using Transform = decltype(Row() + FFTsPerBlock<Row::suggested_ffts_per_block>());
using Value = typename Transform::value_type;

extern "C" __global__ __launch_bounds__(Transform::max_threads_per_block) void transform(const Value *source,
                                                                                         Value *result) {
    extern __shared__ __align__(16) unsigned char shared[];
    Value values[Transform::storage_size];
    const unsigned long long row = blockIdx.x * Transform::ffts_per_block + threadIdx.y;
    for (unsigned i = 0; i < Transform::elements_per_thread; i++)
        if (const unsigned at = threadIdx.x + i * Transform::stride; at < SIZE)
            values[i] = source[row * SIZE + at];
    Transform().execute(values, shared);
    for (unsigned i = 0; i < Transform::elements_per_thread; i++)
        if (const unsigned at = threadIdx.x + i * Transform::stride; at < SIZE)
            result[row * SIZE + at] = values[i];
}

extern "C" __global__ void describe(int *shape) {
    shape[0] = Transform::block_dim.x;
    shape[1] = Transform::block_dim.y;
    shape[2] = Transform::shared_memory_size;
}
"""


def _file(folder: Path, size: int, arch: str) -> Path:
    return folder / f"cufftdx-{size}-{arch}.cubin.gz"


def compiled_sizes(folder: Path, arch: str) -> list[int]:
    """List the sizes that a folder has for an architecture."""
    return [size for size in SIZES if _file(folder, size, arch).exists()]


def compile_all(
    folder: Path, arch: str = "sm_90a", sizes: Iterable[int] = SIZES, progress: Callable[[str], None] = print
) -> None:
    """Compile the transforms that a folder does not have yet.

    Raises
    ------
    GpuUnavailable
        If the headers or the compiler are not installed.
    CompileError
        If a transform does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        if not _file(folder, size, arch).exists():
            progress(f"cuFFTDx {size} for {arch}")
            _file(folder, size, arch).write_bytes(gzip.compress(_compiled(size, arch)))


def _compiled(size: int, arch: str) -> bytes:
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise GpuUnavailable(f"cuda-core is not installed ({error}); pip install 'ryle[cuda]'") from error
    options = ProgramOptions(
        arch=arch,
        std="c++17",
        define_macro=[("SIZE", str(size)), ("ARCHITECTURE", f"{int(arch.removeprefix('sm_').rstrip('a'))}0")],
        include_path=[str(path) for path in _headers()],
        device_as_default_execution_space=True,
    )
    try:
        return bytes(Program(_SOURCE, "c++", options).compile("cubin").code)
    except RuntimeError as error:
        raise CompileError(f"cuFFTDx does not compile for {size} values:\n{error}") from error


def _headers() -> list[Path]:
    """Find the folders of headers."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    wanted = ("mathdx/include", "mathdx/external/cutlass/include", "cu13/include", "cu13/include/cccl")
    found = [root / path for path in wanted for root in roots if (root / path).is_dir()]
    if not any((path / "cufftdx.hpp").exists() for path in found):
        raise GpuUnavailable(
            "cuFFTDx is not here; install it with: pip install nvidia-mathdx nvidia-cuda-cccl nvidia-cuda-runtime"
        )
    return found


class DxPlan:
    """Forward transforms of `batch` successive rows of complex64.

    Parameters
    ----------
    gpu : Gpu
        Where; a real one.
    folder : Path
        Where `compile_all` put them.
    size, batch : int
        Length of a transform, one of `compiled_sizes`, and number of rows, a multiple of those of a thread block.
    """

    def __init__(self, gpu: Gpu, folder: Path, size: int, batch: int) -> None:
        from ryle.gpu.device import CudaGpu, CudaKernel

        assert isinstance(gpu, CudaGpu)
        code = gzip.decompress(_file(folder, size, gpu.arch).read_bytes())
        self._transform: Kernel = CudaKernel(gpu, "transform", code, _SOURCE)
        shape = gpu.empty(3, np.int32)
        CudaKernel(gpu, "describe", code, _SOURCE).launch(1, 1, shape=shape)
        threads, rows, self._shared = (int(value) for value in shape.get())
        if batch % rows:
            raise ValueError(f"{batch} rows of {size} values are no whole number of blocks of {rows}")
        self._block, self._grid = (threads, rows), batch // rows

    def __call__(self, source: DeviceArray, result: DeviceArray, stream: Stream) -> None:
        """Enqueue the transforms; `result` may be `source`."""
        self._transform.launch(
            self._grid, self._block, source=source, result=result, shared=self._shared, stream=stream
        )


def main(folder: Path, arch: str = "sm_90a") -> None:
    """Compile for ``ryle bench channelize --cufftdx FOLDER``."""
    compile_all(folder, arch)


if __name__ == "__main__":
    import typer

    typer.run(main)
