"""Heaps of several packets: each packet in its place of the cell, and counted by itself."""

from dataclasses import replace

import numpy as np
import pytest

import fresh
from assembled import check_sums
from heap_formats import small
from ryle.receive.assembly import Assembler, Part, Plan, grid, heap_parts
from ryle.wire.build import build_heap
from ryle.wire.description import Format

X = small("meerkat_x")
STEP = X.timestamp.step
BYTES = 4 * 10 * 8


def plan(heads=2, part=96, **settings):
    frequencies = range(0, 4 * heads, 4)
    given = {"packets": 2, "chunks": 6, "linger": 0.0, "notes": ("heap_length", "frequency")}
    return Plan(X, grid(X, frequency=frequencies), parts=heap_parts(BYTES, part), **(given | settings))


def heap(head, number, payload, part=96):
    return build_heap(X, {"timestamp": number * STEP, "frequency": 4 * head}, payload.tobytes(), part)


@pytest.mark.parametrize("part", [32, 96, 160, 320])
def test_parts_in_any_order_make_heaps(part):
    """Lost, repeated and mixed up within the window; against plain arrays."""
    rng = fresh.rng()
    p = plan(2, part, window=3 * STEP)
    data = rng.integers(1, 256, (2, 12, BYTES), np.uint8)
    packets = [
        (h, n, i, made)
        for n in range(12)
        for h in range(2)
        for i, made in enumerate(heap(h, n, data[h, n], part))
        if rng.random() < 0.9 or i == 0
    ]
    repeated = [packet for packet in packets if rng.random() < 0.1]
    mixed = sorted(packets + repeated, key=lambda packet: packet[1] + rng.uniform(0, 2))
    assembler, chunks = Assembler(p), []
    for at in range(0, len(mixed), 7):
        assembler.take([made for *_, made in mixed[at : at + 7]])
        while (chunk := assembler.next(0)) is not None:
            with chunk:
                chunks.append((chunk.number, chunk.data.copy(), chunk.present.copy(), chunk.notes.copy()))
    assembler.finish()
    for chunk in assembler:
        chunks.append((chunk.number, chunk.data.copy(), chunk.present.copy(), chunk.notes.copy()))
    there = {packet[:3] for packet in packets}
    parts = -(-BYTES // part)
    assert [c[0] for c in chunks] == list(range(6))
    for number, body, present, notes in chunks:
        assert present.shape == ((2, 2, parts) if parts > 1 else (2, 2))
        for h, i in np.ndindex(2, 2):
            n, marks = 2 * number + i, np.atleast_1d(present[h, i])
            assert marks.tolist() == [(h, n, k) in there for k in range(parts)]
            assert np.array_equal(body[h, i], data[h, n] * np.repeat(marks, part)[:BYTES])
            assert notes[h, i].tolist() == [BYTES, 4 * h]
    counts = check_sums(assembler)
    assert counts.placed == len(packets) and counts.duplicate == len(repeated)
    assert counts.missing == 24 * parts - len(packets)


def test_packets_that_are_no_part_are_malformed():
    assembler = Assembler(plan(part=96))
    payload = np.ones(BYTES, np.uint8)
    assembler.take(heap(0, 0, payload, 96) + heap(0, 1, payload, 64))  # parts of 64: none is among those of 96
    counts = check_sums(assembler)
    assert counts.placed == 4 and counts.faults["part"] == 5


def test_optional_parts_are_expected_only_if_they_come():
    """F-heaps with a validity tail and without one."""
    f = small("meerkat_f")
    body, tail = 8 * 16 * 2 * 2, f.payload.trailer_bytes[-1]
    parts = (*heap_parts(body, 128), Part(body, tail, body, True))
    first = {name: f.fields[name].low for name in f.timestamp.stream}
    p = Plan(f, grid(f, **first), packets=4, parts=parts, linger=0.0, chunks=4)
    assembler = Assembler(p)
    sent = []
    for n in range(4):
        payload = bytes([n + 1]) * (body + (tail if n % 2 else 0))
        sent += build_heap(f, first | {"timestamp": n * f.timestamp.step}, payload, 128)
    lost = sent.pop(0)
    assert len(lost) > 128
    assembler.take(sent)
    assembler.finish()
    (chunk,) = [(c.data.copy(), c.present.copy()) for c in assembler]  # a lost tail is not known to be lost
    data, present = chunk
    assert present[0].sum(1).tolist() == [3, 5, 4, 5]
    assert not data[0, 0, :128].any() and not data[0, 2, body:].any() and (data[0, 3] == 4).all()
    counts = check_sums(assembler)
    assert (counts.placed, counts.missing, counts.expected) == (17, 1, 18)


def test_heaps_of_a_hundred_megabytes_have_thousands_of_parts():
    """The same cost a packet: the 13 000th part of a heap is found like the first."""
    given = {"channels": 128, "products": 12800, "step": 1 << 20}
    x = Format.load("meerkat_x").given(**given)
    nbytes, part = 128 * 12800 * 8, 8192
    p = Plan(x, grid(x, frequency=0), packets=1, chunks=2, parts=heap_parts(nbytes, part), linger=0.0)
    payload = fresh.rng().integers(0, 256, nbytes, np.uint8)
    packets = build_heap(x, {"timestamp": 0, "frequency": 0}, payload.tobytes(), part)
    assembler = Assembler(p)
    order = fresh.rng().permutation(len(packets))
    assembler.take([packets[i] for i in order[:-1]])
    assembler.finish()
    with assembler.next(0) as chunk:
        assert chunk.present.shape == (1, 1, 1600) and chunk.present.sum() == 1599
        payload[order[-1] * part : (order[-1] + 1) * part] = 0
        assert np.array_equal(chunk.data[0, 0], payload)
    assert assembler.counts().missing == 1


def test_a_step_back_takes_eight_heaps_and_not_eight_parts_of_one():
    p = replace(plan(1, 32, window=0), packets=1, chunks=4)
    assembler = Assembler(p)
    payload = np.ones(BYTES, np.uint8)
    for n in range(100, 120):
        assembler.take(heap(0, n, payload, 32))
        while (chunk := assembler.next(0)) is not None:
            chunk.release()
    assembler.take(heap(0, 117, payload, 32))  # ten packets of an old heap again
    counts = check_sums(assembler)
    assert counts.duplicate == 10 and counts.resyncs == 0


def test_a_heap_whose_optional_part_may_still_come_is_not_full():
    """It closes by its stream's clock, though nothing that is expected is missing."""
    f = small("meerkat_f")
    body, tail = 8 * 16 * 2 * 2, f.payload.trailer_bytes[-1]
    first = {name: f.fields[name].low for name in f.timestamp.stream}
    parts = (*heap_parts(body, 128), Part(body, tail, body, True))
    assembler = Assembler(Plan(f, grid(f, **first), packets=1, parts=parts, linger=0.0, chunks=4))
    step = f.timestamp.step
    heaps = [build_heap(f, first | {"timestamp": n * step}, bytes([7]) * (body + tail), 128) for n in range(2)]
    assembler.take(heaps[0][:-1])
    assert assembler.next(0) is None
    assembler.take(heaps[0][-1:])
    with assembler.next(0) as chunk:
        assert chunk.present.all()
    assembler.take(heaps[1][:-1] + build_heap(f, first | {"timestamp": 2 * step}, bytes(body), 128))
    with assembler.next(0) as chunk:
        assert chunk.present[0, 0].tolist() == [1] * (len(parts) - 1) + [0]
    assert check_sums(assembler).missing == 0
