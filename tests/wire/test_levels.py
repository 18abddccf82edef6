"""Samples of any described code as channelizers take them: against the plain decoders, and there and back."""

import numpy as np
import pytest

from ryle.wire import vdif, vdif_write
from ryle.wire.build import build
from ryle.wire.description import Format
from ryle.wire.levels import Levels, plain
from ryle.wire.packets import Parser
from ryle.wire.vdif import Header

TEXT = """
title = "t"
source = "s"
header = {{ bytes = 8, field = [{{ name = "n", byte = 0, bytes = 8, means = "m" }}] }}
payload = {{ order = ["time"], size = {{ time = 320 }} }}
timestamp = {{ unit = "samples", count = {{ n = 1 }}, step = 320 }}
[sample]
bits = {bits}
complex = {complex}
code = "{code}"
bit_order = "{order}"
first = "{first}"
"""


def described(bits, code, order="lsb", first="real", complex_samples=True):
    text = TEXT.format(bits=bits, code=code, order=order, first=first, complex=str(complex_samples).lower())
    return Format.parse(text)


def frames(bits, complex_samples, samples=3200):
    code = {"code": "offset_binary"} if bits == 16 else {}
    return Format.load("vdif").given(
        bits=bits, complex=int(complex_samples), heap_samples=samples, sample_rate=100 * samples, **code
    )


def header_of(bits, complex_samples, payload):
    return Header(bits_minus_1=bits - 1, complex_data=int(complex_samples), length8=4 + payload // 8)


@pytest.mark.parametrize("complex_samples", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_frames_have_the_levels_of_recordings(bits, complex_samples, rng):
    format = frames(bits, complex_samples)
    payload = rng.integers(0, 256, (3, 2, format.heap_bytes[0]), np.uint8)
    payload.reshape(-1)[:256] = np.arange(256)
    for given in (format, format.given(code="offset_binary")):  # both name the same codes
        found = Levels(given).decode(payload)
        assert found.dtype == np.uint8 and found.shape == (3, 2, payload.shape[-1] * 32 // bits)
        for row, bytes_of in zip(found.reshape(6, -1), payload.reshape(6, -1), strict=True):
            want = vdif.decode(bytes_of, header_of(bits, complex_samples, len(bytes_of)))[:, 0]
            np.testing.assert_array_equal(row.view(">f4"), np.ascontiguousarray(want).view(np.float32))


@pytest.mark.parametrize("order", ["lsb", "msb"])
@pytest.mark.parametrize("code", ["twos_complement", "offset_binary", "symmetric", "unsigned", "float"])
def test_other_codes_are_the_numbers_that_they_stand_for(code, order, rng):
    widths = (32,) if code == "float" else (2, 3, 4, 5, 7, 8, 10, 12) + (16, 32) * (code == "twos_complement")
    for bits in widths:
        for first in ("real", "imag"):
            format = described(bits, code, order, first)
            payload = rng.integers(0, 256, format.heap_bytes[0], np.uint8)
            if code == "float":
                payload = rng.standard_normal(640).astype(">f4" if order == "msb" else "<f4").view(np.uint8)
            found = Levels(format).decode(payload[np.newaxis])[0].view(">f4").astype(np.float32)
            want = Parser(format).decode([build(format, {}, payload.tobytes())])[0]
            np.testing.assert_array_equal(found.view(np.complex64), want.astype(np.complex64))


def test_what_channelizers_take_as_it_comes():
    assert plain(Format.load("meerkat_digitizer").sample) and plain(described(32, "float", "msb").sample)
    for other in (
        described(8, "twos_complement"), described(8, "twos_complement", "msb", "imag"),
        described(32, "twos_complement", "msb"), described(8, "offset_binary", "msb"), frames(2, False),
    ):  # fmt: skip
        assert not plain(other.sample)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_frames_are_coded_as_recordings_are(bits, rng):
    """Steps of one code to units of the levels: those that lie half a step off zero are told apart by thresholds.

    No voltage lies midway between two levels (float32 noise does, now and then): either is the nearest then.
    """
    steps = (rng.standard_normal((2, 3200)) * 2 ** (bits - 2)).astype(np.float32)
    steps[np.abs(2 * steps - np.rint(2 * steps)) < 1e-3] += 0.25
    unit = {2: vdif.TWO_BIT_THRESHOLD, 4: 1 / vdif.SCALE[4], 8: 1 / vdif.SCALE[8]}.get(bits, 1.0)
    packed, beyond = Levels(frames(bits, True)).encode(steps)
    half = 1 << bits - 1
    codes = vdif_write.quantize(steps.astype(np.float64) * unit, bits)
    for row, want in zip(packed, codes, strict=True):
        assert row.tobytes() == vdif_write.pack(want, bits, True)
    nearest = np.floor(steps) if bits in (1, 2, 8) else np.rint(steps)
    np.testing.assert_array_equal(beyond, (nearest < -half) | (nearest >= half))


@pytest.mark.parametrize("order", ["lsb", "msb"])
@pytest.mark.parametrize("code", ["twos_complement", "offset_binary", "symmetric", "float"])
def test_there_and_back(code, order, rng):
    for bits in (32,) if code == "float" else (2, 3, 4, 5, 8, 10, 12, 16)[: 7 if code == "symmetric" else 8]:
        for first in ("real", "imag"):
            levels = Levels(described(bits, code, order, first))
            half = 1 << bits - 1
            steps = rng.integers(-half, half, (2, 640)).astype(np.float32)
            packed, beyond = levels.encode(steps + np.float32(0.25))
            decoded = levels.decode(packed).view(">f4")
            want = steps + np.float32(0.25) if code == "float" else 2 * steps + 1 if code == "symmetric" else steps
            np.testing.assert_array_equal(decoded, want)
            assert not beyond.any()


def test_beyond_the_scale():
    levels = Levels(frames(4, False))
    packed, beyond = levels.encode(np.array([[-8.4, -8.6, 7.4, 7.6, np.inf, -np.inf, np.nan, 0]], np.float32))
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)
    assert codes.tolist() == [0, 0, 15, 15, 15, 0, 0, 8]
    assert beyond[0].tolist() == [False, True, False, True, True, True, True, False]


@pytest.mark.parametrize(("bits", "steps", "want"), [(1, 3, 1), (2, 1, 2.042), (4, 2, 0.687), (8, 20, 0.563)])
def test_rms_of_noise(bits, steps, want):
    assert Levels(frames(bits, False)).rms(steps) == pytest.approx(want, rel=0.01)
