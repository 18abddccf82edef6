"""Digitizers: voltages to packed samples, coded as the packets' format has them, and what a digitizer reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import Observation
from ryle.wire.samples import pack, packed_bytes

#: Bins of a histogram, about; with more bits than these need, several codes share one.
HISTOGRAM_BINS = 1024


@dataclass(slots=True)
class DigitizedChunk(SampleChunk):
    """Packed samples as a digitizer sends them.

    Parameters
    ----------
    saturated : ndarray of uint32, shape (input, packet)
        Samples of each packet that were beyond the scale, complex ones counted once.
    """

    saturated: NDArray[np.uint32]


class Digitizer:
    """Quantizes inputs and keeps statistics of every sample made so far.

    Statistics are of two's complement codes, whatever the format's: codes that lie half a step off zero count as those
    next to them.

    Attributes
    ----------
    histogram : ndarray of int64, shape (input, bin)
        Values (each part, if complex) in each bin; bin ``b`` is centred on ``codes[b]`` ADC steps.
    codes : ndarray of float64, shape (bin,)
        ADC steps.
    saturated : ndarray of int64, shape (input,)
        Samples beyond the scale.
    sum_squares : ndarray of float64, shape (input,)
        Of the quantized values, both parts of complex ones.
    samples : int
        Samples of each input, complex ones counted once.
    """

    def __init__(self, observation: Observation, inputs: int) -> None:
        self.bits = observation.digitizer.bits
        self.complex = observation.digitizer.complex
        self.packet_samples = observation.digitizer.heap_samples
        self._levels = observation.levels
        self.greatest = (1 << (self.bits - 1)) - 1
        reach = self.greatest if 1 < self.bits < 32 else 1 if self.bits == 1 else HISTOGRAM_BINS // 2 - 1
        self._step = max(1, 2 * (reach + 1) // HISTOGRAM_BINS)
        self._reach = round(reach / self._step)
        self.codes = np.arange(-self._reach, self._reach + 1, dtype=np.float64) * self._step
        self.histogram = np.zeros((inputs, len(self.codes)), np.int64)
        self.saturated = np.zeros(inputs, np.int64)
        self.sum_squares = np.zeros(inputs)
        self.samples = 0

    @property
    def rms(self) -> NDArray[np.float64]:
        """Root mean square of the quantized values (of each part, if complex), ADC steps, shape (input,)."""
        values = self.samples * (2 if self.complex else 1)
        return np.sqrt(self.sum_squares / max(values, 1))

    def digitize(self, timestamp: int, voltages: NDArray[Any]) -> DigitizedChunk:
        """Quantize voltages in ADC steps, shape (input, samples), whole packets long."""
        inputs, samples = voltages.shape
        packets = samples // self.packet_samples
        shape = (inputs, packets)
        row = packed_bytes(self.packet_samples, self.bits, complex_samples=self.complex)
        data = np.empty((*shape, row), np.uint8)
        saturated = np.zeros(shape, np.uint32)
        for i, wave in enumerate(voltages):
            split = wave.reshape(packets, self.packet_samples)
            data[i], over = self._packed(split)
            saturated[i] = np.count_nonzero(over, axis=1)
            self._count(i, np.ascontiguousarray(wave).view(np.float32))
        self.saturated += saturated.sum(axis=1, dtype=np.int64)
        self.samples += samples
        return DigitizedChunk(timestamp, data, np.ones(shape, np.uint8), self.packet_samples, saturated)

    def _packed(self, split: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Pack samples, shape (packet, samples), and say which were beyond the scale; of 1 and 32 bits none is."""
        over: NDArray[np.bool_]
        if self._levels is not None:
            packed, parts = self._levels.encode(np.ascontiguousarray(split).view(np.float32))
            over = np.asarray(parts.reshape(*split.shape, -1).any(axis=-1))
        else:
            packed, _ = pack(split, self.bits)
            # A half rounds to even, and the code beyond the greatest is even.
            beyond = self.greatest + 0.5
            over = np.abs(split.real) >= beyond
            if self.complex:
                over |= np.abs(split.imag) >= beyond
        if not 1 < self.bits < 32:
            over = np.zeros(split.shape, np.bool_)
        return packed, over

    def _count(self, i: int, values: NDArray[np.float32]) -> None:
        """Add values to the histogram and the power."""
        if self.bits == 1:
            self.histogram[i] += np.bincount(2 * (values >= 0).astype(np.intp), minlength=3)
            self.sum_squares[i] += values.size
            return
        if self.bits == 32:
            self.sum_squares[i] += float(np.square(values, dtype=np.float64).sum())
            codes = np.rint(np.clip(values, -self._reach, self._reach))
        else:
            codes = np.clip(np.rint(values), -self.greatest, self.greatest)
            self.sum_squares[i] += float(np.einsum("i,i", codes, codes, dtype=np.float64))
            if self._step > 1:
                codes = np.rint(codes / self._step)
        bins = codes.astype(np.int16) + np.int16(self._reach)
        self.histogram[i] += np.bincount(bins, minlength=len(self.codes))
