"""Packed big-endian samples, the payload of digitizer packets.

Samples of 1-10, 12 or 16 bits are two's complement, most significant bit first, without gaps; one bit is a sign (0 is
+1, 1 is -1). 32 bits are IEEE float32, big-endian. A complex sample is its real part followed by its imaginary part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.wire import _native

#: Bits of one sample (of each part, if complex) that can be packed and unpacked.
SAMPLE_BITS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 32)


def instruction_sets() -> tuple[str, ...]:
    """Forms of the unpacking kernel that this machine can run, the fastest first."""
    return tuple(_native.sample_instruction_sets())


def check_bits(bits: int) -> None:
    """Raise ValueError unless samples of ``bits`` bits can be packed and unpacked."""
    if bits not in SAMPLE_BITS:
        raise ValueError(f"samples of {bits} bits are not supported; use 1 to 10, 12, 16, or 32 (float)")


def packed_bytes(samples: int, bits: int, *, complex_samples: bool = False) -> int:
    """Bytes that hold a number of samples.

    Raises
    ------
    ValueError
        If `bits` is not supported or the samples do not fill whole bytes.
    """
    check_bits(bits)
    total = samples * bits * (2 if complex_samples else 1)
    if total % 8:
        raise ValueError(
            f"{samples} samples of {bits} bits are {total} bits, not whole bytes; use a multiple of 8 samples"
        )
    return total // 8


def unpack(
    data: NDArray[np.uint8],
    bits: int,
    *,
    complex_samples: bool = False,
    isa: str = "",
) -> NDArray[Any]:
    """Unpack samples to single precision.

    Parameters
    ----------
    data : ndarray of uint8, shape (..., bytes)
        Packed samples; each row starts on a sample.
    bits : int
        Bits of a sample (of each part, if complex).
    complex_samples : bool
        Whether successive values are real and imaginary parts.
    isa : str
        Kernel to use, one of `instruction_sets`; the fastest by default.

    Returns
    -------
    ndarray of float32 or complex64, shape (..., samples)
        Integer samples keep their integer values.

    Raises
    ------
    ValueError
        If `bits` is not supported or a row does not hold whole samples.
    """
    check_bits(bits)
    data = np.ascontiguousarray(data, dtype=np.uint8)
    row_bits = data.shape[-1] * 8
    sample_bits = bits * (2 if complex_samples else 1)
    if row_bits % sample_bits:
        raise ValueError(f"{data.shape[-1]} bytes do not hold whole samples of {sample_bits} bits")
    values = np.empty((*data.shape[:-1], row_bits // bits), np.float32)
    _native.unpack(data.reshape(-1), bits, 0, values.reshape(-1), isa)
    return values.view(np.complex64) if complex_samples else values


def unpack_reference(data: NDArray[np.uint8], bits: int, *, complex_samples: bool = False) -> NDArray[Any]:
    """Unpack samples bit by bit in double precision: the oracle of `unpack`, with the same parameters."""
    check_bits(bits)
    data = np.ascontiguousarray(data, dtype=np.uint8)
    if bits == 32:
        values = data.view(">f4").astype(np.float64)
    else:
        digits = np.unpackbits(data, axis=-1).reshape(*data.shape[:-1], -1, bits).astype(np.int64)
        place = 2 ** np.arange(bits - 1, -1, -1, dtype=np.int64)
        place[0] = -place[0]
        integers = digits @ place
        values = (2 * integers + 1 if bits == 1 else integers).astype(np.float64)
    return values.view(np.complex128) if complex_samples else values


def pack(samples: ArrayLike, bits: int) -> tuple[NDArray[np.uint8], int]:
    """Round samples half to even, clamp them symmetrically to ±(2^(bits-1) - 1) and pack them.

    Parameters
    ----------
    samples : array_like, shape (..., samples)
        Integer, real or complex values in units of the least significant bit. One bit keeps the sign only (zero is
        positive); 32 bits keep the single-precision value.
    bits : int
        Bits of a sample (of each part, if complex).

    Returns
    -------
    packed : ndarray of uint8, shape (..., bytes)
        Packed samples.
    saturated : int
        Samples that were clamped, a complex one counted once. NaN becomes the greatest value and counts.

    Raises
    ------
    ValueError
        If `bits` is not supported or a row of samples does not fill whole bytes.
    """
    check_bits(bits)
    values = np.asarray(samples)
    is_complex = np.iscomplexobj(values)
    count = packed_bytes(values.shape[-1], bits, complex_samples=is_complex)
    if values.dtype in (np.float64, np.complex128) and bits not in (1, 32):
        real = np.ascontiguousarray(values).view(np.float64)
        values = np.rint(real).view(values.dtype)  # before single precision could make a half of what is not
    single = np.ascontiguousarray(values, dtype=np.complex64 if is_complex else np.float32)
    packed = np.empty((*values.shape[:-1], count), np.uint8)
    saturated = _native.pack(single.reshape(-1).view(np.float32), bits, 2 if is_complex else 1, packed.reshape(-1))
    return packed, saturated


def sum_squares(data: NDArray[np.uint8], bits: int, first: int, count: int, *, isa: str = "") -> int | float:
    """Sum the squares of values [first, first + count) of one packed row.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        Packed samples, C-contiguous.
    bits : int
        Bits of a value.
    first, count : int
        Range of values; real and imaginary parts are a value each.
    isa : str
        Kernel to use, one of `instruction_sets`; the fastest by default.

    Returns
    -------
    int or float
        Exact for integer samples; in double precision for 32 bits.
    """
    check_bits(bits)
    if bits == 32:
        return _native.sum_squares_float(data, first, count)
    return _native.sum_squares(data, bits, first, count, isa)


def count_levels(
    data: NDArray[np.uint8], bits: int, first: int, count: int, counts: NDArray[np.int64], level: int = 1, isa: str = ""
) -> None:
    """Count how often each level occurs among values [first, first + count) of one packed row.

    Parameters
    ----------
    data, bits, first, count, isa
        As of `sum_squares`.
    counts : ndarray of int64, shape (2·reach + 1,)
        Gets added how often the levels -reach to reach occur; the outermost stand for all beyond them. Floats that are
        no numbers are not counted.
    level : int
        Values that make a level, a power of two; values between two are rounded half to even.
    """
    check_bits(bits)
    _native.count_levels(data, bits, first, count, level, counts, isa)
