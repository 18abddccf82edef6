"""NVIDIA's Fourier transforms, by ctypes: batches of one-dimensional ones, to compare with and to build on.

The library is sought where Python packages put it (``pip install 'ryle[bench]'``) and then where the system has it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ryle.bench.nvidia import load_library
from ryle.gpu.interface import DeviceArray, GpuUnavailable, Stream

__all__ = ["KINDS", "Cufft", "Plan", "cufft_problem"]

_FORWARD = -1
_REAL_32, _COMPLEX_32, _REAL_16, _COMPLEX_16 = 0, 4, 2, 6  # cudaDataType
#: Kinds of transform: what goes in, what comes out and what it is calculated in, as cudaDataType.
KINDS = {
    "r2c": (_REAL_32, _COMPLEX_32, _COMPLEX_32),
    "c2c": (_COMPLEX_32, _COMPLEX_32, _COMPLEX_32),
    "r2c half": (_REAL_16, _COMPLEX_16, _COMPLEX_16),
    "c2c half": (_COMPLEX_16, _COMPLEX_16, _COMPLEX_16),
}


@cache
def _library() -> Any:
    return load_library("cufft", (12, 11), "NVIDIA's FFT library cuFFT")


def cufft_problem() -> str | None:
    """Say why cuFFT cannot be used, or None."""
    try:
        _library()
    except GpuUnavailable as error:
        return str(error)
    return None


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"cuFFT: {what} failed with status {status} (see cufftResult in its documentation)")


class Plan:
    """Forward transforms of `batch` successive rows.

    Parameters
    ----------
    kind : str
        One of `KINDS`. Real rows have `size` values and give ``size/2 + 1``.
    size, batch : int
        Length of a transform and number of rows.

    Raises
    ------
    GpuUnavailable
        If the library is not installed.
    RuntimeError
        If it refuses the plan; half precision needs powers of two.
    """

    def __init__(self, kind: str, size: int, batch: int) -> None:
        library = _library()
        self.kind, self.size, self.batch = kind, size, batch
        self._handle = ctypes.c_int()
        self._alive = False
        _check(library.cufftCreate(ctypes.byref(self._handle)), "making a plan")
        self._alive = True
        lengths, work = (ctypes.c_longlong * 1)(size), ctypes.c_size_t()
        before, after, inside = KINDS[kind]
        status = library.cufftXtMakePlanMany(
            self._handle, 1, lengths,
            None, ctypes.c_longlong(1), ctypes.c_longlong(0), before,
            None, ctypes.c_longlong(1), ctypes.c_longlong(0), after,
            ctypes.c_longlong(batch), ctypes.byref(work), inside,
        )  # fmt: skip
        _check(status, f"planning {batch} {kind} transforms of {size}")
        #: Bytes of device memory that the library holds for the plan.
        self.work_bytes = int(work.value)

    def __call__(self, source: DeviceArray, result: DeviceArray, stream: Stream) -> None:
        """Enqueue the transforms; `result` may be `source` for complex rows."""
        library = _library()
        _check(library.cufftSetStream(self._handle, ctypes.c_void_p(stream.handle)), "choosing a stream")
        pointers = ctypes.c_void_p(source.pointer), ctypes.c_void_p(result.pointer)
        _check(library.cufftXtExec(self._handle, *pointers, _FORWARD), f"a {self.kind} transform")

    def __del__(self) -> None:
        if getattr(self, "_alive", False):
            _library().cufftDestroy(self._handle)


class Cufft:
    """cuFFT as what `ryle.bench.three_kernels` takes its transforms from."""

    name = "cuFFT"

    def plan(self, size: int, batch: int) -> Plan:
        """Plan complex single-precision transforms."""
        return Plan("c2c", size, batch)
