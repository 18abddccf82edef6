"""Which spectra are valid: those all of whose samples came, looked at one by one."""

import numpy as np
import pytest

from ryle.channelize.validity import whole_windows, window_starts


def oracle(starts, window, present, packet_samples):
    there = np.repeat(present != 0, packet_samples, axis=1)
    inputs, samples = there.shape
    return np.array(
        [
            [0 <= s and s + window <= samples and there[i, s : s + window].all() for s in starts[i]]
            for i in range(inputs)
        ]
    ).reshape(starts.shape)


@pytest.mark.parametrize("lost", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("kind", [np.uint8, np.bool_])
def test_windows_are_whole_if_all_samples_came(rng, lost, kind):
    for _ in range(30):
        inputs, packets, size = (int(n) for n in rng.integers(1, [5, 20, 40]))
        window = int(rng.integers(1, 3 * size))
        starts = rng.integers(-size, packets * size + size, (inputs, 50))
        starts[:, :3] = 0, packets * size - window, packets * size - window + 1
        present = (rng.random((inputs, packets)) >= lost).astype(kind)
        first, step, timestamp = (int(n) for n in rng.integers(0, [1000, 9, 99]))
        coarse = step * np.arange(first, first + 50) - starts - timestamp
        got = whole_windows(coarse, first, step, window, present, size, timestamp)
        np.testing.assert_array_equal(window_starts(coarse, first, step, timestamp), starts)
        np.testing.assert_array_equal(got, oracle(starts, window, present, size))


def test_of_any_memory(rng):
    starts, present = rng.integers(0, 60, (6, 9)), rng.integers(0, 2, (4, 20), np.uint8)
    got = whole_windows(-starts[::2].T[:4], 0, 0, 5, present[:, ::2], 7)
    np.testing.assert_array_equal(got, oracle(starts[::2].T[:4], 5, present[:, ::2], 7))
    none = whole_windows(-starts[:, :3], 0, 0, 5, np.zeros((6, 0), np.uint8), 7)
    assert none.shape == (6, 3) and not none.any()
    assert whole_windows(starts[:0], 0, 0, 5, present[:0], 7).shape == (0, 9)


def test_windows_begin_before_what_is_delayed():
    coarse = np.array([[3, -2], [0, 5]])
    np.testing.assert_array_equal(window_starts(coarse, 10, 8, 16), [[61, 74], [64, 67]])
