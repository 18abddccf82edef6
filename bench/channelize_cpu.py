"""Time the CPU channelizer against the Fourier transform that it contains.

One thread, 10-bit samples, 16 taps, 4096 channels, K-blocks out, dither and delays on. The baseline is
``scipy.fft.rfft`` in single precision alone on the same number of frames of 8192 samples. The two are timed in turn,
and so are the parts; each figure is a median over the repetitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from ryle.channelize import Blocks, ChannelizerConfig, Delays
from ryle.channelize import _native as native
from ryle.channelize.cpu import CpuChannelizer, instruction_sets
from ryle.chunk import SampleChunk
from ryle.wire import _native as wire_native
from ryle.wire.samples import pack, sum_squares

BITS, TAPS, PACKET = 10, 16, 4096


def _seconds(work: Callable[[], object]) -> float:
    begin = time.thread_time()  # what other processes take does not count
    work()
    return time.thread_time() - begin


def _chunk(config: ChannelizerConfig, spectra: int) -> SampleChunk:
    packets = -(-(config.step * spectra + config.window_samples) // PACKET)
    noise = np.random.default_rng(1).normal(0, 60, (config.inputs, packets * PACKET))
    packed, _ = pack(noise, config.bits)
    return SampleChunk(
        0, packed.reshape(config.inputs, packets, -1), np.ones((config.inputs, packets), np.uint8), PACKET
    )


def run(channels: int = 4096, spectra: int = 256, repetitions: int = 15) -> list[dict[str, Any]]:
    config = ChannelizerConfig(1, channels, TAPS, bits=BITS, seed=1)
    chunk = _chunk(config, spectra)
    rng = np.random.default_rng(2)
    delays = Delays(
        np.full((1, spectra), -100, np.int64), rng.uniform(-0.5, 0.5, (1, spectra)), rng.uniform(-3, 3, (1, spectra))
    )
    channelizer = CpuChannelizer(config)
    channelizer.set_gains(0.5 * np.exp(1j * rng.uniform(0, 6, (1, channels))))
    result = channelizer.process(chunk, 0, spectra, delays, Blocks())
    frames = rng.standard_normal((spectra, config.step)).astype(np.float32)

    # Freeing one large array makes the allocator keep what the baseline frees from call to call: without this its
    # results come from fresh pages every time and it takes twice as long.
    large = np.empty(24 << 20, np.uint8)
    del large

    # The parts alone, in the batches that the channelizer uses.
    batch = min(channelizer._batch_rows, spectra)
    packed = chunk.data[0].reshape(-1)
    samples = np.empty((batch + TAPS - 1) * config.step, np.float32)
    starts = np.arange(batch, dtype=np.int64) * config.step
    workspace = channelizer._borrow()
    group = channelizer._fft_rows
    workspace.frames[:] = 0  # transformed in place again and again, anything else would overflow
    place = channelizer._place(Blocks(), result.data, 0)
    flat = result.data.reshape(-1).view(np.uint8)
    valid = np.ones(batch, np.uint8)
    fine, phase = delays.fine[0, :batch].copy(), delays.phase[0, :batch].copy()
    quarters = delays.coarse[0, :batch] & 3

    def baseline_transform() -> None:
        # 64 frames a call suit its cache best: one call for all of them is slower.
        for row in range(0, spectra, 64):
            scipy.fft.rfft(frames[row : row + 64], axis=1, workers=1)

    def unpack() -> None:
        for _ in range(0, spectra, batch):
            wire_native.unpack(packed, BITS, 0, samples)

    def fir() -> None:
        for _ in range(0, spectra, batch):
            for row in range(0, batch, group):
                native.fir(
                    samples,
                    starts[row : row + group],
                    channelizer._weights,
                    TAPS,
                    workspace.frames[row : row + group],
                    config.step,
                )

    def transform() -> None:
        for _ in range(0, spectra, batch):
            for row in range(0, batch, group):
                channelizer._transform(workspace.frames[row : row + group], workspace.before[row : row + group])

    def post() -> None:
        for row in range(0, spectra, batch):
            native.quantize(
                workspace.spectra, valid, fine, phase, quarters, config.slope, channelizer.gains[0], True, 1, row, 0,
                127, place[0], flat, *place[1:], row,
            )  # fmt: skip

    def power() -> None:
        sum_squares(packed, BITS, 0, spectra * config.step)

    work: dict[str, Callable[[], object]] = {
        "scipy.fft.rfft float32": baseline_transform,
        "channelizer": lambda: channelizer.process(chunk, 0, spectra, delays, Blocks(), result.data),
        "part: unpack": unpack,
        "part: FIR": fir,
        "part: FFT (ducc0)": transform,
        "part: delay, gain, dither, quantize, corner turn": post,
        "part: input power": power,
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repetitions):
        for name, what in work.items():
            times[name].append(_seconds(what))
    baseline = "scipy.fft.rfft float32"
    total = spectra * config.step
    rows: list[dict[str, Any]] = []
    for name, seconds in times.items():
        ratios = sorted(one / other for one, other in zip(seconds, times[baseline], strict=True))
        rows.append(
            {
                "case": f"{name}, {channels} channels, {TAPS} taps, {BITS} bit, 1 thread, {instruction_sets()[0]}",
                "value": round(statistics.median(seconds) / total * 1e9, 4),
                "unit": "ns/sample",
                "baseline": baseline,
                "ratio": round(statistics.median(ratios), 3),
                "spread": [round(ratios[len(ratios) // 4], 3), round(ratios[-1 - len(ratios) // 4], 3)],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="save the figures")
    parser.add_argument("--channels", type=int, default=4096)
    arguments = parser.parse_args()
    rows = run(arguments.channels)
    for row in rows:
        print(f"{row['case']:<105} {row['value']:8.3f} {row['unit']}  {row['ratio']:6.3f} x baseline  {row['spread']}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
