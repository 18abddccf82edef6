"""Pieces of files, and chunks of files that are read together: as NumPy reads and joins them."""

import errno
import os

import numpy as np
import pytest

from recorded import fresh, observation
from ryle.engines import chunk_recordings
from ryle.engines.chunk_recordings import ChunkRecordings
from ryle.store.chunk_file import Layout, StoredChunk, file_header, pages, record_header
from ryle.store.pieces import equal_pieces, read_all
from ryle.wire._native import read_pieces


def numbers(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_come_where_they_are_to(tmp_path, rng, threads):
    contents, paths = [rng.integers(0, 256, int(n), np.uint8) for n in rng.integers(2 << 20, 3 << 20, 3)], {}
    files = []
    for name, content in zip("abc", contents, strict=True):
        content.tofile(tmp_path / name)
        files.append((tmp_path / name).open("rb"))
        paths[files[-1].fileno()] = tmp_path / name
    count = 200
    which, sizes = rng.integers(0, 3, count), rng.integers(0, 60000, count)
    at = np.array([rng.integers(0, len(contents[w]) - s + 1) for w, s in zip(which, sizes, strict=True)])
    to = np.cumsum(np.concatenate([[3], sizes[:-1] + rng.integers(0, 5, count - 1)]))
    wanted = np.full(to[-1] + sizes[-1] + 7, 9, np.uint8)
    for w, a, t, s in zip(which, at, to, sizes, strict=True):
        wanted[t : t + s] = contents[w][a : a + s]
    found = np.full_like(wanted, 9)
    read_all(paths, np.array([files[w].fileno() for w in which]), at, to, sizes, found, threads)
    np.testing.assert_array_equal(found, wanted)
    equal = equal_pieces(tmp_path / "a", files[0].fileno(), numbers(5, 0, 100), 11)
    np.testing.assert_array_equal(equal, [contents[0][a : a + 11] for a in (5, 0, 100)])
    assert equal_pieces(tmp_path / "a", files[0].fileno(), numbers(), 11).shape == (0, 11)


def test_what_cannot_be_read_is_told(tmp_path):
    (tmp_path / "short").write_bytes(bytes(100))
    with (tmp_path / "short").open("rb") as file:
        n = file.fileno()
        with pytest.raises(OSError, match=r"short became shorter while it was read"):
            read_all({n: tmp_path / "short"}, numbers(n, n), numbers(0, 50), numbers(0, 40), numbers(40, 60), room(100))
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Is a directory") as caught:
            read_all({directory: tmp_path}, numbers(directory), numbers(0), numbers(0), numbers(9), room(9))
    finally:
        os.close(directory)
    assert caught.value.errno == errno.EISDIR and caught.value.filename == str(tmp_path)


def room(size):
    return np.zeros(size, np.uint8)


@pytest.mark.parametrize(("at", "to", "size"), [(-1, 0, 1), (0, -1, 1), (0, 0, -1), (0, 0, 11), (0, 11, 0), (0, 5, 6)])
def test_nothing_is_written_beyond_the_memory(at, to, size):
    with pytest.raises(IndexError, match="beyond the memory"):
        read_pieces(numbers(0), numbers(at), numbers(to), numbers(size), room(10))
    with pytest.raises(ValueError, match="of each"):
        read_pieces(numbers(0), numbers(0, 1), numbers(0), numbers(0), room(10))


@pytest.mark.parametrize("together", [1, 3, 1000])
def test_blocks_are_joined_as_numpy_joins_them(tmp_path, rng, monkeypatch, together):
    """Of files that have the same inputs, blocks out of order and twice, and packets missing."""
    o, packets = observation(batch=64 * 1000), 4
    size, step = o.digitizer_heap_bytes, o.digitizer.heap_samples
    monkeypatch.setattr(chunk_recordings, "_LARGEST", together * o.n_inputs * packets * size)
    blocks, wanted, paths = 12, {}, []
    for number, inputs in enumerate([[2, 0], [1], [0, 3]]):  # the first has input 0, where it has it
        heads = tuple(tuple(o.digitizer_head(i)) for i in inputs)
        shape, fields = (len(inputs), packets, size), tuple(o.digitizer_format.timestamp.stream)
        layout = Layout(o.digitizer_format.name, heads, fields, packets, shape, step, 0, "samples")
        paths.append(tmp_path / f"{number}.chunks")
        with paths[-1].open("wb") as file:
            file.write(file_header(layout))
            order = rng.permutation(np.concatenate([np.arange(blocks), rng.integers(0, blocks, 2)]))
            for block in order[rng.random(len(order)) < 0.8].tolist():
                data, present = rng.integers(0, 256, shape, np.uint8), (rng.random(shape[:2]) < 0.7).astype(np.uint8)
                chunk = StoredChunk(block, 0, block * packets * step, int(present.sum()), data, present)
                for part in (record_header(chunk), present.tobytes(), data.tobytes()):
                    file.write(part.ljust(pages(len(part)), b"\0"))
                for row, packet in np.argwhere(present).tolist():
                    wanted.setdefault((inputs[row], block * packets + packet), data[row, packet])
    source = ChunkRecordings(o, paths)
    found, ends, lengths = {}, [], []
    for band, chunk in source.chunks(fresh):
        assert band == 0 and chunk.timestamp % (packets * step) == 0 and chunk.timestamp >= max(ends, default=0)
        ends.append(chunk.end)
        lengths.append(chunk.present.shape[1] // packets)
        assert not chunk.data[chunk.present == 0].any()
        for i, packet in np.argwhere(chunk.present).tolist():
            found[i, chunk.timestamp // step + packet] = chunk.data[i, packet]
    assert found.keys() == wanted.keys() and all((found[key] == wanted[key]).all() for key in wanted)
    assert max(lengths) <= together and (together < 1000 or len(lengths) <= 4)
    assert sum(r.placed for r in source.recorded) >= len(wanted)
