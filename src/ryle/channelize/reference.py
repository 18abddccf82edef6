"""The channelizer in double precision, one spectrum at a time: what the other forms are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize.channelizer import (
    Blocks,
    ChannelizerConfig,
    Layout,
    Rows,
    Spectra,
    check_arguments,
    checked_gains,
    prepared_output,
)
from ryle.channelize.dither import dither
from ryle.chunk import BLOCK, SampleChunk, SampleWindow, rows_from_parts
from ryle.wire.samples import unpack_reference


class ReferenceChannelizer:
    """Double-precision form of `ryle.channelize.Channelizer`; slow, and meant to be read."""

    def __init__(self, config: ChannelizerConfig) -> None:
        self.config = config
        self.weights = config.prototype()
        self.gains = checked_gains(config, 1.0)

    def set_gains(self, gains: ArrayLike) -> None:
        """Set the complex gains, broadcast to (input, channel)."""
        self.gains = checked_gains(self.config, gains)

    def spectra_float(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays
    ) -> tuple[NDArray[np.complexfloating[Any, Any]], NDArray[np.bool_]]:
        """Give the values before dither and quantization, complex128 (input, spectrum, channel), and validity."""
        check_arguments(self.config, chunk, first_spectrum, spectra, delays)
        config, chunk = self.config, _whole(chunk)
        n, step, window = config.channels, config.step, config.window_samples
        values = np.zeros((config.inputs, spectra, n), np.complex128)
        valid = np.zeros((config.inputs, spectra), np.bool_)
        for i in range(config.inputs):
            samples, present = self._samples(chunk, i)
            for s in range(spectra):
                coarse = int(delays.coarse[i, s])
                start = step * (first_spectrum + s) - coarse - chunk.timestamp
                if start < 0 or start + window > len(samples) or not present[start : start + window].all():
                    continue
                valid[i, s] = True
                filtered = (samples[start : start + window] * self.weights).reshape(config.taps, step).sum(axis=0)
                offset = np.arange(n) - n / 2
                if config.complex_input:
                    spectrum = np.fft.fftshift(np.fft.fft(filtered))
                    turn = -2 * np.pi * delays.fine[i, s] * offset / n + delays.phase[i, s]
                else:
                    spectrum = np.fft.rfft(filtered)[:n]
                    turn = -np.pi * delays.fine[i, s] * offset / n + delays.phase[i, s] + np.pi / 2 * (coarse % 4)
                values[i, s] = spectrum * np.exp(1j * turn) * self.gains[i]
        return values, valid

    def process(
        self,
        chunk: SampleChunk | SampleWindow,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout,
        out: NDArray[Any] | None = None,
    ) -> Spectra:
        """Channelize the spectra [first_spectrum, first_spectrum + spectra); see `ryle.channelize.Channelizer`."""
        config = self.config
        data = prepared_output(config, first_spectrum, spectra, layout, out)
        values, valid = self.spectra_float(chunk, first_spectrum, spectra, delays)
        parts = np.stack([values.real, values.imag], axis=-1)
        if config.dither == "uniform":
            for i, s in np.argwhere(valid):
                parts[i, s] += dither(
                    config.seed, config.input_offset + int(i), first_spectrum + int(s), config.channels
                )
        rounded = np.rint(parts)
        saturated = np.any(np.abs(rounded) > config.limit, axis=-1).sum(axis=(1, 2))
        quantized = np.clip(rounded, -config.limit, config.limit).astype(np.int8)
        self._lay_out(quantized, layout, data)
        power, count = self._input_power(_whole(chunk), first_spectrum, delays, valid)
        return Spectra(first_spectrum, data, valid, saturated.astype(np.int64), power, count, layout)

    def _samples(self, chunk: SampleChunk, i: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Give the samples of an input, zero where missing, and whether each is present."""
        present = np.repeat(chunk.present[i] != 0, chunk.packet_samples)
        samples = unpack_reference(
            chunk.data[i].reshape(-1), self.config.bits, complex_samples=self.config.complex_input
        )
        if i in self.config.conjugated:
            samples = np.conj(samples)
        return np.where(present, samples, 0), present

    def _input_power(
        self, chunk: SampleChunk, first: int, delays: Delays, valid: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Sum of squares and number of the first `step` samples of every valid spectrum's window."""
        config = self.config
        power = np.zeros(config.inputs, np.float64 if config.bits == 32 else np.int64)
        for i in range(config.inputs):
            samples, _ = self._samples(chunk, i)
            squares = np.abs(samples) ** 2 if config.bits == 32 else _squares(samples)
            for s in np.flatnonzero(valid[i]):
                start = config.step * (first + int(s)) - int(delays.coarse[i, s]) - chunk.timestamp
                power[i] += np.sum(squares[start : start + config.step])
        return power, valid.sum(axis=1, dtype=np.int64) * config.step

    def _lay_out(self, quantized: NDArray[np.int8], layout: Layout, data: NDArray[Any]) -> None:
        """Rearrange int8 (input, spectrum, channel, 2)."""
        inputs, spectra, channels, _ = quantized.shape
        if isinstance(layout, Blocks):
            blocks = quantized.reshape(inputs, spectra // BLOCK, BLOCK, channels, 2)
            data[...] = rows_from_parts(blocks.transpose(3, 1, 0, 2, 4))
            return
        if isinstance(layout, Rows):
            blocks = quantized.reshape(-1, layout.pols, spectra // BLOCK, BLOCK, channels, 2)
            data[...] = rows_from_parts(blocks.transpose(2, 0, 4, 1, 3, 5))
            return
        heaps = quantized.reshape(-1, layout.pols, spectra // layout.spectra, layout.spectra, channels, 2)
        ordered = heaps.transpose(0, 2, 4, 3, 1, 5)
        if self.config.output_bits == 8:
            data[...] = ordered
        else:
            data[...] = (ordered[..., 0].view(np.uint8) << 4) | (ordered[..., 1].view(np.uint8) & 15)


def _whole(chunk: SampleChunk | SampleWindow) -> SampleChunk:
    return chunk if isinstance(chunk, SampleChunk) else chunk.gathered()


def _squares(samples: NDArray[Any]) -> NDArray[np.int64]:
    """Squared magnitudes of integer-valued samples as exact integers."""
    real, imag = samples.real.astype(np.int64), samples.imag.astype(np.int64)
    squares: NDArray[np.int64] = real * real + imag * imag
    return squares
