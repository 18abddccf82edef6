"""Inputs whose I and Q are exchanged."""

import numpy as np
import pytest

import fresh
from ryle.channelize import Blocks, ChannelizerConfig, Delays, make_channelizer
from ryle.chunk import SampleChunk
from ryle.wire.samples import pack

SHAPE = {"inputs": 2, "channels": 32, "taps": 3, "bits": 8, "complex_input": True}


def chunk(samples):
    data, _ = pack(samples.reshape(2, -1, 64), 8)
    return SampleChunk(0, data, np.ones(data.shape[:2], np.uint8), 64)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_conjugated_input_gives_what_a_straight_one_does(backend):
    if backend == "cpu":
        pytest.importorskip("ryle.channelize.cpu", exc_type=ImportError)
    rng = fresh.rng()
    parts = rng.integers(-127, 128, (2, 2, 70 * 32)).astype(np.float32)
    samples = (parts[0] + 1j * parts[1]).astype(np.complex64)
    crossed = samples.copy()
    crossed[1] = crossed[1].conj()
    delays = Delays(rng.integers(0, 20, (2, 64)), rng.uniform(-0.5, 0.5, (2, 64)), rng.uniform(-3, 3, (2, 64)))
    straight = make_channelizer(ChannelizerConfig(**SHAPE), backend)
    turned = make_channelizer(ChannelizerConfig(**SHAPE, conjugated=(1,)), backend)
    wanted = straight.process(chunk(samples), 0, 64, delays, Blocks())
    found = turned.process(chunk(crossed), 0, 64, delays, Blocks())
    assert wanted.valid.sum() > 64
    np.testing.assert_array_equal(found.data, wanted.data)
    assert (straight.process(chunk(crossed), 0, 64, delays, Blocks()).data[:, :, 1] != wanted.data[:, :, 1]).any()


def test_real_samples_cannot_be_conjugated():
    with pytest.raises(ValueError, match="only complex ones"):
        ChannelizerConfig(inputs=2, channels=32, conjugated=(0,))
    with pytest.raises(ValueError, match="inputs are 0 to 1"):
        ChannelizerConfig(**SHAPE, conjugated=(2,))
