"""Which integration is the first: of an X-engine that joins in the middle, of a catcher whose X-engines began apart."""

import numpy as np
import pytest

from ryle.chunk import Integration, SpectraChunk
from ryle.engines.beginning import Joining, WholeBand, spectra_there

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
BLOCKS, INPUTS, GROUPS = 10, 6, 3  # of an integration; of the array; of channels


ALL_BITS = (1 << 64) - 1


def rows(first, blocks, since):
    """Make spectra that each input has from block `since` on, a share of the first one if it is no whole number."""
    valid = np.zeros((GROUPS, blocks, INPUTS), np.uint64)
    for i, begins in enumerate(since):
        for b in range(blocks):
            if first + b >= begins:
                valid[:, b, i] = ALL
            elif first + b + 1 > begins:
                valid[:, b, i] = ALL << np.uint64(40)
    return SpectraChunk(first, np.zeros((GROUPS, blocks, INPUTS, 128), np.int8), valid)


def test_spectra_there():
    """Of any input: the earliest begins at bit 40 of block 20."""
    chunk = rows(20, 3, [21, 21, 20.25, 20.25, 1000, 1000])
    assert [spectra_there(chunk, b) for b in range(3)] == [ALL_BITS << 40 & ALL_BITS, ALL_BITS, ALL_BITS]
    assert spectra_there(rows(3, 1, [1000] * 6), 0) == 0


@pytest.mark.parametrize(
    "since, first",
    [
        ([20] * 6, 2),
        ([20.5] * 6, 3),
        ([17] * 6, 2),
        ([17, 17, 19, 19, 19.5, 19.5], 2),
        ([17, 17, 19, 19, 20.5, 20.5], 3),
        ([20, 20, 21, 21, 31, 31], 4),
        ([17, 17, 18, 18, 1000, 1000], 2),  # never comes
    ],
)
def test_joining(since, first, rng):
    """The first integration is the first that each input that came had from its start."""
    joining, at, known = Joining(BLOCKS), 15, []
    whole = []
    while at < 60:
        count = int(rng.integers(1, 8))
        chunk = rows(at, count, since)
        joining.add(chunk)
        at += count
        while (len(whole) + 3) * BLOCKS <= at:
            whole.append(joining.whole(len(whole) + 2))
            known.append(at)
    assert whole.index(True) + 2 == first


def integration(index):
    return Integration(index * 64, 64, 0, np.full((1, 1, 2), index), np.ones((1, 1), np.uint32))


@pytest.mark.parametrize(
    "there, given, later",
    [
        ([(1, 1), (1, 1)], [0, 1], []),
        ([(1, 0), (1, 1), (1, 1)], [1, 2], [1]),
        ([(1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 1)], [2, 3], [1, 2]),
        ([(0, 1), (0, 1), (1, 1)], [0, 1, 2], []),  # one that is not there: nobody waits for more than the next
        ([(1, 1), (0, 1), (1, 1)], [0, 1, 2], []),
        ([(1, 0)], [0], []),
    ],
)
def test_whole_band(there, given, later):
    beginning = WholeBand(64)
    found = [i for n, t in enumerate(there) for i in beginning.push([integration(n)], np.array(t, bool))]
    found += beginning.flush()
    assert [i[0].first_spectrum // 64 for i in found] == given
    assert (beginning.left_out, beginning.later) == (given[0], later)


def test_whole_integrations_of_the_file():
    """If the catcher sums four, the file begins at a multiple of four."""
    beginning = WholeBand(4 * 64)
    found = [i for n in range(5, 12) for i in beginning.push([integration(n)], np.ones(2, bool))]
    assert [i[0].first_spectrum // 64 for i in found] == [8, 9, 10, 11] and beginning.left_out == 3
