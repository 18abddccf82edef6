"""Chunks of some times: those that a look at all finds, whatever the file is like."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryle.store import chunk_file
from ryle.store.chunk_file import ChunkFile, Layout, StoredChunk, file_header, pages, record_header

SPAN = 4 * 10


def write(path, times, damaged=()):
    """A file of chunks of (epoch, time stamp), of which some records' headers are spoilt."""
    layout = Layout("counter_8192", ((0,), (1,)), ("port",), 4, (2, 4, 16), 10, 0, "samples")
    with path.open("wb") as file:
        file.write(file_header(layout))
        for number, (epoch, timestamp) in enumerate(times):
            data = np.full(layout.shape, number % 256, np.uint8)
            present = np.ones((2, 4), np.uint8)
            header = bytearray(record_header(StoredChunk(number, epoch, timestamp, 8, data, present)))
            if number in damaged:
                header[9] ^= 1
            file.write(header)
            for part in (present, data):
                file.write(part.tobytes().ljust(pages(part.nbytes), b"\0"))
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("chunks")


def found(file):
    return [(c.number, c.epoch, c.timestamp, int(c.data[0, 0, 0])) for c in file]


@given(
    steps=st.lists(st.sampled_from([1, 1, 1, 3, 50]), min_size=1, max_size=60),
    low=st.integers(-100, 4000),
    length=st.integers(1, 2000),
    kind=st.sampled_from(["ordered", "damaged", "shuffled", "epochs"]),
    seed=st.integers(0, 2**32),
)
def test_those_of_some_times_are_those_of_a_look_at_all(directory, steps, low, length, kind, seed):
    rng = np.random.default_rng(seed)
    times = (SPAN * np.cumsum(steps)).tolist()
    if kind == "shuffled":
        rng.shuffle(times)
    epochs = np.sort(rng.integers(0, 2, len(times))) if kind == "epochs" else np.zeros(len(times), int)
    damaged = rng.integers(0, len(times), 2).tolist() if kind == "damaged" else ()
    path = write(directory / "some.chunks", list(zip(epochs.tolist(), times, strict=True)), damaged)
    wanted = [c for c in found(ChunkFile(path)) if c[2] + SPAN > low and c[2] < low + length]
    assert found(ChunkFile(path, (low, low + length))) == wanted
    all_times = [c[2] for c in found(ChunkFile(path))]
    assert ChunkFile(path, (0, 0)).ends() == ((min(all_times), max(all_times)) if all_times else None)


def test_few_records_of_a_long_file_are_looked_at(directory, monkeypatch):
    path = write(directory / "long.chunks", [(0, SPAN * n) for n in range(5000)])
    looks, headers = [], ChunkFile._headers
    monkeypatch.setattr(ChunkFile, "_headers", lambda self, at: looks.extend(at) or headers(self, at))
    file = ChunkFile(path, (SPAN * 1000 + 1, SPAN * 1003))
    assert [c.timestamp // SPAN for c in file] == [1000, 1001, 1002] and file.damaged == 0
    assert len(looks) == 3


def test_a_file_without_a_chunk_has_none_of_any_time(directory):
    file = ChunkFile(write(directory / "none.chunks", []), (0, 10**9))
    assert len(file) == file.damaged == 0


def test_time_stamps_are_read_once_unless_the_file_may_be_written_to(tmp_path, monkeypatch):
    reads, pieces = [], chunk_file.equal_pieces
    monkeypatch.setattr(chunk_file, "equal_pieces", lambda *about: reads.append(about) or pieces(*about))

    def starts(path):
        reads.clear()
        return [c.timestamp for c in ChunkFile(path, (0, 1000))], sum(len(at) for _, _, at, size in reads if size == 8)

    path = write(tmp_path / "a.chunks", [(0, 0), (0, SPAN), (0, 2000)])
    assert starts(path) == ([0, SPAN], 3) and starts(path) == ([0, SPAN], 3)  # it was written just now
    os.utime(path, (1000, 1000))
    assert starts(path) == ([0, SPAN], 3) and starts(path) == ([0, SPAN], 0)
    write(path, [(0, 0), (0, 3000), (0, 2 * SPAN)])  # of the same size, and at another time
    assert starts(path) == ([0, 2 * SPAN], 3)
    os.utime(path, (2000, 2000))
    assert starts(path) == ([0, 2 * SPAN], 3) and starts(path) == ([0, 2 * SPAN], 0)
