import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Delays, Heaps, Rows, make_channelizer
from ryle.channelize.pfb import WINDOWS, pfb_weights
from ryle.chunk import SampleChunk


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inputs": 0}, "inputs is 0; use at least 1"),
        ({"channels": 7}, "channels is 7; use an even number"),
        ({"channels": 2}, "channels is 2; .*at least 4"),
        ({"taps": 0}, "taps is 0; use 1 to 256"),
        ({"bits": 11}, "11 bits .*1 to 10, 12, 16, or 32"),
        ({"output_bits": 6}, "output_bits is 6; use 4 or 8"),
        ({"dither": "gaussian"}, "'gaussian'; use 'uniform' or 'none'"),
        ({"seed": -1}, "seed is -1"),
        ({"window": "kaiser"}, "'kaiser' is unknown; use one of hann, hamming, blackman, rect"),
        ({"weights": np.ones(3)}, r"shape \(3,\).* need \(64,\)"),
        ({"weights": np.zeros(64)}, "not all zero"),
        ({"input_offset": -1}, "input_offset is -1"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ChannelizerConfig(**{"inputs": 2, "channels": 8, "taps": 4, **settings})


def test_unknown_backend_lists_the_known():
    with pytest.raises(ValueError, match=r"'tpu' is unknown; use one of .*cpu.*cuda.*reference"):
        make_channelizer(ChannelizerConfig(1, 8), "tpu")


def test_unknown_instruction_set_lists_the_known():
    cpu = pytest.importorskip("ryle.channelize.cpu", exc_type=ImportError)
    with pytest.raises(ValueError, match=r"no instruction set 'mmx'; use one of .*portable"):
        cpu.CpuChannelizer(ChannelizerConfig(1, 8), "mmx")


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda/emulated"])
def test_bad_arguments_are_named(cases, backend):
    if backend == "cpu":
        pytest.importorskip("ryle.channelize.cpu", exc_type=ImportError)
    channels = 64 if backend == "cuda/emulated" else 8
    channelizer = cases.form(ChannelizerConfig(2, channels, 4, bits=8), backend)
    chunk = SampleChunk(0, np.zeros((2, 40, 64), np.uint8), np.ones((2, 40), np.uint8), 64)
    zero = Delays.zero(2, 64)

    def refuses(message, chunk=chunk, first=0, spectra=64, delays=zero, layout=Blocks(), out=None):  # noqa: B008
        with pytest.raises(ValueError, match=message):
            channelizer.process(chunk, first, spectra, delays, layout, out)

    refuses("not whole K-blocks; use multiples of 64", first=32)
    refuses("not whole heaps; use multiples of 48", layout=Heaps(48))
    refuses("no whole number of antennas of 3 pols", layout=Heaps(64, 3))
    refuses("no whole number of antennas of 3 pols", layout=Rows(3))
    refuses("at least 1 of each", layout=Rows(0))
    refuses("not whole K-blocks", layout=Rows(2), first=32)
    refuses("first_spectrum is -64", first=-64)
    refuses("delays.coarse has shape .*use .* = ", delays=Delays.zero(2, 32))
    refuses("delays.fine must lie in", delays=Delays(zero.coarse, zero.fine + 0.6, zero.phase))
    refuses("delays.phase must be finite", delays=Delays(zero.coarse, zero.fine, zero.phase * np.nan))
    refuses("delays.coarse is float64", delays=Delays(zero.fine, zero.fine, zero.phase))
    refuses("chunk.data has shape", chunk=SampleChunk(0, chunk.data[:1], chunk.present[:1], 64))
    refuses("chunk.present has shape", chunk=SampleChunk(0, chunk.data, chunk.present[:, 1:], 64))
    refuses(
        "the packets of an input contiguous", chunk=SampleChunk(0, np.asfortranarray(chunk.data), chunk.present, 64)
    )
    refuses(r"out is uint8 .* needs a C-contiguous int8 array of shape \(\d+, 1, 2, 128\)", out=np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match=r"gains of shape \(3,\) do not fit"):
        channelizer.set_gains(np.ones(3))
    with pytest.raises(ValueError, match="gains must be finite"):
        channelizer.set_gains(np.inf)


@pytest.mark.parametrize("window", WINDOWS)
def test_weights_are_symmetric_and_normalized(window):
    weights = pfb_weights(32, 5, window)
    np.testing.assert_allclose(weights, weights[::-1], atol=1e-15)
    np.testing.assert_allclose(np.sum(weights**2), 1)


def test_weights_by_hand():
    # DESIGN: A·W(i)·sinc(w_c(i + 1/2 - nT)/(2n)), n = 2, T = 2.
    i = np.arange(8)
    by_hand = np.sin(np.pi * i / 7) ** 2 * np.sinc(0.9 * (i + 0.5 - 4) / 4)
    np.testing.assert_allclose(pfb_weights(4, 2, "hann", 0.9), by_hand / np.sqrt(np.sum(by_hand**2)), atol=1e-15)


def test_own_weights_equal_named_ones():
    named = ChannelizerConfig(1, 8, 4)
    own = ChannelizerConfig(1, 8, 4, weights=3 * pfb_weights(16, 4))
    np.testing.assert_allclose(own.prototype(), named.prototype())
