"""The F-engine as three kernels: filter, library transform, all the rest. What the fused one is compared with.

It does less than `ryle.channelize.cuda`: real samples of 2 to 16 bits, one coarse delay for each stream and launch, no
missing packets, no count of saturated values, no powers; so a comparison does not flatter the fused form. A launch is
cut into chunks, whose intermediate spectra can be small enough for the GPU's second-level cache, and chunks take turns
on several streams of work, so that the end of one kernel overlaps the beginning of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize import ChannelizerConfig
from ryle.chunk import BLOCK
from ryle.gpu.interface import DeviceArray, Gpu, Stream

SOURCE = Path(__file__).with_name("three_kernels.cu")


class Plan(Protocol):
    """Enqueues forward transforms of the rows of a complex64 array."""

    def __call__(self, source: DeviceArray, result: DeviceArray, stream: Stream) -> None: ...  # noqa: D102


class Transforms(Protocol):
    """A library of Fourier transforms."""

    name: str

    def plan(self, size: int, batch: int) -> Plan:
        """Plan `batch` transforms of `size` complex values."""
        ...


@dataclass(frozen=True, slots=True)
class Tuning:
    """What may be chosen freely.

    Parameters
    ----------
    chunk_samples : int
        Samples that the three kernels work on before the next chunk begins, at least one K-block of one stream; their
        intermediate spectra take four bytes each.
    lanes : int
        Chunks under way at the same time.
    columns : int
        Columns of one thread of the filter: 1, 2 or 4.
    per_thread : int
        Spectra of one thread of the filter; as many more as it has taps are read.
    blocks_first : bool
        Whether neighbouring thread blocks of the last kernel work on neighbouring K-blocks, not channels.
    split : bool
        Whether the library is given transforms of a quarter of the length and the last kernel joins them, as Merry
        (2023) does for long ones; with two columns only.
    """

    chunk_samples: int = 1 << 26
    lanes: int = 1
    columns: int = 2
    per_thread: int = 128
    blocks_first: bool = False
    split: bool = False


#: What `ryle.bench.tune` found fastest, by channels.
TUNINGS: dict[int, Tuning] = {}


def tuning_of(channels: int) -> Tuning:
    """Give the sizes that suit a number of channels."""
    return TUNINGS.get(channels, Tuning(split=channels > 16384))  # where cuFFT begins to need two passes


@dataclass(slots=True)
class _Lane:
    """What chunks that run at different times share."""

    stream: Stream
    frames: DeviceArray
    plan: Plan


class ThreeKernels:
    """The three kernels for one shape of launch.

    Parameters
    ----------
    gpu : Gpu
        Where they run.
    config : ChannelizerConfig
        What to compute: real samples of 2 to 16 bits, a power of two of channels, at least 64, 8-bit output.
    spectra : int
        Spectra of a launch, a multiple of 64.
    transforms : Transforms
        Library of Fourier transforms.
    interleaved : bool
        Order of the bytes of a K-block's row: 64 of (re, im), or four of (16 re, 16 im).
    tuning : Tuning
        Sizes.

    Raises
    ------
    ValueError
        If there is no such form.
    """

    def __init__(
        self,
        gpu: Gpu,
        config: ChannelizerConfig,
        spectra: int,
        transforms: Transforms,
        *,
        interleaved: bool = False,
        tuning: Tuning | None = None,
    ) -> None:
        n = config.channels
        if config.complex_input or config.bits not in (*range(2, 11), 12, 16) or config.output_bits != 8:
            raise ValueError("the three kernels take real samples of 2 to 16 bits and give 8-bit spectra")
        if tuning and tuning.split and tuning.columns != 2:
            raise ValueError("transforms are split only with two columns a thread")
        if n < BLOCK or n & (n - 1) or spectra < BLOCK or spectra % BLOCK or config.dither != "uniform":
            raise ValueError(
                f"{n} channels and {spectra} spectra: the three kernels take a power of two of channels, at least 64, "
                "whole K-blocks of 64 spectra, and dither them"
            )
        self.gpu, self.config, self.spectra, self.tuning = gpu, config, spectra, tuning or tuning_of(n)
        self.step, self.inputs = config.step, config.inputs
        self._shape_chunks()
        macros = defines(n, config.taps, config.bits, self.tuning, interleaved=interleaved)
        self._fir, self._post = (gpu.kernel(SOURCE, name, macros) for name in ("fir", "post"))
        rows, parts = self.chunk_streams * self.chunk_spectra, 4 if self.tuning.split else 1
        self._lanes = [
            _Lane(
                gpu.stream(),
                gpu.empty((rows * parts, n // parts), np.complex64),
                transforms.plan(n // parts, rows * parts),
            )
            for _ in range(min(self.tuning.lanes, len(self._chunks)))
        ]
        self._weights = gpu.array(np.ascontiguousarray(config.prototype(), np.float32))
        self._starts = gpu.empty(self.inputs, np.int64)
        self._turns = gpu.empty((self.inputs, spectra, 4), np.float32)
        self._gains = gpu.empty((self.inputs, n), np.complex64)
        self.set_gains(1.0)
        self.set_delays(Delays.zero(self.inputs, spectra))

    def _shape_chunks(self) -> None:
        """Cut the launch into equal chunks: as many spectra of one stream as fit, then more streams."""
        blocks = self.spectra // BLOCK
        fit = max(1, self.tuning.chunk_samples // (self.step * BLOCK))
        chunk_blocks = _largest_divisor(blocks, fit)
        self.chunk_spectra = chunk_blocks * BLOCK
        self.chunk_streams = _largest_divisor(self.inputs, max(1, fit // chunk_blocks))
        self._chunks = [
            (stream, spectrum)
            for spectrum in range(0, self.spectra, self.chunk_spectra)
            for stream in range(0, self.inputs, self.chunk_streams)
        ]

    def set_gains(self, gains: ArrayLike) -> None:
        """Set the complex gains, broadcast to (input, channel)."""
        full = np.broadcast_to(np.asarray(gains), (self.inputs, self.config.channels))
        self._gains.set(np.ascontiguousarray(full / 2, np.complex64))  # the real spectrum's factor of one half

    def set_delays(self, delays: Delays, first_sample: int = 0) -> None:
        """Set the delays of the launch's spectra.

        Parameters
        ----------
        delays : Delays
            Of shape (input, spectrum); coarse delays do not change with time.
        first_sample : int
            Sample that spectrum 0 starts at, in the buffer, were it not delayed.

        Raises
        ------
        ValueError
            If the coarse delay of an input changes.
        """
        if np.any(delays.coarse != delays.coarse[:, :1]):
            raise ValueError("the three kernels take one coarse delay for each input and launch")
        turn = (
            delays.phase + np.pi / 2 * (delays.coarse % 4) - self.config.slope * delays.fine * self.config.channels / 2
        )
        turns = np.zeros((self.inputs, self.spectra, 4), np.float32)
        turns[..., 0], turns[..., 1], turns[..., 2] = np.cos(turn), np.sin(turn), self.config.slope * delays.fine
        self._turns.set(turns)
        self._starts.set(np.ascontiguousarray(first_sample - delays.coarse[:, 0], np.int64))

    def launch(self, samples: DeviceArray, out: DeviceArray, first_spectrum: int, stream: Stream) -> None:
        """Enqueue a launch.

        Parameters
        ----------
        samples : DeviceArray of uint8, shape (input, bytes)
            Packed samples, 16 bytes more than are used; the bytes of a row a multiple of 4.
        out : DeviceArray of int8, shape (channel, block, input, 128)
            Spectra as K-blocks.
        first_spectrum : int
            Index since sync of the first spectrum, for the dither.
        stream : Stream
            Where to enqueue.
        """
        begun = stream.record()
        for lane in self._lanes:
            lane.stream.wait(begun)
        for number, chunk in enumerate(self._chunks):
            lane = self._lanes[number % len(self._lanes)]
            self.filter(lane, chunk, samples)
            lane.plan(lane.frames, lane.frames, lane.stream)
            self.finish(lane, chunk, out, first_spectrum)
        for lane in self._lanes:
            stream.wait(lane.stream.record())

    def part(self, name: str, samples: DeviceArray, out: DeviceArray, stream: Stream) -> None:
        """Enqueue one step of a launch alone, "FIR", "FFT" or "rest", for all chunks in turn."""
        lanes = [_Lane(stream, lane.frames, lane.plan) for lane in self._lanes]
        for number, chunk in enumerate(self._chunks):
            lane = lanes[number % len(lanes)]
            if name == "FIR":
                self.filter(lane, chunk, samples)
            elif name == "FFT":
                lane.plan(lane.frames, lane.frames, stream)
            else:
                self.finish(lane, chunk, out, 0)

    def filter(self, lane: _Lane, chunk: tuple[int, int], samples: DeviceArray) -> None:
        """Unpack and filter a chunk's samples into the lane's frames."""
        stream, spectrum = chunk
        columns = self.tuning.columns
        threads = min(128, self.step // columns)
        per_thread = min(self.tuning.per_thread, self.chunk_spectra)
        grid = (self.step // columns // threads, -(-self.chunk_spectra // per_thread), self.chunk_streams)
        self._fir.launch(
            grid, threads, samples=samples, stream_bytes=np.int64(samples.nbytes // self.inputs), starts=self._starts,
            weights=self._weights, out=lane.frames, first_stream=np.int32(stream), first_spectrum=np.int32(spectrum),
            spectra=np.int32(self.chunk_spectra), per_thread=np.int32(per_thread), stream=lane.stream,
        )  # fmt: skip

    def finish(self, lane: _Lane, chunk: tuple[int, int], out: DeviceArray, first_spectrum: int) -> None:
        """Turn, scale, dither, quantize and transpose a chunk's transforms."""
        stream, spectrum = chunk
        lanes = min(32, self.config.channels // 8)
        threads = min(256, BLOCK // 4 * lanes)
        tiles, blocks = self.config.channels // 8 // lanes, self.chunk_spectra // BLOCK
        grid = (blocks, tiles) if self.tuning.blocks_first else (tiles, blocks)
        self._post.launch(
            (*grid, self.chunk_streams), threads, spectra=lane.frames, turns=self._turns, gains=self._gains, out=out,
            first_stream=np.int32(stream), inputs=np.int32(self.inputs), first_block=np.int32(spectrum // BLOCK),
            blocks=np.int32(self.spectra // BLOCK), first_spectrum=np.uint64(first_spectrum),
            seed=np.uint64(self.config.seed), input_offset=np.uint32(self.config.input_offset),
            shared=8 * lanes * 33 * 4, stream=lane.stream,
        )  # fmt: skip


def kernel_order(rows: NDArray[np.int8]) -> NDArray[np.int8]:
    """Bring rows of K-blocks, int8 (..., 128), from (64 re, 64 im) to the kernels' order, four of (16 re, 16 im)."""
    return np.ascontiguousarray(rows.reshape(*rows.shape[:-1], 2, 4, 16).swapaxes(-3, -2)).reshape(rows.shape)


def _largest_divisor(number: int, limit: int) -> int:
    return next(d for d in range(min(number, limit), 0, -1) if number % d == 0)


def defines(channels: int, taps: int, bits: int, tuning: Tuning, *, interleaved: bool = False) -> dict[str, int | str]:
    """Give the macros that the kernels are compiled with."""
    return {
        "CHANNELS": channels,
        "TAPS": taps,
        "BITS": bits,
        "COLUMNS": tuning.columns,
        "INTERLEAVED": int(interleaved),
        "BLOCKS_FIRST": int(tuning.blocks_first),
        "SPLIT": 4 if tuning.split else 1,
    }


def compile_variants() -> list[tuple[Path, dict[str, int | str]]]:
    """List forms that between them have all that there is to compile."""
    shapes = ((64, 4, 8), (1024, 16, 10), (4096, 32, 16), (32768, 12, 12))
    return [
        (SOURCE, defines(n, taps, bits, replace(tuning_of(n), split=n > 8192), interleaved=n == 64))
        for n, taps, bits in shapes
    ]
