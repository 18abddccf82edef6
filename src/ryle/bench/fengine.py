"""The F-engine on one core against the Fourier transform that it contains.

10-bit samples, 16 taps, K-blocks out, dither and delays on. The baseline is `scipy.fft.rfft` in single precision alone
on the same number of frames, called in whatever way is fastest for it. The parts are timed alone as well, in the
batches that the channelizer uses.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from ryle.bench.results import Row
from ryle.bench.timing import compare, interleave
from ryle.channelize import Blocks, ChannelizerConfig, Delays
from ryle.channelize import _native as native
from ryle.channelize.cpu import CpuChannelizer, instruction_sets, transform_of, workspace_rows
from ryle.chunk import SampleChunk
from ryle.wire import _native as wire_native
from ryle.wire.samples import pack, sum_squares

BITS, TAPS, PACKET = 10, 16, 4096
BASELINE = "scipy.fft.rfft float32"
TARGET = 3.0


def transform_baseline(frames: NDArray[np.float32]) -> Callable[[], object]:
    """Make the baseline: transform real frames (spectrum, sample)."""
    # Freeing one large array makes the allocator keep what the baseline frees from call to call: without this its
    # results come from fresh pages every time and it takes twice as long.
    large = np.empty(24 << 20, np.uint8)
    del large

    def transform() -> None:
        # 64 frames a call suit its cache best: one call for all of them is slower.
        for row in range(0, len(frames), 64):
            scipy.fft.rfft(frames[row : row + 64], axis=1, workers=1)

    return transform


def noise_chunk(inputs: int, samples: int, timestamp: int = 0) -> SampleChunk:
    """Make whole packets of 10-bit noise of 60 levels r.m.s., `samples` or a little more."""
    packets = -(-samples // PACKET)
    noise = np.random.default_rng(1).normal(0, 60, (1, packets * PACKET))
    packed, _ = pack(noise, BITS)
    data = np.tile(packed.reshape(1, packets, -1), (inputs, 1, 1))
    return SampleChunk(timestamp, data, np.ones((inputs, packets), np.uint8), PACKET)


def run(channels: int = 4096, spectra: int = 256, rounds: int = 15) -> list[Row]:
    """Time the channelizer and its parts.

    Parameters
    ----------
    channels : int
        Channels of the one input.
    spectra : int
        Spectra of one call.
    rounds : int
        How often each case is timed.
    """
    config = ChannelizerConfig(1, channels, TAPS, bits=BITS, seed=1)
    chunk = noise_chunk(1, config.step * spectra + config.window_samples)
    rng = np.random.default_rng(2)
    delays = Delays(
        np.full((1, spectra), -100, np.int64), rng.uniform(-0.5, 0.5, (1, spectra)), rng.uniform(-3, 3, (1, spectra))
    )
    channelizer = CpuChannelizer(config)
    channelizer.set_gains(0.5 * np.exp(1j * rng.uniform(0, 6, (1, channels))))
    result = channelizer.process(chunk, 0, spectra, delays, Blocks())
    work: dict[str, Callable[[], object]] = {
        BASELINE: transform_baseline(rng.standard_normal((spectra, config.step)).astype(np.float32)),
        "F-engine": lambda: channelizer.process(chunk, 0, spectra, delays, Blocks(), result.data),
    }
    parts = _parts(channelizer, chunk, delays, result.data)
    times = interleave(work | parts, rounds)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    samples = spectra * config.step
    sizes = f"{channels} channels, {TAPS} taps, {BITS} bit, {instruction_sets()[0]}"
    figures = []
    for name in ("F-engine", *parts):
        ratio, spread = compare(times[name], times[BASELINE])
        figures.append(
            Row(
                f"{name}, {sizes}" if name == "F-engine" else f"F-engine part: {name}",
                samples / seconds[name] / 1e9,
                "Gsample/s",
                baseline=BASELINE,
                baseline_value=samples / seconds[BASELINE] / 1e9,
                ratio=ratio,
                ratio_spread=spread,
                most=TARGET if name == "F-engine" else None,
            )
        )
    return figures


def _parts(
    channelizer: CpuChannelizer, chunk: SampleChunk, delays: Delays, out: NDArray[Any]
) -> dict[str, Callable[[], object]]:
    """Make parts of the channelizer alone, over as many samples as the whole works on."""
    config = channelizer.config
    spectra = delays.fine.shape[1]
    batch, group = min(channelizer._batch_rows, spectra), channelizer._fft_rows
    packed = chunk.data[0].reshape(-1)
    samples = np.empty((batch + TAPS - 1) * config.step, np.float32)
    rows, frames = workspace_rows(config, batch)  # of zeros: transformed again and again, anything else would overflow
    transform_rows = transform_of(frames, complex_input=False)
    still = CpuChannelizer(config)
    still.set_gains(channelizer.gains)
    still._workspaces.append(native.Workspace(rows.copy(), lambda row, rows: None))

    def unpack() -> None:
        for _ in range(0, spectra, batch):
            wire_native.unpack(packed, BITS, 0, samples)

    def transform() -> None:
        for _ in range(0, spectra, batch):
            for row in range(0, batch, group):
                transform_rows(row, min(group, batch - row))

    return {
        "unpack": unpack,
        "FFT (ducc0)": transform,
        "all but the FFT": lambda: still.process(chunk, 0, spectra, delays, Blocks(), out),
        "input power": lambda: sum_squares(packed, BITS, 0, spectra * config.step),
    }
