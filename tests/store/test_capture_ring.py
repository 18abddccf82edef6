"""A ring that others map: whole chunks or none, whatever readers and the writer do."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from paper import feed, payload, plan
from ryle.store.chunk_file import ChunkFile, write_chunk
from ryle.store.ring_file import RingFile, RingReader
from ryle.store.verify import Filling, PayloadRule, Verified, verify


@pytest.fixture
def ring(tmp_path):
    made = RingFile(tmp_path / "ring", plan(), hold=3)
    yield made
    made.clear()


def pump(ring, first, chunks, skip=()):
    """Feed so many chunks and let them through the ring; give their arrays."""
    packets = ring.assembler.plan.packets
    seen = []
    for n in range(first, first + chunks):
        feed(ring.assembler, n * packets, (n + 1) * packets, skip)
        ring.assembler.flush()
        chunk = ring.assembler.next(1.0)
        ring.publish(chunk)
        seen.append((chunk.number, chunk.data.copy(), chunk.present.copy()))
        ring.retire(chunk)
    return seen


def same(chunk, expected):
    number, data, present = expected
    return chunk.number == number and (chunk.data == data).all() and (chunk.present == present).all()


def test_what_a_reader_finds(ring):
    reader = RingReader(ring.path)
    with pytest.raises(LookupError, match="does anything arrive"):
        reader.copy(patience=0.01)
    seen = pump(ring, 10, 2, skip={(1, 41)})
    assert reader.layout.heads == ((0, 0), (1, 0)) and reader.layout.shape == (2, 4, 8192)
    assert [c.number for c in reader.chunks()] == [10, 11]
    assert same(reader.copy(), seen[1]) and same(reader.copy(10), seen[0])
    one = reader.copy(10)
    assert one.timestamp == 40 * 16 and one.placed == 7
    assert one.present.tolist() == [[1, 1, 1, 1], [1, 0, 1, 1]]
    assert (one.data[0, 2] == payload(0, 42)).all() and not one.data[1, 1].any()
    pump(ring, 12, 3)
    with pytest.raises(LookupError, match="chunk 10 is not in the ring: it holds 12 to 14"):
        reader.copy(10)


def test_following(ring):
    """Every chunk once, in order; those that were taken back first are counted."""
    reader = RingReader(ring.path)
    follower = reader.follow(lambda: False)
    seen = pump(ring, 0, 2)
    assert same(next(follower), seen[0]) and same(next(follower), seen[1])
    with pytest.raises(StopIteration):
        next(follower)
    seen = pump(ring, 2, 6)
    rest = list(reader.follow(lambda: False))
    assert [c.number for c in rest] == [5, 6, 7] and reader.lost == 3
    assert all(same(c, s) for c, s in zip(rest, seen[3:], strict=True))
    assert all(c.intact() for c in rest)
    pump(ring, 8, 1)
    assert [c.intact() for c in rest] == [False, True, True]


def test_following_ends_with_the_ring(ring):
    reader = RingReader(ring.path)
    pump(ring, 0, 1)
    ring.path.unlink()
    assert [c.number for c in reader.follow()] == [0]


def test_held_chunks_make_room(tmp_path):
    """Readers never cost a packet: held chunks go when the assembler needs memory."""
    ring = RingFile(tmp_path / "ring", plan(chunks=4), hold=100)
    pump(ring, 0, 50)
    assert ring.assembler.counts().ring_full == 0 and 1 <= ring.held < 4
    ring.clear()
    assert ring.assembler.counts().free == 4 and RingReader(ring.path).chunks() == []


def test_copies_are_whole_while_the_ring_turns(tmp_path):
    """A copy is one chunk in every byte, or it is tried again."""
    ring = RingFile(tmp_path / "ring", plan(heads=1, packets=2, chunks=3), hold=1)
    rule = PayloadRule.of(ring.assembler.plan, Filling.RANDOM, 1)
    stop = threading.Event()

    def turn():
        n = 0
        while not stop.is_set():
            pump(ring, n, 1)
            n += 1

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        found, numbers = Verified(), set()
        reader = RingReader(ring.path)
        deadline = time.monotonic() + 60
        while len(numbers) < 30:
            assert time.monotonic() < deadline
            copy = reader.copy(patience=60)
            verify(rule, copy, found)
            numbers.add(copy.number)
    finally:
        stop.set()
        thread.join()
    assert found.wrong_packets == 0 and found.packets >= 60
    ring.clear()


READER = """
import sys
from ryle.store.ring_file import RingReader
for chunk in RingReader(sys.argv[1]).follow():
    print(chunk.number, int(chunk.data.sum()), flush=True)
"""


def test_another_process(ring):
    """It sees the same bytes; killing it changes nothing."""
    reader = subprocess.Popen([sys.executable, "-c", READER, str(ring.path)], stdout=subprocess.PIPE, text=True)
    for n in range(5):
        ((number, data, _),) = pump(ring, n, 1)
        assert reader.stdout.readline().split() == [str(number), str(data.sum(dtype=np.int64))]
    reader.kill()
    reader.wait()
    reader.stdout.close()
    pump(ring, 5, 20)
    assert ring.assembler.counts().ring_full == 0


def test_no_ring(tmp_path):
    (tmp_path / "x").write_bytes(bytes(10000))
    with pytest.raises(ValueError, match="no ring of chunks"):
        RingReader(tmp_path / "x")


def test_not_enough_shared_memory(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"MiB of shared memory in .*: No space left on device; choose fewer"):
        RingFile(tmp_path / "ring", plan())
    assert not (tmp_path / "ring").exists()


def test_dump(ring, tmp_path):
    """A chunk out of a live ring, in a file of its own."""
    seen = pump(ring, 3, 1, skip={(0, 13)})
    reader = RingReader(ring.path)
    write_chunk(tmp_path / "one.chunks", reader.layout, reader.copy())
    (back,) = ChunkFile(tmp_path / "one.chunks")
    assert same(back, seen[0]) and back.placed == 7
    assert ChunkFile(Path(tmp_path / "one.chunks")).layout == reader.layout
