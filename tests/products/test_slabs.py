"""Integrations in the order of the file: the same bits as the formula in numpy, whatever the chunks and pieces."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from ryle.chunk import Integration
from ryle.products import cuts
from ryle.products._native import normalize
from ryle.products.cuts import chunk_shape
from ryle.products.slabs import Slabs
from ryle.products.uvh5_layout import Rows


def formula(rows, parts, channels, sideband, exposed, least):
    """Visibilities, nsamples and flags of an integration, by one line of numpy each."""
    baselines, polarizations = rows.product.shape
    vis = np.zeros((baselines, channels, polarizations, 2), np.float32)
    nsamples, flags = np.zeros(vis.shape[:3], np.float32), np.ones(vis.shape[:3], bool)
    for part in parts:
        counts = part.counts[:, rows.product].repeat(part.channels // part.counts.shape[0], axis=0)
        scale = 1.0 / np.maximum(counts, 1) * (counts > 0)
        here = slice(part.first_channel, part.first_channel + part.channels)
        for component, factor in ((0, scale), (1, scale * rows.sign[:, np.newaxis])):
            sums = part.visibilities[:, rows.product, component]
            np.multiply(sums, factor, out=vis[:, here, :, component].transpose(1, 0, 2), casting="same_kind")
        nsamples[:, here] = (counts / exposed).transpose(1, 0, 2)
        flags[:, here] = (counts < least).transpose(1, 0, 2)
    return [each[:, ::sideband] for each in (vis, nsamples, flags)]


def assembled(made, shape, chunk):
    """What chunks make of an integration; each must come once, and visibilities be used at once."""
    kinds = {"visdata": np.complex64, "nsamples": np.float32, "flags": np.bool_}
    room = [-(-n // c) * c for n, c in zip(shape, chunk, strict=True)]
    arrays = {name: np.zeros(room, kind) for name, kind in kinds.items()}
    seen = {name: np.zeros(room[:2], int) for name in kinds}
    for one in made:
        content = one.content if one.name == "visdata" else zlib.decompress(one.content)
        at = slice(one.row, one.row + chunk[0]), slice(one.channel, one.channel + chunk[1])
        arrays[one.name][at] = np.frombuffer(content, kinds[one.name]).reshape(chunk)
        seen[one.name][at] += 1
    assert all((each == 1).all() for each in seen.values())
    return [a[: shape[0], : shape[1]] for a in arrays.values()]


@pytest.mark.parametrize("sideband", [1, -1])
@pytest.mark.parametrize("pols", ["xy", "x"])
@pytest.mark.parametrize("kind", ["<i8", ">i8", "<f8"])
@pytest.mark.parametrize("chunk_bytes", [1 << 20, 700])
def test_chunks_hold_the_bits_of_the_formula(synthetic, rng, monkeypatch, sideband, pols, kind, chunk_bytes):
    monkeypatch.setattr(cuts, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(cuts, "_SLAB_BYTES", 4 * chunk_bytes)
    meta = synthetic.metadata(
        synthetic.enu(6, rng), pols=pols, channels=50, sideband=sideband, antenna_numbers=(4, 2, 9, 1, 5, 3)
    )
    rows = Rows.of(meta)
    shape = rows.sign.size, 50, len(pols) ** 2
    chunk = chunk_shape(shape[0], shape[2], 50)
    made = Slabs(rows, 50, sideband, chunk)
    whole = synthetic.random_integration(meta, rng, 0, 1000, groups=25)
    whole.visibilities[0, 0] = [2**62 + 12345, -(2**53) - 1]  # beyond what float64 holds: rounded once, and again
    held = np.zeros((50, meta.products + 3, 2), kind)  # as in a payload: a piece of each channel's bytes
    sums = held[:, : meta.products]
    sums[...] = whole.visibilities
    parts = [Integration(0, 1000, a, sums[a:b], whole.counts[a // 2 : b // 2]) for a, b in ((30, 50), (0, 18))]
    parts[1].counts[:3] = 0  # nobody contributed
    for turn, given in enumerate((parts, [parts[0]], parts)):  # slabs' memory is used again
        want = formula(rows, given, 50, sideband, 900 + turn, 300)
        found = assembled(made.make(given, 900 + turn, 300), shape, chunk)
        np.testing.assert_array_equal(found[0].view(np.uint32), want[0].view(np.uint32).reshape(*shape[:2], -1))
        np.testing.assert_array_equal(found[1], want[1])
        np.testing.assert_array_equal(found[2], want[2])
    made.close()


def test_equal_counts_are_compressed_once(synthetic, rng, monkeypatch):
    calls = []
    real = zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda *given: calls.append(1) or real(*given))
    monkeypatch.setattr(cuts, "_CHUNK_BYTES", 16 * 4 * 8)
    meta = synthetic.metadata(synthetic.enu(5, rng), channels=16)
    made = Slabs(Rows.of(meta), 16, 1, chunk_shape(15, 4, 16))
    sums, counts = np.ones((16, 60, 2), np.int64), np.full((2, 60), 100, np.uint32)
    assert len(list(made.make([Integration(0, 100, 0, sums, counts)], 100, 1))) == 3 * 15
    some = len(calls)
    assert some <= 2 * cuts._THREADS
    list(made.make([Integration(100, 100, 0, sums, counts)], 100, 1))
    assert len(calls) == some
    made.close()


@pytest.mark.parametrize("channels", [1, 7, 1024, 32768, 100_003])
@pytest.mark.parametrize("baselines", [1, 15, 3403, 3570])
def test_chunks_are_neither_tiny_nor_huge_and_divide_integrations(baselines, channels):
    rows, wide, polarizations = chunk_shape(baselines, 4, channels)
    assert baselines % rows == 0 and polarizations == 4
    assert wide <= channels and -(-channels // wide) * wide - channels < -(-channels // wide)
    size = rows * wide * 32
    assert size <= 2**22 and (size >= 2**18 or rows == baselines)


def test_arrays_that_do_not_belong_together_are_refused():
    sums, counts = np.zeros((8, 4, 2), np.int64), np.ones((2, 4), np.uint32)
    product, sign, out = np.arange(4)[:, np.newaxis], np.ones(4, np.int64), np.zeros((4, 8, 1, 2), np.float32)
    normalize(sums, "int64", counts, product, sign, 0, 1, out)
    for bad in (
        (sums, "int64", counts, product + 1, sign, 0, 1, out),
        (sums, "int64", counts, product, sign, 1, 1, out),
        (sums, "int64", counts, product, sign, 0, -1, out),
        (sums, "int32", counts, product, sign, 0, 1, out),
        (sums, "int64", counts[:, :3].copy(), product, sign, 0, 1, out),
        (sums[:7], "int64", counts, product, sign, 0, 1, out[:, :7]),
        (sums, "int64", counts, product, sign[:3], 0, 1, out),
    ):
        with pytest.raises((ValueError, TypeError)):
            normalize(*bad)
