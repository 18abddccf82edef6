"""Faults on the way of packets made elsewhere: the rules of `ryle send`, number by number."""

import collections

import numpy as np
import pytest

from ryle.config.addresses import endpoints
from ryle.config.simulation import FaultsTable
from ryle.send.datagrams import Injector
from ryle.send.sending import InjectedFaults, Sending, plan
from ryle.wire.build import build
from ryle.wire.description import Format
from ryle.wire.packets import Parser

PSA = Format.load("paper_psa128")


def through(injector, packets, streams, batch=7):
    """What leaves, as (mark, bytes); marks are the places in `packets`."""
    rows = np.array([np.frombuffer(p, np.uint8) for p in packets])
    found = []

    def put(datagrams):
        packed, lengths, marks = datagrams
        at = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        found.extend((int(m), packed[a:b].tobytes()) for m, a, b in zip(marks, at, at[1:], strict=False))

    for at in range(0, len(rows), batch):
        part = slice(at, at + batch)
        marks = np.arange(len(rows), dtype=np.uint32)[part]
        put(injector.handle(rows[part], np.array(streams[part], np.uint32), marks))
    put(injector.flush())
    return found


def some(n, streams=2):
    order = [(s, t) for t in range(n) for s in range(streams)]
    return [build(PSA, {"mcnt": t, "fid": s}, bytes(8192)) for s, t in order], [s for s, _ in order]


def test_nothing_wrong():
    packets, streams = some(40)
    injector = Injector(FaultsTable(), PSA, 2)
    assert through(injector, packets, streams) == list(enumerate(packets)) and injector.counts == {}


def test_the_same_packets_suffer_the_same_as_in_ryle_send(rng):
    """One set of rules: what is lost, comes twice or late, and in which order everything leaves."""
    seed, n = int(rng.integers(1 << 40)), 800
    table = FaultsTable(loss=0.1, duplicate=0.1, reorder=0.15, reorder_distance=9, seed=seed)
    asked = InjectedFaults(loss=0.1, duplicate=0.1, reorder=0.15, distance=9, seed=seed)
    settled = plan(
        Sending(to=endpoints("127.0.0.1:9"), format=PSA, sources=2, packets=n, burst=1, faults=asked, filling="zeros")
    )
    (source,) = settled.sources
    sent = []
    while source.due() >= 0:
        sent.append(source.make()[0])
    packets, streams = some(n)
    injector = Injector(table, PSA, 2)
    assert [p for _, p in through(injector, packets, streams)] == sent
    rows = np.zeros((2, 13), np.int64)
    source.counts_into(rows)
    sums = rows.sum(axis=0)
    assert injector.counts == {"lost": sums[1], "duplicated": sums[2], "reordered": sums[3]} and sums[1] > 100


def test_damage_shows(rng):
    """Each damaged packet is none of the format; every other arrives once, as it was."""
    for format, build_one in (
        (PSA, lambda t: build(PSA, {"mcnt": t}, bytes(8192))),
        (DIGITIZER, lambda t: build(DIGITIZER, {"timestamp": 256 * t, "digitiser_id": 3}, bytes(320))),
    ):
        packets = [build_one(t) for t in range(600)]
        injector = Injector(FaultsTable(corrupt=0.3, seed=int(rng.integers(1 << 40))), format, 1)
        found = through(injector, packets, [0] * 600)
        assert [mark for mark, _ in found] == list(range(600))
        wrong = [m for m, p in found if p != packets[m]]
        valid = Parser(format).parse([p for _, p in found]).valid
        assert np.flatnonzero(~valid).tolist() == wrong
        assert sum(injector.counts.values()) == len(wrong) and 100 < len(wrong) < 260
        whole = sum(len(p) == len(packets[m]) for m, p in found if p != packets[m])
        # The format of PAPER allows any header: its packets can only be cut short.
        assert injector.counts == ({"truncated": len(wrong)} if format is PSA else {"corrupted_invalid": len(wrong)})
        assert whole == (0 if format is PSA else len(wrong))


DIGITIZER = Format.load("meerkat_digitizer").given(bits=10, heap_samples=256)


def test_everything_may_be_lost_or_late():
    packets, streams = some(20)
    assert through(Injector(FaultsTable(loss=1), PSA, 2), packets, streams) == []
    late = through(Injector(FaultsTable(reorder=1, reorder_distance=1000), PSA, 2), packets, streams)
    assert collections.Counter(p for _, p in late) == collections.Counter(packets)


def test_shares_are_at_most_one():
    with pytest.raises(ValueError, match="at most 1 in all"):
        FaultsTable(loss=0.6, corrupt=0.6)
