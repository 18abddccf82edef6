"""How pure the F-engine is: a tone's harmonics, and the response of one channel. No GPU is needed.

The two studies are those of Merry, "Efficient channelization on a graphics processing unit", JATIS 9(3), 2023, figures
6 and 7. A full-scale tone is quantized with uniform dither, which leaves nothing of the quantization but noise, and
spectra are averaged as complex numbers, which leaves of the noise as little as is wanted. What remains beside the tone
is what the arithmetic adds.

`transform_half` is a Fourier transform that keeps half-precision numbers from one butterfly to the next, as transforms
in half precision do; it is there to show what that costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ryle.array.delays import Delays
from ryle.bench.cufft import Plan, cufft_problem
from ryle.bench.results import cpu_model
from ryle.channelize import ChannelizerConfig, make_channelizer
from ryle.channelize.channelizer import Channelizer
from ryle.chunk import SampleChunk
from ryle.gpu.interface import Gpu
from ryle.monitor.progress import status_line
from ryle.version import commit
from ryle.wire.samples import pack

#: What makes a channelizer; `ryle.channelize.make_channelizer` with a backend is one.
Maker = Callable[[ChannelizerConfig], Channelizer]
#: Transforms real rows (row, 2n) to (row, n), the Nyquist frequency left out.
Transform = Callable[[NDArray[np.floating[Any]]], NDArray[np.complex64]]

PACKET = 4096  # samples
BATCH = 1 << 24  # samples of one call, roughly
HARMONICS = -110.0  # dB: what a channelizer's harmonics must stay below
FLOOR = -120.0  # dB: down to which its response must be that of its weights


def tone(
    frequency: float, first: int, count: int, amplitude: float, rng: np.random.Generator | None
) -> NDArray[np.float32]:
    """Make samples [first, first + count) of a real tone.

    Parameters
    ----------
    frequency : float
        Cycles a sample.
    first, count : int
        Which samples.
    amplitude : float
        In units of the least significant bit.
    rng : Generator, optional
        Source of uniform dither of one unit, after which the samples are rounded; without it they are neither.
    """
    turns = (np.arange(count) * frequency + first * frequency % 1.0) % 1.0
    values: NDArray[np.float32] = (amplitude * np.cos(2 * np.pi * turns)).astype(np.float32)
    if rng is not None:
        values = np.rint(values + rng.random(count, np.float32) - np.float32(0.5))
    return values


def transform_half(frames: NDArray[np.floating[Any]]) -> NDArray[np.complex64]:
    """Fourier transform of rows in half precision.

    Decimation in time by two (Stockham's order). Factors, and real and imaginary parts after every butterfly, are
    rounded to half precision; a butterfly itself is calculated in single precision, which is kinder than a library is.

    Parameters
    ----------
    frames : ndarray, shape (..., samples)
        Real, a power of two of samples; scaled so that no result passes 65504.

    Returns
    -------
    ndarray of complex64, shape (..., samples/2)
        Without the Nyquist frequency.
    """
    rows, size = int(np.prod(frames.shape[:-1])), frames.shape[-1]
    values: NDArray[np.complex64] = _halved(frames.reshape(rows, size, 1).astype(np.complex64))
    length = 1
    while length < size:  # values[row, r, k]: transforms of `length` of every (size/length)-th sample from r on
        half = size // length // 2
        factors = _halved(np.exp(-1j * np.pi * np.arange(length) / length).astype(np.complex64))
        even, odd = values[:, :half], (values[:, half:] * factors).astype(np.complex64)
        values = _halved(np.concatenate([even + odd, even - odd], axis=2))
        length *= 2
    return values.reshape(*frames.shape[:-1], size)[..., : size // 2]


def _halved(values: NDArray[np.complex64]) -> NDArray[np.complex64]:
    """Round to half precision."""
    rounded: NDArray[np.complex64] = values.view(np.float32).astype(np.float16).astype(np.float32).view(np.complex64)
    return rounded


def transform_single(frames: NDArray[np.floating[Any]]) -> NDArray[np.complex64]:
    """Fourier transform of rows in single precision, without the Nyquist frequency."""
    from scipy.fft import rfft

    spectra: NDArray[np.complex64] = np.asarray(rfft(frames.astype(np.float32), axis=-1), np.complex64)[..., :-1]
    return spectra


#: Transforms that a channelizer is compared with.
TRANSFORMS: Mapping[str, Transform] = {
    "transform in half precision": transform_half,
    "transform in single precision": transform_single,
}
#: Kinds of cuFFT's transforms that are added on a GPU.
LIBRARY = {"half": "r2c half", "single": "r2c"}


def full_scale(bits: int) -> float:
    """Greatest amplitude of a tone that dither does not bring to the limit of the samples."""
    return float(2 ** (bits - 1) - 1.5)


def average_transforms(
    transform: Transform, channels: int, channel: int, spectra: int, bits: int
) -> NDArray[np.complex128]:
    """Average the transforms of a dithered tone in the middle of a channel.

    Parameters
    ----------
    transform : callable
        Frames (row, 2·channels) to spectra (row, channel).
    channels, channel : int
        Number of channels and the tone's.
    spectra : int
        How many are averaged.
    bits : int
        Bits of a sample.

    Returns
    -------
    ndarray of complex128, shape (channels,)
    """
    rng = np.random.default_rng()
    step, amplitude = 2 * channels, full_scale(bits)
    total = np.zeros(channels, np.complex128)
    rows = max(1, (1 << 20) // step)
    for row in range(0, spectra, rows):
        count = min(rows, spectra - row)
        frames = tone(channel / step, 0, count * step, amplitude, rng).reshape(count, step)
        # Full scale becomes one half, so that half precision has room for the sum of all samples.
        total += transform(frames * np.float32(2.0**-bits)).sum(axis=0, dtype=np.complex128)
    return total / spectra


def averaged_spectra(
    channelizer: Channelizer, frequency: float, spectra: int, phase_step: float = 0.0
) -> NDArray[np.complex128]:
    """Average a channelizer's spectra, before they are quantized, of a dithered full-scale tone.

    Parameters
    ----------
    channelizer : Channelizer
        Of one input of real samples.
    frequency : float
        Of the tone, cycles a sample.
    spectra : int
        How many are averaged.
    phase_step : float
        Turn of the tone from one spectrum to the next, in cycles, which is undone.

    Returns
    -------
    ndarray of complex128, shape (channels,)
    """
    total = np.zeros(channelizer.config.channels, np.complex128)
    for first, values in _spectra(channelizer, frequency, spectra):
        turns = np.exp(-2j * np.pi * (phase_step * np.arange(first, first + len(values)) % 1.0))
        total += turns @ values
    return total / spectra


def _spectra(
    channelizer: Channelizer, frequency: float, spectra: int
) -> Iterator[tuple[int, NDArray[np.complexfloating[Any, Any]]]]:
    """Channelize a tone in batches: index of the first spectrum and the spectra, (spectrum, channel)."""
    config = channelizer.config
    rng = np.random.default_rng()
    amplitude = full_scale(config.bits)
    batch = max(1, BATCH // config.step)
    for first in range(0, spectra, batch):
        count = min(batch, spectra - first)
        samples = (count + config.taps - 1) * config.step
        packets = -(-samples // PACKET)
        data = pack(tone(frequency, first * config.step, packets * PACKET, amplitude, rng), config.bits)[0]
        chunk = SampleChunk(first * config.step, data.reshape(1, packets, -1), np.ones((1, packets), np.uint8), PACKET)
        values, valid = channelizer.spectra_float(chunk, first, count, Delays.zero(1, count))
        if not valid.all():
            raise RuntimeError("the channelizer found spectra of a whole chunk invalid")
        yield first, values[0]


def _decibels(values: NDArray[np.complex128], reference: int) -> NDArray[np.float64]:
    power = np.abs(values) ** 2
    result: NDArray[np.float64] = 10 * np.log10(np.maximum(power / power[reference], 1e-30))
    return result


def library_transform(gpu: Gpu, kind: str) -> Transform:
    """Give cuFFT's transforms of real rows, "r2c" or "r2c half", as `average_transforms` takes them."""
    scalar = np.float16 if kind.endswith("half") else np.float32
    stream = gpu.stream()

    def transform(frames: NDArray[np.floating[Any]]) -> NDArray[np.complex64]:
        rows, size = frames.shape
        source = gpu.array(frames.astype(scalar), stream)
        result = gpu.empty((rows, size // 2 + 1, 2), scalar)
        Plan(kind, size, rows)(source, result, stream)
        spectra: NDArray[np.complex64] = result.get(stream=stream).astype(np.float32).view(np.complex64)[:, :-1, 0]
        return spectra

    return transform


def expected(config: ChannelizerConfig, channel: int, offset: float = 0.0) -> NDArray[np.complex128]:
    """Give what the weights make of a tone of amplitude 1, `offset` channels above a channel's centre, everywhere.

    That is their Fourier transform, in double precision, at the tone's positive frequency. Its image at the negative
    one turns the other way from spectrum to spectrum: where the turn of the positive one is undone it averages out, but
    for offsets that are multiples of half a channel, where it is added.

    Returns
    -------
    ndarray of complex128, shape (channels,)
    """
    step = config.step
    turns = np.arange(config.window_samples) * (channel + offset) / step % 1
    carrier = np.exp(2j * np.pi * turns)
    if 2 * offset % 1 == 0:
        carrier += carrier.conj()
    folded = (config.prototype() * carrier / 2).reshape(config.taps, step).sum(axis=0)
    spectrum: NDArray[np.complex128] = np.fft.fft(folded)[: config.channels]
    return spectrum


def harmonics(
    make: Maker,
    channels: int = 1024,
    channel: int = 192,
    taps: int = 16,
    spectra: int = 1 << 14,
    bits: int = 10,
    transforms: Mapping[str, Transform] = TRANSFORMS,
) -> dict[str, Any]:
    """Compare transforms in half and in single precision with a channelizer, on a dithered tone.

    Returns
    -------
    dict
        `power`: by name, the power of each channel in dB of the tone's. `worst`: the greatest of each but the tone's;
        of the channelizer the greatest difference from the response of its weights, whose zeros are not quite at whole
        channels.
    """
    config = ChannelizerConfig(1, channels, taps, bits=bits)
    amplitude = full_scale(bits)
    power = {
        name: _decibels(average_transforms(transform, channels, channel, spectra, bits), channel)
        for name, transform in transforms.items()
    }
    values = averaged_spectra(make(config), channel / config.step, spectra) / amplitude
    wanted = expected(config, channel)
    others = np.arange(channels) != channel
    worst = {name: float(found[others].max()) for name, found in power.items()}
    excess = np.abs(values - wanted)[others].max() / np.abs(wanted[channel])
    power["channelizer"], worst["channelizer"] = _decibels(values, channel), float(20 * np.log10(excess))
    about = {"channels": channels, "channel": channel, "taps": taps, "spectra": spectra, "bits": bits}
    return {**about, "worst": worst, "power": power}


def response(
    make: Maker, channels: int, taps: int = 16, bits: int = 16, positions: int = 16, reach: int = 8
) -> dict[str, Any]:
    """Measure the response of a channel with tones between the centres of two.

    One tone gives a point of the response for every channel. With 16 bits, 64 spectra bring the noise of the digitizer
    20 dB below the floor asked for; with fewer bits more are averaged.

    Parameters
    ----------
    make : callable
        Makes the channelizer.
    channels, taps, bits : int
        As of `ChannelizerConfig`.
    positions : int
        Tones in the width of a channel, a power of two up to 64.
    reach : int
        Channels on each side that are kept.

    Returns
    -------
    dict
        `offset` in channels, `measured` and `expected` in dB; `worst`: the greatest difference of the complex values in
        any channel, also those not kept, in dB of the greatest response.
    """
    config = ChannelizerConfig(1, channels, taps, bits=bits)
    channelizer = make(config)
    channel = channels // 4 + channels // 16  # away from the ends of the band and from its quarters
    spectra = min(4096, 64 << 2 * (16 - bits))
    around = np.arange(channel - reach, channel + reach + 1)
    scale = float(np.abs(expected(config, channel)[channel]))
    points, worst = [], 0.0
    for offset in np.arange(positions) / positions:
        values = averaged_spectra(channelizer, (channel + offset) / config.step, spectra, offset) / full_scale(bits)
        wanted = expected(config, channel, offset)
        worst = np.maximum(worst, np.abs(values - wanted).max() / scale)  # and NaN if there is any
        points.append([around - channel - offset, np.abs(values[around]), np.abs(wanted[around])])
    offsets, measured, weights = np.concatenate(points, axis=1)
    order = np.argsort(offsets)
    measured, weights = (20 * np.log10(np.maximum(v[order] / scale, 1e-15)) for v in (measured, weights))
    about = {"channels": channels, "taps": taps, "bits": bits, "spectra": spectra, "worst": 20 * float(np.log10(worst))}
    return {**about, "offset": offsets[order], "measured": measured, "expected": weights}


def study(
    make: Maker,
    progress: Callable[[str], None] = lambda _: None,
    bits: int = 16,
    transforms: Mapping[str, Transform] = TRANSFORMS,
) -> dict[str, Any]:
    """Make both studies, the response at 1024 and 32768 channels and for samples of so many bits."""
    progress("harmonics of a tone")
    found: dict[str, Any] = {"harmonics": harmonics(make, transforms=transforms), "response": []}
    for channels in (1024, 32768):
        progress(f"response of a channel, {channels} channels")
        found["response"].append(response(make, channels, bits=bits))
    return found


def table(found: dict[str, Any]) -> Table:
    """Show the greatest of what should not be there."""
    shown = Table("what", "greatest, dB", "limit")
    for name, worst in found["harmonics"]["worst"].items():
        shown.add_row(f"harmonics, {name}", f"{worst:.1f}", f"< {HARMONICS:g}" if name == "channelizer" else "")
    for r in found["response"]:
        shown.add_row(f"error of the response, {r['channels']} channels", f"{r['worst']:.1f}", f"< {FLOOR:g}")
    return shown


def bench_precision(backend: str = "cpu", bits: int = 16, path: Path | None = None) -> None:
    """Make the studies with one form of the channelizer, show what is worst and save all of it.

    Parameters
    ----------
    backend : str
        Form, as of `ryle.channelize.make_channelizer`.
    bits : int
        Bits of the samples that the response is measured with.
    path : Path, optional
        JSON file to write; ``docs/figures/channelizer.py`` draws it.
    """
    console = Console()
    transforms = dict(TRANSFORMS)
    if backend == "cuda":
        from ryle.gpu import open_gpu

        gpu = open_gpu()
        where = f"{gpu.name}, {gpu.driver}"
        if problem := cufft_problem():
            console.print(f"without the library's transforms: {problem}")
        else:
            transforms |= {f"cuFFT, {name} precision": library_transform(gpu, kind) for name, kind in LIBRARY.items()}
    else:
        where = cpu_model()
    begin = time.monotonic()
    with status_line() as say:
        found = study(lambda config: make_channelizer(config, backend), say, bits, transforms)
    shown = table(found)
    shown.title = f"{backend} channelizer, {where}: {time.monotonic() - begin:.0f} s"
    console.print(shown)
    if path:
        about = {"backend": backend, "where": where, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": commit()}
        path.write_text(json.dumps(about | _plain(found)) + "\n")
        console.print(f"written: {path}")


def _plain(value: Any) -> Any:
    """Arrays as lists, to a hundredth."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return np.round(value, 4 if abs(value).max() < 100 else 2).tolist()
    return round(value, 2) if isinstance(value, float) else value
