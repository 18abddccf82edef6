"""The X-engine's integrations: aligned, complete when they should be, never mixed."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.chunk import BLOCK, SpectraChunk, parts_from_rows, rows_from_parts
from ryle.correlate import reference
from ryle.engines.x import XEngine

CHANNELS, GROUPS, BLOCKS = 8, 2, 3  # of the observation here: an integration is 3 blocks


@pytest.fixture(params=["cpu", "cuda"])
def engine(observe, request, monkeypatch):
    """An engine on the CPU, and one on an emulated GPU."""
    monkeypatch.setattr("ryle.correlate.cuda.open_gpu", EmulatedGpu)
    o = observe(channels=16, sub=CHANNELS, packet=1024, heap_samples=256, integration_spectra=BLOCKS * BLOCK)
    assert (o.groups, o.integration_spectra) == (GROUPS, BLOCKS * BLOCK)
    xengine = o.xengine.model_copy(update={"backend": request.param})
    return XEngine(o.model_copy(update={"xengine": xengine}), CHANNELS, CHANNELS, GROUPS)


@pytest.fixture
def blocks(rng):
    """Random spectra of `count` blocks, a tenth of them missing."""

    def make(first, count, valid=None):
        data = rng.integers(-127, 128, (CHANNELS, count, 6, 2 * BLOCK), dtype=np.int8)
        words = rng.integers(0, 1 << 64, (GROUPS, count, 6), dtype=np.uint64) if valid is None else valid
        return SpectraChunk(first, data, words)

    return make


def split(chunk, lengths):
    first = 0
    for length in lengths:
        part = slice(first, first + length)
        yield SpectraChunk(
            chunk.first_block + first,
            np.ascontiguousarray(chunk.data[:, part]),
            np.ascontiguousarray(chunk.valid[:, part]),
        )
        first += length
    assert first == chunk.blocks


def wanted(chunk, first, end):
    """Sums of the chunk's blocks within [first, end)."""
    part = slice(max(0, first - chunk.first_block), max(0, end - chunk.first_block))
    return reference.correlate(chunk.data[:, part], chunk.valid[:, part], 2)


def check(integration, chunk, index):
    sums, counts = wanted(chunk, index * BLOCKS, (index + 1) * BLOCKS)
    assert (integration.first_spectrum, integration.spectra) == (index * BLOCKS * BLOCK, BLOCKS * BLOCK)
    assert integration.first_channel == CHANNELS
    assert np.array_equal(integration.visibilities, sums)
    assert np.array_equal(integration.counts, counts)


@pytest.mark.parametrize("lengths", [[17], [1] * 17, [2, 5, 4, 6], [4, 3, 3, 3, 4]])
@pytest.mark.parametrize("first", [0, 3, 7])
def test_aligned_however_the_blocks_come(engine, blocks, lengths, first):
    chunk = blocks(first, 17)
    got = []
    for part in split(chunk, lengths):
        got += engine.push(part)
        end = part.first_block + part.blocks
        assert len(got) == end // BLOCKS - first // BLOCKS  # complete ones at once, no other
    got += engine.flush()
    indices = range(first // BLOCKS, -(-(first + 17) // BLOCKS))
    assert len(got) == len(indices)
    for integration, index in zip(got, indices, strict=True):
        check(integration, chunk, index)
    assert engine.late_blocks == 0 and not list(engine.flush())


def test_exposure_is_what_was_there(engine, blocks):
    """From the first spectrum of any input to the last, whatever is missing between; of nothing there is none."""
    valid = np.zeros((GROUPS, 4 * BLOCKS, 6), np.uint64)
    valid[1, 1, 4] = 1 << 9 | 1 << 3  # one integration: from one spectrum to the next but six
    valid[:, 3:6] = ~np.uint64(0)  # all of one
    valid[0, 8, 2] = 1 << 63  # one spectrum: its last
    valid[0, 9, 1], valid[1, 11, 5] = 1 << 62, 1 << 1  # of different inputs, before and after a gap
    chunk = blocks(0, 4 * BLOCKS, valid)
    for lengths in ([12], [1] * 12, [5, 2, 5]):
        got = [i for part in split(chunk, lengths) for i in engine.push(part)]
        found = [i.exposed.span for i in got]
        assert found == [(67, 74), (192, 384), (575, 576), (638, 706)], lengths
        engine._next = 0  # the same again


def test_a_gap_closes_an_integration(engine, blocks):
    """Blocks that never come count as missing, integrations of which none comes are not given."""
    a, b = blocks(1, 1), blocks(20, 4)
    got = [*engine.push(a), *engine.push(b)]
    assert [i.first_spectrum // BLOCK for i in got] == [0, 18, 21]
    check(got[0], a, 0)
    check(got[1], b, 6)
    check(got[2], b, 7)
    assert not list(engine.flush())


def test_late_blocks_are_dropped_and_counted(engine, blocks):
    chunk = blocks(3, 4)
    got = list(engine.push(chunk))
    assert len(got) == 1
    assert not list(engine.push(blocks(3, 3)))  # of the integration given
    assert not list(engine.push(blocks(0, 3)))  # of one before it
    assert engine.late_blocks == 6
    (last,) = engine.flush()
    check(last, chunk, 2)
    assert not list(engine.push(blocks(6, 2))) and engine.late_blocks == 8
    assert not list(engine.flush())


def test_late_and_timely_blocks_of_one_chunk(engine, blocks):
    list(engine.push(blocks(3, 3)))
    chunk = blocks(4, 5)  # blocks 4 and 5 are late, 6 to 8 are not
    (integration,) = engine.push(chunk)
    assert engine.late_blocks == 2
    check(integration, chunk, 2)


def test_nothing_contributed_nothing_given(engine, blocks):
    empty = np.zeros((GROUPS, 3, 6), np.uint64)
    assert not list(engine.push(blocks(0, 3, empty)))
    assert not list(engine.flush())
    chunk = blocks(3, 3)
    (integration,) = engine.push(chunk)
    check(integration, chunk, 1)


def test_invalid_spectra_may_hold_anything(engine, blocks):
    """What lies where nothing came does not matter, not even -128."""
    one = np.full((GROUPS, 3, 6), 0x5555555555555555, np.uint64)
    chunk = blocks(0, 3, one)
    parts = parts_from_rows(chunk.data)
    parts[..., 1::2, :] = -128
    chunk.data[...] = rows_from_parts(parts)
    (integration,) = engine.push(chunk)
    check(integration, chunk, 0)
    assert (integration.counts == 3 * 32).all() and engine.clamped == 0
