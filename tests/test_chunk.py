"""The order of a K-block's row."""

import numpy as np
import pytest

import fresh
from ryle.chunk import BLOCK, ROW_GROUP, parts_from_rows, rows_from_parts


def test_a_row_is_groups_of_real_and_imaginary_parts():
    """The definition, byte by byte: [4][16 re | 16 im]."""
    assert (BLOCK, ROW_GROUP) == (64, 16)
    rows = rows_from_parts(np.stack([np.arange(64), np.arange(64) + 100], axis=-1))
    for group in range(4):
        for n in range(16):
            assert rows[32 * group + n] == 16 * group + n
            assert rows[32 * group + 16 + n] == 16 * group + n + 100


@pytest.mark.parametrize("leading", [(), (3,), (2, 5, 3), (0, 4)])
def test_rows_and_parts_are_each_others_inverse(leading):
    parts = fresh.rng().integers(-127, 128, (*leading, 64, 2), dtype=np.int8)
    rows = rows_from_parts(parts)
    assert rows.shape == (*leading, 128) and rows.dtype == np.int8
    np.testing.assert_array_equal(parts_from_rows(rows), parts)
    np.testing.assert_array_equal(rows_from_parts(np.asfortranarray(parts)), rows)
    if leading:
        np.testing.assert_array_equal(rows[-1:], rows_from_parts(parts[-1:]))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"parts has shape \(2, 64\); .* \(64, 2\)"):
        rows_from_parts(np.zeros((2, 64), np.int8))
    with pytest.raises(ValueError, match=r"rows has shape \(64, 2\); .* 128"):
        parts_from_rows(np.zeros((64, 2), np.int8))
