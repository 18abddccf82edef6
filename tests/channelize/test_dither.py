import numpy as np
import pytest

import fresh
from ryle.channelize.dither import dither, philox4x32


def test_known_answers():
    """Vectors of Random123's kat_vectors file."""
    ones, pi = [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    vectors = [
        (7, [0] * 4, (0, 0), "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (7, ones, (0xFFFFFFFF, 0xFFFFFFFF), "5207ddc2 45165e59 4d8ee751 8c52f662"),
        (10, [0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, ones, (0xFFFFFFFF, 0xFFFFFFFF), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (10, pi, (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for rounds, counter, key, words in vectors:
        assert " ".join(f"{word:08x}" for word in philox4x32(counter, key, rounds)) == words


@pytest.mark.parametrize(("channels", "quarter"), [(4, 1), (6, 2), (10, 3), (12, 3), (64, 16)])
def test_counter_word_and_halves(channels, quarter):
    seed, spectrum, index = 0x0123456789ABCDEF, (5 << 32) + 7, 9
    values = dither(seed, index, spectrum, channels)
    assert values.shape == (channels, 2)
    for channel in range(channels):
        words = philox4x32([channel % quarter, 7, 5, 9], (0x89ABCDEF, 0x01234567))
        high, low = divmod(int(words[channel // quarter]), 1 << 16)
        np.testing.assert_array_equal(values[channel], [(high + 0.5) / 65536 - 0.5, (low + 0.5) / 65536 - 0.5])


def test_distribution():
    values = dither(fresh.seed(62), 0, 0, 1 << 16).reshape(-1)
    assert np.all(np.abs(values) < 0.5)
    assert abs(values.mean()) < 5 * np.sqrt(1 / 12 / values.size)
    assert abs(values.var() * 12 - 1) < 0.03
    assert abs(np.mean(values[::2] * values[1::2])) < 5 / 12 / np.sqrt(values.size / 2)
