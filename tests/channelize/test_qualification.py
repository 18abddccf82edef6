"""What an observatory asks of an F-engine, with its thresholds, of the forms that users get."""

from functools import partial

import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Delays, make_channelizer
from ryle.chunk import SampleChunk, parts_from_rows
from ryle.gpu import gpu_problem
from ryle.wire.samples import pack

RATE = 1.712e9  # samples per second
PACKET = 256
NO_GPU = gpu_problem()
NEEDS_GPU = pytest.mark.skipif(NO_GPU is not None, reason=f"needs an NVIDIA GPU: {NO_GPU}")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_GPU)], autouse=True)
def backend(request, monkeypatch):
    """Give the tests each form in turn."""
    if request.param == "cpu":
        pytest.importorskip("ryle.channelize.cpu", exc_type=ImportError)
    monkeypatch.setattr(request.module, "make_channelizer", partial(make_channelizer, backend=request.param))


def chunk_of(samples, bits, timestamp=0):
    """Samples (input, time) as a chunk, after padding to whole packets."""
    samples = np.pad(samples, ((0, 0), (0, -samples.shape[1] % PACKET)))
    packed, saturated = pack(samples, bits)
    assert saturated == 0
    data = packed.reshape(samples.shape[0], samples.shape[1] // PACKET, -1)
    return SampleChunk(timestamp, data, np.ones(data.shape[:2], np.uint8), PACKET)


def tone_spectra(frequencies, channels, taps, spectra=8):
    """Spectra of real tones at `frequencies` (in channels), one an input, in single-precision samples."""
    config = ChannelizerConfig(len(frequencies), channels, taps, bits=32)
    time = np.arange(config.step * spectra + config.window_samples)
    phase = np.random.default_rng(1).uniform(0, 2 * np.pi, (len(frequencies), 1))
    tones = np.cos(2 * np.pi * (np.outer(frequencies, time) / (2 * channels) % 1) + phase)
    values, valid = make_channelizer(config).spectra_float(
        chunk_of(tones, 32), 0, spectra, Delays.zero(len(frequencies), spectra)
    )
    assert valid.all()
    return values


def shape_ratio(taps):
    channels, channel = 64, 29
    offsets = np.linspace(-1.5, 1.5, 601)
    values = tone_spectra(channel + offsets, channels, taps)
    power = np.mean(np.abs(values[:, :, channel]) ** 2, axis=1)
    level = 10 * np.log10(power / power.max())
    widths = [np.ptp(offsets[level >= threshold]) + offsets[1] - offsets[0] for threshold in (-3, -53)]
    return widths[0], widths[1] / widths[0]


def test_channel_shape():
    width, ratio = shape_ratio(16)
    assert 0.93 < width < 0.96
    assert ratio <= 2
    assert shape_ratio(4)[1] > 2  # a filter too short is found out


def test_channel_position_and_spurious_free_range():
    channels = 2048
    wanted = np.unique(np.concatenate([[1, 2, channels // 2, channels - 2], np.arange(5, channels - 1, 97)]))
    values = tone_spectra(wanted, channels, 16, spectra=4)
    power = np.mean(np.abs(values) ** 2, axis=1)
    np.testing.assert_array_equal(power.argmax(axis=1), wanted)
    for row, channel in zip(power, wanted, strict=True):
        # The two neighbours show the filter's skirt (-80 dB at their centres), not something spurious.
        others = np.delete(row, np.arange(max(0, channel - 1), min(channels, channel + 2)))
        assert 10 * np.log10(row[channel] / others.max()) > 90


def noise(length, seed):
    """Band-limited noise, periodic, as its half spectrum: exact delays are products."""
    rng = np.random.default_rng(seed)
    spectrum = rng.standard_normal(length // 2 + 1) + 1j * rng.standard_normal(length // 2 + 1)
    spectrum[[0, -1]] = 0
    return spectrum * 1500 / np.sqrt(np.mean(np.abs(spectrum) ** 2)) * np.sqrt(length / 2)


def advanced(spectrum, length, samples):
    """The noise, heard `samples` early."""
    return np.fft.irfft(spectrum * np.exp(2j * np.pi * np.arange(spectrum.size) * samples / length), length)


def cross_phase(samples, delays, *, channels=256, bits=16, timestamp=0, first=0, spectra=256):
    """Phase of input 1 against input 0 in each channel, from quantized and dithered spectra."""
    config = ChannelizerConfig(2, channels, 16, bits=bits, seed=7)
    channelizer = make_channelizer(config)
    channelizer.set_gains(30 / samples.std())
    result = channelizer.process(chunk_of(samples, bits, timestamp), first, spectra, delays, Blocks())
    assert result.valid.all()
    parts = parts_from_rows(result.data).astype(float)
    values = parts[..., 0] + 1j * parts[..., 1]
    return np.angle(np.sum(values[:, :, 1] * values[:, :, 0].conj(), axis=(1, 2)))[1:]  # channel 0 folds onto itself


def split(delay, phase=0.0, spectra=256):
    """Delays of two inputs: none, and `delay` samples (a number, or one for each spectrum)."""
    delay = np.broadcast_to(delay, spectra)
    coarse = np.rint(delay)
    result = Delays.zero(2, spectra)
    result.coarse[1], result.fine[1], result.phase[1] = coarse, delay - coarse, phase
    return result


def centre_phase(delay):
    """Turn of the centre of the band, a quarter of the sample rate, by a delay: the total phase to ask for with it."""
    return -2 * np.pi * delay / 4


def fitted_delay(phase, channels=256):
    """Delay in seconds from the slope of phase over the band."""
    frequency = np.arange(1, channels) * RATE / (2 * channels)
    return -np.polyfit(frequency, np.unwrap(phase), 1)[0] / (2 * np.pi)


@pytest.mark.parametrize("delay", [2.5e-12, -2.5e-12])
def test_smallest_delay(delay):
    length = 512 * 272
    same = np.tile(np.fft.irfft(noise(length, 2), length), (2, 1))
    measured = fitted_delay(cross_phase(same, split(delay * RATE)))
    assert abs(measured - delay) < 0.25e-12
    assert abs(fitted_delay(cross_phase(same, split(0.0)))) < 0.25e-12
    # The same from the sky's side: a wave that comes this much earlier is put right.
    spectrum = noise(length, 3)
    waves = np.stack([advanced(spectrum, length, 0), advanced(spectrum, length, delay * RATE)])
    assert abs(fitted_delay(cross_phase(waves, split(0.0))) + delay) < 0.25e-12
    assert abs(fitted_delay(cross_phase(waves, split(delay * RATE)))) < 0.25e-12


@pytest.mark.parametrize("delay", [79.53e-6, -79.53e-6, 0.37 / RATE, 3.49 / RATE])
def test_large_delays(delay):
    samples = delay * RATE
    length = 1 << 19
    spectrum = noise(length, 4)
    waves = np.stack([advanced(spectrum, length, 0), advanced(spectrum, length, samples)])
    # The chunk's first sample is at least 140000 before the first window.
    first = -(-140000 // 512 // 64) * 64
    phase = cross_phase(waves, split(samples, centre_phase(samples)), first=first)
    assert np.abs(np.degrees(phase)).max() < 1
    # A twentieth of a sample more is found out.
    wrong = cross_phase(waves, split(samples + 0.05, centre_phase(samples)), first=first)
    assert np.abs(np.degrees(wrong)).max() > 4


@pytest.mark.parametrize("rate", [2.56e-9, -2.56e-9])
def test_delay_rate(rate):
    """A model running for a second: 4.4 samples, put right at moments on the way."""
    length = 512 * 80 + PACKET * 8
    for second in np.linspace(0.0, 1.0, 6):
        first = int(second * RATE / 512) // 64 * 64 + 64
        timestamp = (512 * first - 1024) // PACKET * PACKET
        spectra = first + np.arange(64)
        delay = rate * (512 * spectra + 512 * 8)  # at the windows' centres, in samples
        spectrum = noise(length, 5)
        waves = np.stack([advanced(spectrum, length, 0), advanced(spectrum, length, delay.mean())])
        delays = split(delay, centre_phase(delay), spectra=64)
        phase = cross_phase(waves, delays, timestamp=timestamp, first=first, spectra=64)
        assert np.abs(np.degrees(phase)).max() < 2


def test_fast_delay_rate_steps_through_whole_samples():
    """A tone read at t - d(t) with d = 1e-4 t keeps its phase while the coarse delay steps three times."""
    channels, channel, spectra, rate = 256, 100.0, 64, 1e-4
    time = np.arange(512 * (spectra + 17))
    tones = 10000 * np.cos(2 * np.pi * channel / 512 * np.stack([time, time / (1 - rate)]))
    delay = rate * (512 * np.arange(spectra) + 512 * 8)
    delays = split(delay, spectra=spectra)
    assert np.ptp(delays.coarse[1]) >= 3
    config = ChannelizerConfig(2, channels, 16, bits=16)
    values, valid = make_channelizer(config).spectra_float(chunk_of(tones, 16), 0, spectra, delays)
    assert valid.all()
    turn = np.angle(values[1, :, 100] * values[0, :, 100].conj(), deg=True)
    # What a delay does away from the centre of the band is put right; the centre's turn was asked to be none.
    assert np.abs((turn - np.degrees(2 * np.pi * delay * 0.25) + 180) % 360 - 180).max() < 2


@pytest.mark.parametrize("phase", [np.pi, -np.pi, 1.0, 0.0])
def test_phase(phase):
    length = 512 * 272
    same = np.tile(np.fft.irfft(noise(length, 6), length), (2, 1))
    got = cross_phase(same, split(0.0, phase))
    assert np.abs(np.degrees(np.angle(np.exp(1j * (got - phase))))).max() < 1


@pytest.mark.parametrize("rate", [49.22, -49.22])
def test_phase_rate(rate):
    """Radians a second, looked at over a second."""
    length = 512 * 80 + PACKET * 8
    same = np.tile(np.fft.irfft(noise(length, 8), length), (2, 1))
    for second in np.linspace(0.0, 1.0, 5):
        first = int(second * RATE / 512) // 64 * 64 + 64
        timestamp = (512 * first - 1024) // PACKET * PACKET
        phase = rate * (512 * (first + np.arange(64)) + 512 * 8) / RATE
        got = cross_phase(same, split(0.0, phase, spectra=64), timestamp=timestamp, first=first, spectra=64)
        middle = rate * (512 * (first + 31.5) + 512 * 8) / RATE
        assert np.abs(np.degrees(np.angle(np.exp(1j * (got - middle))))).max() < 2


def test_gain_linearity():
    """Mean output against gain, from a tenth of a step (which only dither can carry) to just below saturation."""
    channels, spectra = 64, 4096
    config = ChannelizerConfig(1, channels, 16, bits=16, seed=3)
    time = np.arange(config.step * (spectra + 16))
    tone = chunk_of(10000 * np.cos(2 * np.pi * 20 / 128 * time + 0.3)[np.newaxis], 16)
    channelizer = make_channelizer(config)
    delays = Delays.zero(1, spectra)
    values, _ = channelizer.spectra_float(tone, 0, spectra, delays)
    exact = values[0, :, 20].mean()
    for level in (0.1, 0.5, 1.0, 5.0, 30.0, 120.0):
        channelizer.set_gains(level / abs(exact))
        result = channelizer.process(tone, 0, spectra, delays, Blocks())
        parts = parts_from_rows(result.data[20]).astype(float)
        mean = parts[..., 0].mean() + 1j * parts[..., 1].mean()
        # Dithered rounding has variance 1/4 at most: five standard deviations.
        assert abs(mean - level * exact / abs(exact)) < 5 * np.sqrt(0.5 / spectra)
        assert not result.saturated.any()
    assert abs(120.0 - abs(mean)) < 0.001 * 120


def test_complex_band():
    """Tones of either sign lie where they should; a delayed complex wave is put right with no phase at its centre."""
    channels, spectra = 64, 64
    config = ChannelizerConfig(2, channels, 16, bits=16, complex_input=True)
    channelizer = make_channelizer(config)
    time = np.arange(config.step * spectra + config.window_samples)
    for channel in (1, 20, 32, 33, 63):
        tone = 20000 * np.exp(2j * np.pi * (channel - channels / 2) / channels * time)
        values, _ = channelizer.spectra_float(chunk_of(np.stack([tone, tone]), 16), 0, spectra, Delays.zero(2, spectra))
        assert np.all(np.abs(values).argmax(axis=2) == channel)
    rng = np.random.default_rng(9)
    spectrum = rng.standard_normal(1 << 14) + 1j * rng.standard_normal(1 << 14)
    frequency = np.fft.fftfreq(1 << 14)
    spectrum[np.abs(frequency) > 0.48] = 0
    for delay in (0.4, -3.3, 700.45):
        waves = np.fft.ifft(spectrum * np.exp(2j * np.pi * frequency * np.array([[0.0], [delay]]))) * 3e5
        waves = np.roll(waves, 2 * PACKET * 16, axis=1)
        delays = split(delay, spectra=spectra)
        values, valid = channelizer.spectra_float(chunk_of(waves, 16), 64, spectra, delays)
        assert valid.all()
        turn = np.angle(np.sum(values[1] * values[0].conj(), axis=0), deg=True)[4:-4]
        assert np.abs(turn).max() < 1
        values, _ = channelizer.spectra_float(chunk_of(waves, 16), 64, spectra, split(round(delay), spectra=spectra))
        turn = np.angle(np.sum(values[1] * values[0].conj(), axis=0), deg=True)[4:-4]
        assert np.abs(turn).max() > 30  # the fine delay matters
