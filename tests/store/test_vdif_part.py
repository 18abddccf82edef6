"""Parts of VDIF recordings: found without reading what is before, and the same chunks as in the whole."""

import numpy as np
import pytest

import recorded
from ryle.store.vdif_files import VdifInput, VdifSource

SECONDS = 30
INPUTS = [VdifInput(0, 3, 0, 0, 0), VdifInput(0, 7, 1, 0, 1), VdifInput(1, 1, 0, 1, 0), VdifInput(1, 0, 1, 1, 1)]


@pytest.fixture
def files(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(recorded, "RATE", 16000)
    monkeypatch.setattr(recorded, "FRAME", 160)
    return recorded.vdif(tmp_path, rng, SECONDS)


def source(files):
    return VdifSource(files, INPUTS, 16000, 1782864000, chunk_samples=3000, overlap=False)


def test_any_part_has_the_chunks_of_the_whole(files, rng):
    whole = source(files)
    chunks = {chunk.timestamp: chunk for _, chunk in whole}
    assert sum(int((c.present == 0).sum()) for c in chunks.values()) > 100  # frames lost, and late ones
    for _ in range(25):
        low, high = np.sort(rng.integers(whole.start - 2000, whole.stop + 2000, 2)).tolist()
        part = source(files)
        part.take(low, high + 1)
        found = [chunk for _, chunk in part]
        assert [c.timestamp for c in found] == [t for t, c in chunks.items() if t <= high and c.end > low], (low, high)
        for chunk in found:
            assert np.array_equal(chunk.data, chunks[chunk.timestamp].data), (low, high, chunk.timestamp)
            assert np.array_equal(chunk.present, chunks[chunk.timestamp].present)


def test_little_is_read_for_a_little(files):
    whole, part = source(files), source(files)
    middle = whole.start + (whole.stop - whole.start) // 2
    part.take(middle, middle + 1)
    assert len(list(part)) == 1 and len(list(whole)) > 100
    for few, all_frames in zip(part.accounts, whole.accounts, strict=True):
        assert 0 < few.frames < all_frames.frames / 4
