"""Rings larger than any cache are written past the caches: the same bytes, at every alignment and length."""

import numpy as np
import pytest

import fresh
from formats import description
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.wire.description import Format


@pytest.mark.parametrize("header", [6, 13, 16])
@pytest.mark.parametrize("size", [1024, 1039, 4096, 8184, 8192])
def test_every_byte_is_where_it_belongs(header, size):
    rng = fresh.rng()
    antennas, packets = 3, 16
    chunks = -(-(64 << 20) // (antennas * packets * size))  # just large enough
    form = Format.parse(
        description(
            {"number": {"byte": 2, "bytes": 4}, "antenna": {"byte": 0, "bytes": 2}},
            {"time": size},
            {},
            header=header,
            unit="packets",
            step=1,
            bits=8,
            complex=False,
            code="unsigned",
        )
    )
    assembler = Assembler(
        Plan(form, grid(form, antenna=range(antennas)), packets, chunks=chunks, window=2 * packets, linger=0.0)
    )
    rows = rng.integers(0, 256, (3 * packets * antennas, header + size), np.uint8)
    antenna, number = np.divmod(np.arange(len(rows)), 3 * packets)
    rows[:, :2] = np.stack(np.divmod(antenna, 256), 1)
    rows[:, 2:6] = number.astype(">u4").view(np.uint8).reshape(-1, 4)
    kept = np.sort(rng.choice(len(rows), len(rows) - 7, replace=False))
    order = kept[np.argsort(number[kept] + rng.uniform(0, packets, len(kept)))]  # out of order within the window
    assembler.take(np.ascontiguousarray(rows[order]))
    assembler.finish()
    seen = 0
    for chunk in assembler:
        for a in range(antennas):
            for i in range(packets):
                row = a * 3 * packets + chunk.timestamp + i
                wanted = rows[row, header:] if row in kept else np.zeros(size, np.uint8)
                np.testing.assert_array_equal(chunk.data[a, i], wanted)
                seen += int(chunk.present[a, i])
    assert seen == len(kept) == assembler.counts().placed
