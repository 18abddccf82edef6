"""Small arrays to a GPU by its own threads, which read them over the bus from page-locked memory.

A copy engine does one copy after the other, and takes turns between streams only in milliseconds: a table of kilobytes
that an engine waits for comes late wherever somebody copies megabytes to the same GPU all the time. A kernel's reads
share the bus with such copies and wait for none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.gpu.interface import DeviceArray, Gpu, Stream, check_columns

SOURCE = Path(__file__).with_name("fetch.cu")
#: Bytes that threads fetch at most; more is for the copy engine.
MOST = 4 << 20
_THREADS, _LOADS = 256, 4


class Fetch:
    """Copies rows from the host, by threads if they are small and page-locked, else by the copy engine.

    Parameters
    ----------
    gpu : Gpu
        Where to.
    blocks : int
        Of threads at most: so few fill the bus, and leave the rest of the GPU to other kernels.
    """

    def __init__(self, gpu: Gpu, blocks: int = 16) -> None:
        self._gpu, self._blocks = gpu, blocks
        self._kernels = {words: gpu.kernel(SOURCE, "fetch", {"WORDS": int(words)}) for words in (False, True)}

    def whole(self, to: DeviceArray, host: NDArray[Any], stream: Stream) -> None:
        """Enqueue a copy of a contiguous array to one of the same shape and type."""
        if self._small(host):
            self._launch(to, 0, host.ctypes.data, (1, host.nbytes, host.nbytes, host.nbytes), stream)
        else:
            to.set(host, stream)

    def columns(self, to: DeviceArray, first: int, host: NDArray[Any], stream: Stream) -> None:
        """Enqueue a copy of the host's rows to the bytes of each row of an array from `first` on.

        As `DeviceArray.set_columns`: rows are what lies behind the first axis, and each is contiguous.
        """
        if not self._small(host) or not host[0].flags.c_contiguous:
            to.set_columns(first, host, stream)
            return
        rows, width, pitch = len(host), host[0].nbytes, to.nbytes // to.shape[0]
        check_columns(to.shape, pitch, first, width)
        self._launch(to, first, host.ctypes.data, (rows, width, host.strides[0], pitch), stream)

    def _small(self, host: NDArray[Any]) -> bool:
        return 0 < host.nbytes <= MOST and self._gpu.is_locked(host)

    def _launch(self, to: DeviceArray, first: int, host: int, sizes: tuple[int, int, int, int], stream: Stream) -> None:
        words = not any(each % 8 for each in (host, to.pointer, first, *sizes[1:]))
        rows, width, apart, pitch = (np.int64(size) for size in sizes)
        each = _THREADS * _LOADS * (8 if words else 1)
        self._kernels[words].launch(
            max(1, min(self._blocks, -(-sizes[0] * sizes[1] // each))),
            _THREADS,
            to=to,
            first=np.uint64(first),
            host=np.uint64(host),
            rows=rows,
            width=width,
            from_pitch=apart,
            to_pitch=pitch,
            stream=stream,
        )


def compile_variants() -> list[tuple[Path, dict[str, int | str]]]:
    """List the variants of the kernels."""
    return [(SOURCE, {"WORDS": words}) for words in (0, 1)]
