"""Rings and blocks: who may write when, who gets what, what is dropped. A test for each contract that rings keep."""

import threading
import time

import numpy as np
import pytest

from ryle.stream.block import Block
from ryle.stream.ring import Aborted, Ring


class Event:
    """Work on a device that ends when the test says so."""

    def __init__(self):
        self.done = threading.Event()

    def synchronize(self):
        assert self.done.wait(120)


def ring(blocks=3, **options):
    return Ring("test", lambda: Block(np.zeros(4, np.int64)), blocks, **options)


def put(r, n):
    block = r.room()
    block.data[:], block.start = n, n
    r.put(block)


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_contract_1_no_block_is_written_while_a_reader_holds_it():
    """Random readers hold blocks for random times; what each sees is what was written for it, to the end."""
    r, rng = ring(3), np.random.default_rng()
    readers = [r.reader() for _ in range(3)]
    seen = [[] for _ in readers]

    def read(reader, seen, seed):
        own, held = np.random.default_rng(seed), []
        for block in reader:
            seen.append(block.start)
            held.append(block)
            while held and (len(held) > own.integers(0, 3)):
                old = held.pop(0)
                time.sleep(own.random() * 1e-3)
                assert (old.data == old.start).all()
                old.release()
        for old in held:
            assert (old.data == old.start).all()
            old.release()

    threads = [
        threading.Thread(target=read, args=(x, s, rng.integers(1 << 30))) for x, s in zip(readers, seen, strict=True)
    ]
    for t in threads:
        t.start()
    for n in range(300):
        put(r, n)
    r.close()
    for t in threads:
        t.join(60)
    assert seen == [list(range(300))] * 3 and r.free == 3 and not r.dropped


@pytest.mark.parametrize("device_writer", [False, True])
def test_contract_1_nor_before_the_work_that_reads_it_has_ended(device_writer):
    """A host's writer gets a block after the event; a device's gets it at once, with the event to wait for there."""
    r = ring(1, device_writer=device_writer)
    a, b = r.reader(), r.reader()
    put(r, 1)
    late = Event()
    a.get().release(late)
    b.get().release()
    if device_writer:
        block = r.room()
        assert block.after == [late]
    else:
        time.sleep(0.05)
        assert r.free == 0
        late.done.set()
        eventually(lambda: r.free == 1)
        assert r.room().after == []


def test_only_what_drops_drops():
    """With all blocks held a ring that drops counts, one that waits waits."""
    r = ring(2, policy="drop_newest")
    reader = r.reader()
    put(r, 0), put(r, 1)
    assert r.room() is None and r.room() is None and r.dropped == 2
    reader.get().release()
    put(r, 5)
    assert [reader.get().start, reader.get().start] == [1, 5]

    r = ring(1)
    reader = r.reader()
    put(r, 0)
    writer = threading.Thread(target=put, args=(r, 1))
    writer.start()
    time.sleep(0.05)
    assert writer.is_alive()
    reader.get().release()
    writer.join(60)
    assert reader.get().start == 1 and not r.dropped


def test_end_and_abort():
    """After `close` readers get what is there and end; after `abort` everybody is woken."""
    r = ring(2)
    reader = r.reader()
    put(r, 0)
    r.close()
    assert not reader.ended
    reader.get().release()
    assert reader.get() is None and reader.ended and list(reader) == []

    r = ring(1)
    reader, found = r.reader(), []
    put(r, 0)

    def wait(what):
        try:
            what()
        except Aborted as error:
            found.append(str(error))

    reader.get()  # held: nothing is free, nothing is there
    threads = [threading.Thread(target=wait, args=(f,)) for f in (r.room, reader.get)]
    for t in threads:
        t.start()
    time.sleep(0.02)
    r.abort()
    for t in threads:
        t.join(60)
    assert found == ["test", "test"]


def test_get_in_time():
    r = ring(1)
    reader = r.reader()
    began = time.monotonic()
    assert reader.get(0.05) is None and time.monotonic() - began >= 0.05 and not reader.ended
    with pytest.raises(ValueError, match="at least 1"):
        ring(0)


def test_unused_room_comes_back_and_nobody_reads_it():
    r = ring(1)
    reader = r.reader()
    r.unused(r.room())
    put(r, 7)
    assert reader.get().start == 7


def test_without_readers_nothing_is_held():
    r = ring(1)
    for n in range(5):
        put(r, n)
    assert r.free == 1


def test_who_looks_on_asks_for_nothing():
    """An assembler takes whoever asks for somebody who has done with all that he was given."""

    class Asked(Ring):
        by = ()

        def _fetch(self, timeout):
            self.by = {*self.by, threading.current_thread().name}
            super()._fetch(timeout)

    r = Asked("test", lambda: Block(np.zeros(4, np.int64)), 3)
    got = {"asks": [], "looks on": []}

    def read(reader, name):
        for block in reader:
            got[name].append(block.start)
            block.release()

    readers = {"asks": r.reader(), "looks on": r.reader(asks=False)}
    threads = [threading.Thread(target=read, args=(reader, name), name=name) for name, reader in readers.items()]
    for thread in threads:
        thread.start()
    for n in range(20):
        put(r, n)
        time.sleep(0.005)
    r.close()
    for thread in threads:
        thread.join(60)
    assert got == {"asks": list(range(20)), "looks on": list(range(20))} and r.by == {"asks"}
