"""The channelizer on a CPU.

An input's spectra are worked on in batches small enough to stay in cache: unpack the samples that the batch reads,
filter and transform a few rows at a time, then turn, scale, dither, quantize and transpose tiles of 64 channels by 64
spectra straight into the output. No value depends on which batch or row it falls in, so that a stream cut into chunks
gives the same bits as the whole; the Fourier transform is always given a multiple of 16 rows because the library
vectorizes over rows and treats a remainder differently.

Turns are products of two single-precision factors rounded from double precision, each within 2^-24, so that their
error does not grow with the number of channels. The whole chain is within 1e-6 (relative r.m.s.) of the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ducc0
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize import _native
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
from ryle.channelize.validity import whole_windows, window_starts
from ryle.chunk import BLOCK, SampleChunk, SampleWindow
from ryle.wire import _native as wire_native
from ryle.wire.samples import sum_squares

_LINE = 16  # floats in a cache line
_ROWS = 16  # the Fourier transform's rows come in multiples of this, the widest vector the library uses
_FFT_SAMPLES = 1 << 17  # samples that are filtered and transformed together: half a megabyte


def instruction_sets() -> tuple[str, ...]:
    """List the forms of the hot loops that this machine can run, the fastest first."""
    return tuple(_native.instruction_sets())


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _aligned(rows: int, columns: int) -> NDArray[np.float32]:
    """Make zeros of which every 16th column is on a cache line, if `columns` is a multiple of 16."""
    flat = np.zeros(rows * columns + _LINE, np.float32)
    skip = -(flat.ctypes.data // 4) % _LINE
    return flat[skip : skip + rows * columns].reshape(rows, columns)


@dataclass(slots=True)
class _Batch:
    """Rows [row, row + rows) of one input, filtered and transformed: interleaved complex float32, padded at the end."""

    row: int
    rows: int
    spectra: NDArray[np.float32]


class _Workspace:
    """Buffers of one thread.

    A row is filtered, transformed and read in one place, `frames`. The real transform leaves Re 0, Re 1, Im 1, Re 2,
    Im 2, ...; with Re 0 moved one place down and a zero put where it was, channels lie in pairs from the place before.
    """

    def __init__(self, config: ChannelizerConfig, batch_rows: int) -> None:
        floats = 2 * config.channels
        padded = _round_up(floats, 2 * _native.TILE)
        self.samples = np.empty(0, np.float32)
        # Rows a power of two apart would evict one another from the first-level cache, where the transform reads
        # sixteen of them at a time; the line before each row keeps them apart.
        rows = _aligned(batch_rows, _LINE + padded + (_LINE if padded > floats else 0))
        first = _LINE if config.complex_input else _LINE - 1
        self.frames = rows[:, _LINE : _LINE + floats]
        self.before = rows[:, _LINE - 1]
        self.spectra = rows[:, first : first + padded]

    def sample_buffer(self, count: int) -> NDArray[np.float32]:
        if self.samples.size < count:
            self.samples = _aligned(1, _round_up(count, _LINE))[0]
        return self.samples[:count]


class CpuChannelizer:
    """Fast form of `ryle.channelize.Channelizer` for a CPU.

    Parameters
    ----------
    config : ChannelizerConfig
        What to compute.
    isa : str
        Instruction set to use, one of `instruction_sets`; the fastest by default.
    """

    def __init__(self, config: ChannelizerConfig, isa: str = "") -> None:
        if isa and isa not in instruction_sets():
            raise ValueError(f"this machine has no instruction set {isa!r}; use one of {', '.join(instruction_sets())}")
        self.config = config
        self.isa = isa
        self.gains = checked_gains(config, 1.0)
        self._parts = 2 if config.complex_input else 1  # values of a sample
        self._step = config.step * self._parts  # values from one spectrum to the next, always 2·channels
        self._fft_rows = max(_ROWS, _FFT_SAMPLES // self._step // _ROWS * _ROWS)
        self._batch_rows = _round_up(self._fft_rows, BLOCK)
        self._weights = self._weight_blocks()
        self._pool = ThreadPoolExecutor(config.threads, "channelize") if config.threads > 1 else None
        self._workspaces: list[_Workspace] = []

    def set_gains(self, gains: ArrayLike) -> None:
        """Set the complex gains, broadcast to (input, channel)."""
        self.gains = checked_gains(self.config, gains)

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
        check_arguments(config, chunk, first_spectrum, spectra, delays)
        data = prepared_output(config, first_spectrum, spectra, layout, out)
        starts, valid = self._windows(chunk, first_spectrum, delays)
        saturated = np.zeros(config.inputs, np.int64)
        power = np.zeros(config.inputs, np.float64 if config.bits == 32 else np.int64)
        count = np.zeros(config.inputs, np.int64)
        flat = data.reshape(-1).view(np.uint8)

        def one_input(i: int) -> None:
            workspace = self._borrow()
            place = self._place(layout, data, i)
            for batch in self._batches(workspace, chunk, i, starts[i], valid[i]):
                saturated[i] += _native.quantize(
                    batch.spectra,
                    *self._turns(delays, valid, i, batch),
                    config.slope,
                    self.gains[i],
                    config.dither == "uniform",
                    config.seed,
                    first_spectrum + batch.row,
                    config.input_offset + i,
                    config.limit,
                    *place[:1],
                    flat,
                    *place[1:],
                    batch.row,
                    self.isa,
                )
            power[i], count[i] = self._input_power(chunk, i, starts[i], valid[i])
            self._workspaces.append(workspace)

        self._each_input(one_input)
        return Spectra(first_spectrum, data, valid, saturated, power, count, layout)

    def spectra_float(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays
    ) -> tuple[NDArray[np.complexfloating[Any, Any]], NDArray[np.bool_]]:
        """Give the values before dither and quantization, complex64 (input, spectrum, channel), and validity."""
        config = self.config
        check_arguments(config, chunk, first_spectrum, spectra, delays)
        starts, valid = self._windows(chunk, first_spectrum, delays)
        values = np.empty((config.inputs, spectra, config.channels), np.complex64)

        def one_input(i: int) -> None:
            workspace = self._borrow()
            for batch in self._batches(workspace, chunk, i, starts[i], valid[i]):
                turns = self._turns(delays, valid, i, batch)
                to = values[i, batch.row : batch.row + batch.rows]
                _native.rotate(batch.spectra, *turns, config.slope, self.gains[i], to, self.isa)
            self._workspaces.append(workspace)

        self._each_input(one_input)
        return values, valid

    def _each_input(self, work: Any) -> None:
        inputs = range(self.config.inputs)
        for _ in self._pool.map(work, inputs) if self._pool else map(work, inputs):
            pass

    def _borrow(self) -> _Workspace:
        try:
            return self._workspaces.pop()  # one step, so that no two threads can take the same
        except IndexError:
            return _Workspace(self.config, self._batch_rows)

    def _weight_blocks(self) -> NDArray[np.float32]:
        """Weights in the order the filter reads them, [column block][tap][column], padded with zeros.

        Complex samples meet each weight twice, for their two parts; the alternating sign puts frequency 0 at channel
        n/2 (n is even, so the sign depends on the column alone).
        """
        config = self.config
        weights = config.prototype()
        if config.complex_input:
            weights = np.repeat(weights * np.where(np.arange(weights.size) % 2, -1.0, 1.0), 2)
        columns = _native.COLUMNS
        padded = np.zeros((config.taps, _round_up(self._step, columns)), np.float32)
        padded[:, : self._step] = weights.reshape(config.taps, self._step)
        return np.ascontiguousarray(padded.reshape(config.taps, -1, columns).swapaxes(0, 1)).reshape(-1)

    def _windows(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, delays: Delays
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """First sample of each spectrum's window, counted from the chunk's first, and whether all of it is there."""
        config = self.config
        starts = window_starts(delays.coarse, first_spectrum, config.step, chunk.timestamp)
        return starts, whole_windows(starts, config.window_samples, chunk.present, chunk.packet_samples)

    def _batches(
        self,
        workspace: _Workspace,
        chunk: SampleChunk | SampleWindow,
        i: int,
        starts: NDArray[np.int64],
        valid: NDArray[np.bool_],
    ) -> Iterator[_Batch]:
        config, parts, step = self.config, self._parts, self._step
        conjugated = i in config.conjugated
        window = config.taps * step
        for row in range(0, starts.size, self._batch_rows):
            rows = min(self._batch_rows, starts.size - row)
            wanted = valid[row : row + rows]
            if wanted.any():
                ends = np.full(_round_up(rows, _ROWS), -1, np.int64)  # of windows, in values of the packed stream
                ends[:rows][wanted] = starts[row : row + rows][wanted] * parts + window
                low = int(ends[ends >= 0].min()) - window
                high = int(ends.max())
                samples = workspace.sample_buffer(high - low)
                offsets = np.where(ends >= 0, ends - window - low, -1)
                unpacked = low
                for r in range(0, ends.size, self._fft_rows):
                    group = slice(r, r + self._fft_rows)
                    # Unpack just before the filter reads: the samples are then still in cache.
                    end = int(ends[group].max())
                    if end > unpacked:
                        fresh = samples[unpacked - low : end - low]
                        for piece, first, at, count in self._stretches(chunk, i, unpacked, end):
                            wire_native.unpack(piece, config.bits, first, fresh[at : at + count], self.isa)
                        if conjugated:
                            fresh[1::2] *= -1
                        unpacked = end
                    frames = workspace.frames[group]
                    _native.fir(samples, offsets[group], self._weights, config.taps, frames, step, self.isa)
                    self._transform(frames[: ends.size - r], workspace.before[group])
            yield _Batch(row, rows, workspace.spectra)

    def _stretches(
        self, chunk: SampleChunk | SampleWindow, i: int, low: int, high: int
    ) -> Iterator[tuple[NDArray[np.uint8], int, int, int]]:
        """Find the pieces that hold the values [low, high) of an input.

        Gives each one's packed bytes, the first value in it, where that is from `low` on, and how many they are.
        """
        begin = 0
        for piece in chunk.pieces:
            end = begin + piece.samples * self._parts
            first, last = max(low, begin), min(high, end)
            if first < last:
                yield piece.data[i].reshape(-1), first - begin, first - low, last - first
            begin = end

    def _transform(self, frames: NDArray[np.float32], before: NDArray[np.float32]) -> None:
        if self.config.complex_input:
            values = frames.view(np.complex64)
            ducc0.fft.c2c(values, axes=(1,), out=values)
        else:
            ducc0.fft.r2r_fftpack(frames, axes=(1,), real2hermitian=True, forward=True, out=frames)
            before[: len(frames)] = frames[:, 0]
            frames[:, 0] = 0

    def _turns(
        self, delays: Delays, valid: NDArray[np.bool_], i: int, batch: _Batch
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Give validity, fine delay, phase and quarter turns of a batch's spectra."""
        span = slice(batch.row, batch.row + batch.rows)
        coarse = np.asarray(delays.coarse[i, span], np.int64)
        return (
            valid[i, span].view(np.uint8),
            np.ascontiguousarray(delays.fine[i, span], np.float64),
            np.ascontiguousarray(delays.phase[i, span], np.float64),
            np.zeros_like(coarse) if self.config.complex_input else coarse & 3,
        )

    def _place(self, layout: Layout, data: NDArray[Any], i: int) -> tuple[int, int, int, int, int, int]:
        """Give the form of the output, an input's offset, strides of channel, group and spectrum, length of a group."""
        strides = data.strides
        if isinstance(layout, Blocks):
            return 0, strides[2] * i, strides[0], strides[1], 0, BLOCK
        antenna, pol = divmod(i, layout.pols)
        if isinstance(layout, Rows):
            return 0, antenna * strides[1] + pol * strides[3], strides[2], strides[0], 0, BLOCK
        form = 1 if self.config.output_bits == 8 else 2
        offset = antenna * strides[0] + pol * strides[4]
        return form, offset, strides[2], strides[1], strides[3], layout.spectra

    def _input_power(
        self, chunk: SampleChunk | SampleWindow, i: int, starts: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> tuple[float, int]:
        """Sum of squares and number of the samples that an input's valid spectra advance over."""
        step, parts = self.config.step, self._parts
        begins = starts[valid]
        runs = np.flatnonzero(np.diff(begins, prepend=-1 - step) != step)  # where one does not follow from the last
        power: float = 0
        for first, length in zip(begins[runs], np.diff(runs, append=begins.size), strict=True):
            low = int(first) * parts
            for packed, begin, _, count in self._stretches(chunk, i, low, low + int(length) * self._step):
                power += sum_squares(packed, self.config.bits, begin, count, isa=self.isa)
        return power, begins.size * step
