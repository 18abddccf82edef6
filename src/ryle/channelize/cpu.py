"""The channelizer on a CPU.

An input's spectra are worked on in batches small enough to stay in cache: unpack the samples that the batch reads,
filter and transform a few rows at a time, then turn, scale, dither, quantize and transpose tiles of 64 channels by 64
spectra straight into the output. All of that is native but for the transform, for which alone the interpreter's lock is
taken: threads that ask for it often wait for one another instead of working. No value depends on which batch or row it
falls in, so that a stream cut into chunks gives the same bits as the whole; the Fourier transform is always given a
multiple of 16 rows because the library vectorizes over rows and treats a remainder differently.

Turns are products of two single-precision factors rounded from double precision, each within 2^-24, so that their
error does not grow with the number of channels. The whole chain is within 1e-6 (relative r.m.s.) of the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

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

_T = TypeVar("_T")
_Part = tuple[int, slice]  # an input, and some of its spectra
_LINE = _native.LEAD  # floats in a cache line
_ROWS = 16  # the Fourier transform's rows come in multiples of this, the widest vector the library uses
_FFT_SAMPLES = 1 << 17  # samples that are filtered and transformed together: half a megabyte
_PARTS = 4  # that a thread gets of a call's work at least, so that none waits long for the last


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


def workspace_rows(config: ChannelizerConfig, rows: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Make the buffers of one thread: rows, and the frames in them that are filtered and transformed in place.

    The real transform leaves Re 0, Re 1, Im 1, Re 2, Im 2, ...; with Re 0 moved one place down and a zero put where it
    was, channels lie in pairs from the place before.
    """
    floats = 2 * config.channels
    padded = _round_up(floats, 2 * _native.TILE)
    # Rows a power of two apart would evict one another from the first-level cache, where the transform reads sixteen
    # of them at a time; the line before each row keeps them apart.
    whole = _aligned(rows, _LINE + padded + (_LINE if padded > floats else 0))
    return whole, whole[:, _LINE : _LINE + floats]


def transform_of(frames: NDArray[np.float32], complex_input: bool) -> Callable[[int, int], None]:
    """Give what transforms some rows of frames in place."""
    values: NDArray[Any] = frames.view(np.complex64) if complex_input else frames

    def transform(row: int, rows: int) -> None:
        some = values[row : row + rows]
        if complex_input:
            ducc0.fft.c2c(some, axes=(1,), out=some)
        else:
            ducc0.fft.r2r_fftpack(some, axes=(1,), real2hermitian=True, forward=True, out=some)

    return transform


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
        self._native = _native.Channelizer(
            config.bits,
            self._parts,
            config.taps,
            config.channels,
            self._weight_blocks(),
            self._fft_rows,
            config.slope,
            self.isa,
        )
        self._pool = ThreadPoolExecutor(config.threads, "channelize") if config.threads > 1 else None
        self._workspaces: list[_native.Workspace] = []

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
        flat = data.reshape(-1).view(np.uint8)

        def one(part: _Part, work: _native.Workspace) -> tuple[int, int, float]:
            i, span = part
            return self._native.quantize(
                self._some(chunk, part, starts, valid, delays),
                work,
                config.dither == "uniform",
                config.seed,
                config.input_offset + i,
                config.limit,
                first_spectrum + span.start,
                *self._place(layout, data, i, flat),
                span.start,
            )

        parts = self._cut(spectra)
        for (i, _), (clamped, exact, total) in zip(parts, self._each(one, parts), strict=True):
            saturated[i] += clamped
            power[i] += total if config.bits == 32 else exact
        count = valid.sum(axis=1, dtype=np.int64) * config.step
        return Spectra(first_spectrum, data, valid, saturated, power, count, layout)

    def spectra_float(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays
    ) -> tuple[NDArray[np.complexfloating[Any, Any]], NDArray[np.bool_]]:
        """Give the values before dither and quantization, complex64 (input, spectrum, channel), and validity."""
        config = self.config
        check_arguments(config, chunk, first_spectrum, spectra, delays)
        starts, valid = self._windows(chunk, first_spectrum, delays)
        values = np.empty((config.inputs, spectra, config.channels), np.complex64)

        def one(part: _Part, work: _native.Workspace) -> None:
            self._native.rotate(self._some(chunk, part, starts, valid, delays), work, values[part])

        for _ in self._each(one, self._cut(spectra)):
            pass
        return values, valid

    def _cut(self, spectra: int) -> list[_Part]:
        """Cut the work of a call into parts of whole batches; a part reads the window before its own once more."""
        config = self.config
        # The power of floats is rounded as it is summed: it must not depend on the number of threads.
        alone = self._pool is None or config.bits == 32
        wanted = 1 if alone else -(-_PARTS * config.threads // config.inputs)
        rows = max(-(-spectra // wanted), _PARTS * config.taps)
        length = _round_up(rows, self._batch_rows)
        spans = [slice(row, min(row + length, spectra)) for row in range(0, spectra, length)]
        return [(i, span) for i in range(config.inputs) for span in spans]

    def _each(self, work: Callable[[_Part, _native.Workspace], _T], parts: Sequence[_Part]) -> Iterable[_T]:
        def with_workspace(part: _Part) -> _T:
            try:
                workspace = self._workspaces.pop()  # one step, so that no two threads can take the same
            except IndexError:
                rows, frames = workspace_rows(self.config, self._batch_rows)
                workspace = _native.Workspace(rows, transform_of(frames, self.config.complex_input))
            result = work(part, workspace)
            self._workspaces.append(workspace)
            return result

        return (self._pool.map if self._pool else map)(with_workspace, parts)

    def _some(
        self,
        chunk: SampleChunk | SampleWindow,
        part: _Part,
        starts: NDArray[np.int64],
        valid: NDArray[np.bool_],
        delays: Delays,
    ) -> _native.Some:
        """Gather what the spectra of a part are made of."""
        i, parts = part[0], self._parts
        return _native.Some(
            [piece.data[i].reshape(-1) for piece in chunk.pieces],
            [piece.samples * parts for piece in chunk.pieces],
            starts[part] * parts,
            valid[part].view(np.uint8),
            np.ascontiguousarray(delays.fine[part], np.float64),
            np.ascontiguousarray(delays.phase[part], np.float64),
            np.ascontiguousarray(delays.coarse[part], np.int64),
            self.gains[i],
            i in self.config.conjugated,
        )

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
        about = config.step, config.window_samples, chunk.present, chunk.packet_samples, chunk.timestamp
        return starts, whole_windows(delays.coarse, first_spectrum, *about)

    def _place(
        self, layout: Layout, data: NDArray[Any], i: int, flat: NDArray[np.uint8]
    ) -> tuple[int, NDArray[np.uint8], int, int, int, int, int]:
        """Say where values go: form, memory, offset, strides of channel, group and spectrum, length of a group."""
        strides = data.strides
        if isinstance(layout, Blocks):
            return 0, flat, strides[2] * i, strides[0], strides[1], 0, BLOCK
        antenna, pol = divmod(i, layout.pols)
        if isinstance(layout, Rows):
            return 0, flat, antenna * strides[1] + pol * strides[3], strides[2], strides[0], 0, BLOCK
        form = 1 if self.config.output_bits == 8 else 2
        offset = antenna * strides[0] + pol * strides[4]
        return form, flat, offset, strides[2], strides[1], strides[3], layout.spectra
