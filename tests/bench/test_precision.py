"""The precision study finds what it is for: harmonics of half precision, and none of the channelizer."""

import json

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from ryle.bench import precision
from ryle.bench.precision import harmonics, response, tone, transform_half, transform_single
from ryle.channelize import ChannelizerConfig, make_channelizer
from ryle.channelize.cuda import CudaChannelizer


def cpu(config):
    return make_channelizer(config, "cpu")


class Coarse:
    """A channelizer that keeps its results in half precision."""

    def __init__(self, config):
        self.config, self.exact = config, cpu(config)

    def spectra_float(self, *arguments):
        values, valid = self.exact.spectra_float(*arguments)
        scaled = (values.view(np.float32) / 4096).astype(np.float16)
        return (scaled.astype(np.float32) * 4096).view(np.complex64), valid


class Leaky(Coarse):
    """A channelizer that puts a hundred-thousandth of channel 48 into channel 100."""

    def spectra_float(self, *arguments):
        values, valid = self.exact.spectra_float(*arguments)
        values[..., 100] += np.float32(1e-5) * values[..., 48]
        return values, valid


@pytest.mark.parametrize("size", [2, 64, 2048])
def test_half_precision_is_a_fourier_transform_to_three_digits(size):
    frames = fresh.rng().standard_normal((3, 5, size))
    wanted = np.fft.rfft(frames)[..., :-1]
    error = np.abs(transform_half(frames) - wanted)
    assert error.shape == (3, 5, size // 2)
    assert 1e-5 < error.max() / np.sqrt(size) < 1e-2
    assert np.abs(transform_single(frames) - wanted).max() / np.sqrt(size) < 1e-5


def test_the_tone_goes_on_from_batch_to_batch():
    frequency = 193 / 2048 + 1 / 65536
    whole = tone(frequency, 10_000, 5000, 30_000.0, None)
    parts = [tone(frequency, 10_000 + first, 2500, 30_000.0, None) for first in (0, 2500)]
    assert np.abs(whole - np.concatenate(parts)).max() < 0.01
    dithered = tone(frequency, 10_000, 5000, 30_000.0, fresh.rng())
    assert np.array_equal(dithered, np.rint(dithered))
    assert 0.3 < np.std(dithered - whole) < 0.5  # rounding and dither: the root of one sixth


def test_harmonics_are_of_half_precision_alone():
    found = harmonics(cpu, 256, 48, spectra=1 << 14)
    assert found["worst"]["transform in half precision"] > -90
    assert found["worst"]["transform in single precision"] < precision.HARMONICS
    assert found["worst"]["channelizer"] < precision.HARMONICS
    assert all(power[48] == 0 for power in found["power"].values())
    leaky = harmonics(Leaky, 256, 48, spectra=1 << 14, transforms={})
    assert leaky["worst"]["channelizer"] == pytest.approx(-100, abs=1)


@pytest.mark.parametrize("taps", [4, 16])
def test_the_response_is_that_of_the_weights(taps):
    found = response(cpu, 256, taps, positions=8)
    assert found["worst"] < precision.FLOOR
    assert found["offset"].shape == found["measured"].shape == (17 * 8,)
    assert np.all(np.diff(found["offset"]) > 0)
    centre = np.argmin(np.abs(found["offset"]))
    assert abs(found["measured"][centre]) < 1e-4
    high = found["expected"] > -100
    assert np.abs(found["measured"] - found["expected"])[high].max() < 1
    assert 10 < high.sum() < len(high)
    assert response(Coarse, 256, taps, positions=8)["worst"] > -100


def test_the_image_of_a_tone_is_expected_where_it_does_not_average_out():
    """A filter of one tap leaks: there the tone's negative frequency matters everywhere.

    Noise leaves -121.5 dB, give or take 0.9.
    """
    assert response(cpu, 64, 1, positions=4)["worst"] < precision.FLOOR + 5


def test_the_gpu_form_can_be_studied():
    gpu = EmulatedGpu()
    assert response(lambda config: CudaChannelizer(config, gpu), 64, 4, positions=2, reach=4)["worst"] < -100


def test_a_response_can_be_given_few_bits():
    assert response(cpu, 64, 8, bits=12, positions=2)["worst"] < -105
    assert np.isclose(np.abs(precision.expected(ChannelizerConfig(1, 64, 8), 20)[20]), 64**0.5 / 2**0.5, rtol=0.2)


def test_command(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from ryle.cli import app

    small = {"harmonics": harmonics(cpu, 64, 12, spectra=64), "response": [response(cpu, 64, 2, positions=2)]}
    monkeypatch.setattr(precision, "study", lambda *_: small)
    saved = tmp_path / "precision.json"
    result = CliRunner().invoke(app, ["bench", "precision", "--json", str(saved)])
    assert result.exit_code == 0, result.output
    assert "error of the response, 64 channels" in result.output
    found = json.loads(saved.read_text())
    assert found["backend"] == "cpu" and found["where"]
    assert len(found["harmonics"]["power"]["channelizer"]) == 64
