"""NVIDIA's product of int8 matrices, by ctypes, to compare with: int32 sums of C = Aᵀ B, which is its fastest form.

The library is sought where Python packages put it (``pip install 'ryle[bench]'``) and then where the system has it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ryle.bench.nvidia import load_library
from ryle.gpu.interface import DeviceArray, Gpu, Stream

__all__ = ["MatrixProduct"]

_INT8, _INT32, _COMPUTE_INT32 = 3, 10, 72  # of library_types.h and cublas_api.h
_TRANSPOSE_A, _TRANSPOSED = 3, 1  # of cublasLt.h


@cache
def _library() -> Any:
    return load_library("cublasLt", (13, 12), "NVIDIA's cuBLASLt")


def _call(name: str, *args: Any) -> None:
    status = getattr(_library(), name)(*args)
    if status:
        raise RuntimeError(f"cuBLASLt: {name} failed with status {status} (see cublasStatus_t in its documentation)")


class MatrixProduct:
    """The product of two square matrices of bytes.

    Parameters
    ----------
    gpu : Gpu
        Where.
    factors : DeviceArray
        Both matrices, one after the other.
    size : int
        Rows of a matrix, a multiple of 16.

    Raises
    ------
    GpuUnavailable
        If the library is not installed.
    """

    def __init__(self, gpu: Gpu, factors: DeviceArray, size: int) -> None:
        _library()
        self._factors = factors.view((2, size, size), np.int8)
        #: What numpy calls ``factors[1] @ factors[0].T``.
        self.result = gpu.empty((size, size), np.int32)
        self._room = gpu.empty((1 << 25,), np.uint8)
        self._one, self._zero = ctypes.c_int32(1), ctypes.c_int32(0)
        self._handle, self._operation, self._input, self._output = (ctypes.c_void_p() for _ in range(4))
        _call("cublasLtCreate", ctypes.byref(self._handle))
        _call("cublasLtMatmulDescCreate", ctypes.byref(self._operation), _COMPUTE_INT32, _INT32)
        value = ctypes.c_int32(_TRANSPOSED)
        _call("cublasLtMatmulDescSetAttribute", self._operation, _TRANSPOSE_A, ctypes.byref(value), ctypes.c_size_t(4))
        sizes = ctypes.c_uint64(size), ctypes.c_uint64(size), ctypes.c_int64(size)
        _call("cublasLtMatrixLayoutCreate", ctypes.byref(self._input), _INT8, *sizes)
        _call("cublasLtMatrixLayoutCreate", ctypes.byref(self._output), _INT32, *sizes)
        self.operations = 2.0 * size**3
        self.nbytes = 6.0 * size**2  # two bytes read, four written

    def __call__(self, stream: Stream) -> None:
        """Enqueue the product."""
        a = self._factors.pointer
        _call(
            "cublasLtMatmul",
            self._handle,
            self._operation,
            ctypes.byref(self._one),
            ctypes.c_void_p(a),
            self._input,
            ctypes.c_void_p(a + self._factors.nbytes // 2),
            self._input,
            ctypes.byref(self._zero),
            ctypes.c_void_p(self.result.pointer),
            self._output,
            ctypes.c_void_p(self.result.pointer),
            self._output,
            None,  # the algorithm that the library thinks best
            ctypes.c_void_p(self._room.pointer),
            ctypes.c_size_t(self._room.nbytes),
            ctypes.c_void_p(stream.handle),
        )
