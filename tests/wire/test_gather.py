"""Rows of packets of several recordings, gathered to one chunk: as NumPy copies them."""

import numpy as np
import pytest

from ryle.wire._native import gather


def test_rows_are_as_numpy_copies_them(rng):
    for _ in range(20):
        inputs, packets, size = (int(n) for n in rng.integers(1, 9, 3))
        sources = []
        for _ in range(int(rng.integers(0, 4))):  # two may have the same rows: each adds what it has
            rows = int(rng.integers(1, 5))
            data = rng.integers(0, 256, (rows, packets, size), np.uint8)
            there = rng.integers(0, 3, (rows, packets)).astype(np.uint8)
            taken = rng.permutation(rows)[: rng.integers(0, rows + 1)].tolist()
            sources.append((data, there, taken, rng.integers(0, inputs, len(taken)).tolist()))
        wanted, marks = np.zeros((inputs, packets, size), np.uint8), np.zeros((inputs, packets), np.uint8)
        for data, there, taken, to in sources:
            for row, i in zip(taken, to, strict=True):
                wanted[i, there[row] != 0] = data[row, there[row] != 0]
                marks[i, there[row] != 0] = 1
        found, present = np.full_like(wanted, 77), np.full_like(marks, 77)
        for data, there, _, _ in sources:
            data.flags.writeable = there.flags.writeable = False  # as files are
        gather(sources, found, present)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(present, marks)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (((2, 3, 4), (2, 3), [0, 1], [0]), "as many rows"),
        (((2, 4, 4), (2, 4), [0], [0]), "one number and size"),
        (((2, 3, 5), (2, 3), [0], [0]), "one number and size"),
        (((2, 3, 4), (1, 3), [0], [0]), "a mark for each packet"),
        (((2, 3, 4), (2, 3), [2], [0]), "not there"),
        (((2, 3, 4), (2, 3), [0], [5]), "beyond the chunk's"),
    ],
)
def test_what_does_not_fit_is_refused(source, why):
    data, there, taken, to = source
    sources = [(np.zeros(data, np.uint8), np.zeros(there, np.uint8), taken, to)]
    with pytest.raises((ValueError, IndexError), match=why):
        gather(sources, np.zeros((5, 3, 4), np.uint8), np.zeros((5, 3), np.uint8))
    with pytest.raises(ValueError, match="of the chunk"):
        gather([], np.zeros((5, 3, 4), np.uint8), np.zeros((5, 2), np.uint8))
