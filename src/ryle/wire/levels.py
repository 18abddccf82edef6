"""Samples as channelizers take them, of any described code: decoded for them, and coded by simulated digitizers.

Channelizers unpack two's complement integers, most significant bit first, and big-endian floating point
(`ryle.wire.samples`). Whatever else a description says samples are, they are decoded to the latter: of the numbers that
its ``code`` stands for, or of the levels that VLBI's software correlators take codes for (``levels = "vdif"``), which
are those of recordings (`ryle.wire.vdif.levels`).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.wire import _native, vdif
from ryle.wire.description import Format
from ryle.wire.packets import Parser
from ryle.wire.samples import check_bits
from ryle.wire.tables import Sample

#: Bits of a decoded sample, or of each part of a complex one.
DECODED_BITS = 32
_GRID = 4096  # values that stand for Gaussian noise


def plain(sample: Sample) -> bool:
    """Say whether channelizers take samples as they come."""
    code = "float" if sample.bits == DECODED_BITS else "twos_complement"
    return (sample.code, sample.bit_order, sample.first) == (code, "msb", "real")


class Levels:
    """Decodes and codes the samples of a format.

    Parameters
    ----------
    format : Format
        Packets of samples of one input.

    Raises
    ------
    ValueError
        If samples of such a width cannot be decoded.
    """

    def __init__(self, format: Format) -> None:
        self._sample = format.sample
        check_bits(self._sample.bits)
        self._parser = Parser(format)
        # What the samples of each byte are, where bytes hold whole ones.
        self._table: NDArray[np.uint32] | None = None
        if 8 % self._sample.bits == 0:
            every = np.arange(256, dtype=np.uint8)[:, np.newaxis]
            made = self._of_numbers(self._parser.values(every, 8 // self._sample.bits))
            self._table = made.view(np.uint32).reshape(-1)

    def decode(self, packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Decode samples.

        Parameters
        ----------
        packed : ndarray of uint8, shape (..., bytes)
            As they come in packets.

        Returns
        -------
        ndarray of uint8, shape (..., 4 * values)
            Big-endian float32; real and imaginary parts take turns.
        """
        shape = packed.shape[:-1]
        if self._table is not None:
            flat = np.ascontiguousarray(packed).reshape(-1)
            words = np.empty(flat.size * (8 // self._sample.bits), np.uint32)
            _native.look_up(flat, self._table, words)
            values = words.view(">f4")
        else:
            rows = np.ascontiguousarray(packed).reshape(-1, packed.shape[-1])
            values = self._of_numbers(self._parser.values(rows, packed.shape[-1] * 8 // self._sample.bits))
        values = values.reshape(*shape, -1)
        if self._sample.first == "imag":
            values = np.ascontiguousarray(values.reshape(*shape, -1, 2)[..., ::-1]).reshape(*shape, -1)
        return values.view(np.uint8)

    def _of_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Give the big-endian float32 that the code's numbers are taken for."""
        bits, code = self._sample.bits, self._sample.code
        if self._sample.levels == "vdif" and bits <= 8:
            codes = numbers.astype(np.int64)
            codes = codes + (1 << bits - 1) if code == "offset_binary" else codes + (1 << bits) - 1 >> 1
            return vdif.levels(bits)[codes].astype(">f4")
        if code == "twos_complement" and bits == 1:
            numbers = 2 * numbers + 1  # a sign, as `ryle.wire.samples` has it
        return numbers.astype(">f4")

    def rms(self, steps: float) -> float:
        """Root mean square of what is decoded, if it was noise of so many steps from one code to the next."""
        noise = np.array([NormalDist().inv_cdf((k + 0.5) / _GRID) for k in range(_GRID)], np.float32)
        decoded = self.decode(self.encode(noise * np.float32(steps))[0]).view(">f4")
        return float(np.sqrt(np.mean(np.square(decoded, dtype=np.float64))))

    @property
    def _halves(self) -> bool:
        """Whether levels lie half a step on either side of zero, so that none is zero."""
        sample = self._sample
        return sample.bits in (1, 2, 8) if sample.levels == "vdif" else sample.code == "symmetric"

    def encode(self, steps: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Quantize samples as a digitizer does whose codes these are.

        Parameters
        ----------
        steps : ndarray of float32, shape (..., values)
            Voltages in steps from one code to the next; parts of complex samples take turns, the real one first.

        Returns
        -------
        packed : ndarray of uint8, shape (..., bytes)
        beyond : ndarray of bool, shape (..., values)
            What lay beyond the codes' range.
        """
        sample = self._sample
        if sample.first == "imag":
            steps = steps.reshape(*steps.shape[:-1], -1, 2)[..., ::-1].reshape(steps.shape)
        if sample.bits == DECODED_BITS:
            wide = f"{'>' if sample.bit_order == 'msb' else '<'}{'f' if sample.code == 'float' else 'i'}4"
            return np.ascontiguousarray(steps, wide).view(np.uint8), np.zeros(steps.shape, np.bool_)
        half, most = 1 << sample.bits - 1, (1 << sample.bits) - 1
        wanted = np.floor(steps) + half if self._halves else np.rint(steps) + half
        codes = np.clip(np.nan_to_num(wanted), 0, most).astype(np.uint16)
        beyond: NDArray[np.bool_] = wanted != codes
        if sample.code == "twos_complement":
            codes ^= np.uint16(half)
        return _packed(codes, sample.bits, sample.bit_order == "msb"), beyond


def _packed(codes: NDArray[np.uint16], bits: int, msb: bool) -> NDArray[np.uint8]:
    """Put codes one behind the other, shape (..., codes) to (..., bytes)."""
    if bits == 16:
        return np.ascontiguousarray(codes, ">u2" if msb else "<u2").view(np.uint8)
    if 8 % bits == 0:
        of_byte = codes.astype(np.uint8).reshape(*codes.shape[:-1], -1, 8 // bits)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        packed: NDArray[np.uint8] = np.bitwise_or.reduce(of_byte << (shifts[::-1] if msb else shifts), axis=-1)
        return packed
    significance = np.arange(bits, dtype=np.uint16)
    digits = codes[..., np.newaxis] >> (significance[::-1] if msb else significance) & 1
    flat = digits.astype(np.uint8).reshape(*codes.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="big" if msb else "little")
