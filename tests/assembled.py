"""What tests of the assembler share: a small format, its packets, and what must hold of every chunk and count."""

import struct

import numpy as np

from formats import description
from ryle.receive.assembly import Plan, grid
from ryle.wire.description import Format

STEP, BYTES = 4, 48
FORMAT = Format.parse(
    description(
        {
            "seq": {"byte": 0, "bytes": 8, "bits": "63:16"},
            "ant": {"byte": 0, "bytes": 8, "bits": "15:8"},
            "kind": {"byte": 0, "bytes": 8, "bits": "7:0", "equals": 7},
        },
        {"time": STEP, "channel": 3, "input": BYTES // 3 // STEP},
        {"antenna": {"ant": 1}},
        stream=["ant"],
    )
)


def plan(heads=3, **settings):
    return Plan(FORMAT, grid(FORMAT, ant=range(heads)), **({"packets": 16, "chunks": 24, "linger": 0.0} | settings))


def payload(head, number):
    """Bytes that no other packet has."""
    return struct.pack("<Hq", head, number) + bytes([1 + (head + 31 * number) % 251]) * (BYTES - 10)


def packet(head, number):
    return struct.pack(">Q", (number % 2**48) << 16 | head << 8 | 7) + payload(head, number)


def stream(heads, numbers):
    return [packet(head, number) for number in numbers for head in range(heads)]


def feed(assembler, rng, packets, times=None, most=200):
    """Hand packets over in batches of any size, consuming in between; copies of the chunks, in order."""
    chunks, at = [], 0
    while at < len(packets):
        n = int(rng.integers(1, most))
        assembler.take(packets[at : at + n], times=0 if times is None else np.array(times[at : at + n], np.int64))
        at += n
        while (chunk := assembler.next(0)) is not None:
            with chunk:
                chunks.append((chunk.epoch, chunk.number, chunk.timestamp, chunk.present.copy(), chunk.data.copy()))
    return chunks


def drain(assembler):
    return [(c.epoch, c.number, c.timestamp, c.present.copy(), c.data.copy()) for c in assembler]


def check_data(p, chunks):
    """What is present holds its own payload, all else zeros."""
    for _, number, timestamp, present, data in chunks:
        assert timestamp == p.origin + number * p.span
        for head, i in np.ndindex(present.shape):
            want = payload(head, number * p.packets + i) if present[head, i] else bytes(BYTES)
            assert data[head, i].tobytes() == want


def check_sums(assembler):
    c, h = assembler.counts(), assembler.head_counts()
    assert c.datagrams == c.placed + c.late + c.duplicate + c.malformed + c.foreign
    assert c.received == c.datagrams + c.ring_full and c.expected == c.placed + c.missing
    assert c.malformed == sum(c.faults.values())
    for name in ("placed", "late", "duplicate", "ring_full", "missing"):
        assert getattr(h, name).sum() == getattr(c, name)
    assert h.jump.sum() == c.faults["jump"]
    assert np.array_equal(h.expected, h.placed + h.missing) and (h.missing >= 0).all()
    assert c.open + c.ready + c.taken + c.free == assembler.plan.chunks
    return c


def check_rules(assembler, rules, chunks):
    """Chunks and counts are those that the rules in plain Python give (`assembly_rules.Rules`)."""
    p = assembler.plan
    assert [(c[0], c[1]) for c in chunks] == [(epoch, number) for epoch, number, _ in rules.closed]
    for (_, number, _, present, _), (_, _, held) in zip(chunks, rules.closed, strict=True):
        found = {(int(h), number * p.packets + int(i)) for h, i in zip(*np.nonzero(present), strict=True)}
        assert found == held
    check_data(p, chunks)
    counts = assembler.head_counts()
    for name, each in rules.counts().items():
        assert getattr(counts, name).tolist() == each, name
    assert assembler.counts().resyncs == rules.resyncs
