"""Copies within a GPU's memory, the limit that its operations are held against, and random bytes to fill it with.

There is one measurement of a copy, for all benchmarks: `COPY_BYTES` from one array to another, far more than caches
hold, bytes read and bytes written added up, by a plain kernel and by the driver; the faster of the two is what the
memory can do. The driver's copy is enqueued: as a part of a CUDA graph it is carried out by other means, on an H200 at
two thirds of the rate.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.bench.gpu_timing import Launch, Times, interleave, record
from ryle.gpu.interface import DeviceArray, Gpu, Stream

SOURCE = Path(__file__).with_name("memory.cu")
COPY_BYTES = 1 << 30
_WORD = 16  # bytes that a thread moves at once
_BLOCK_WORDS = 2048  # of a block of the copy kernel
_PATTERN = 1 << 26  # bytes


def random_bytes(gpu: Gpu, nbytes: int, lowest: int = -128) -> DeviceArray:
    """Make random bytes on the GPU: a pattern of up to 64 MiB over and over.

    Parameters
    ----------
    gpu : Gpu
        Where.
    nbytes : int
        How many at least; a multiple of 16 is made.
    lowest : int
        Least value of a byte, as a signed number; the highest is 127.

    Returns
    -------
    DeviceArray of int8, one axis
    """
    words = -(-min(nbytes, _PATTERN) // _WORD)
    pattern = np.random.default_rng().integers(lowest, 128, words * _WORD, dtype=np.int8)
    return repeated(gpu, pattern, nbytes)


def repeated(gpu: Gpu, pattern: NDArray[Any], nbytes: int) -> DeviceArray:
    """Fill at least `nbytes` of the GPU's memory with a pattern of a multiple of 16 bytes, again and again."""
    rows, words = -(-nbytes // pattern.nbytes), pattern.nbytes // _WORD
    result = gpu.empty((rows * pattern.size,), pattern.dtype)
    grid = max(1, min(words // 256, 65535)), rows
    gpu.kernel(SOURCE, "repeat", {}).launch(grid, 256, rows=result, pattern=gpu.array(pattern), words=np.int64(words))
    gpu.default_stream.synchronize()
    return result


def copies(gpu: Gpu, source: DeviceArray, target: DeviceArray) -> tuple[dict[str, Launch], int]:
    """Give the ways to copy from one array to another, and the bytes that each reads and writes.

    Parameters
    ----------
    gpu : Gpu
        Where.
    source, target : DeviceArray
        Apart from each other; the first `COPY_BYTES` of them are used, or what both have.
    """
    size = min(COPY_BYTES, source.nbytes, target.nbytes) // _WORD * _WORD
    from_, to = source.view(size, np.uint8), target.view(size, np.uint8)
    kernel, words = gpu.kernel(SOURCE, "copy", {}), size // _WORD

    def by_kernel(stream: Stream) -> None:
        kernel.launch(-(-words // _BLOCK_WORDS), 512, to=to, source=from_, words=np.int64(words), stream=stream)

    return {"kernel": by_kernel, "driver": partial(from_.copy_to, to)}, 2 * size


def copy_times(gpu: Gpu, source: DeviceArray, target: DeviceArray, seconds: float) -> tuple[dict[str, Times], int]:
    """Time the ways to copy, and the driver's as a part of a CUDA graph, in turn; give the bytes moved too."""
    launches, moved = copies(gpu, source, target)
    launches["driver, recorded"] = record(launches["driver"], gpu.stream())
    return interleave(launches, gpu, seconds, recorded=False), moved


def compile_variants() -> list[tuple[Path, dict[str, int]]]:
    """List the kernels that the tests compile for every architecture."""
    return [(SOURCE, {})]
