"""Heaps of several packets, made natively: their parts, their payload, their numbers, and what a receiver counts of them."""

import numpy as np
import pytest
import spead2
import spead2.recv

from heap_formats import small
from ryle.config.addresses import endpoints
from ryle.engines.capture_plan import _parts
from ryle.receive.assembly import Assembler, Plan
from ryle.send.account import expect
from ryle.send.sending import FATES, InjectedFaults, Sending, expected_payload, payload_place, plan
from ryle.store.verify import Filling, PayloadRule, Verified, verify
from ryle.wire.packets import Parser, Reason
from sent_payload import payload_of

#: Format, and how its heaps are cut: a heap's bytes, those of a packet's part.
CUT = {"meerkat_f": (512, 200), "meerkat_x": (320, 128), "ryle_x": (640 + 80, 256), "casper_x": (384, 136)}
#: Bytes before the payload: items and what stands before them.
HEADER = {"meerkat_f": 8 + 8 * 8, "meerkat_x": 8 + 8 * 7, "ryle_x": 8 + 8 * 9, "casper_x": 8 + 8 * 4}


def made(name, part=None, **asked):
    size = None if part is None else part + HEADER[name]
    settled = plan(Sending(to=endpoints("127.0.0.1:9"), format=small(name), size=size, **asked))
    packets = []
    for source in settled.sources:
        while source.due() >= 0:
            packet, stream, _ = source.make()
            packets.append((stream, packet))
    return packets, settled


@pytest.mark.parametrize("name", CUT)
def test_parts_of_heaps_by_another_reading(name):
    heap, part = CUT[name]
    parts = -(-heap // part)
    packets, settled = made(name, part, sources=3, packets=7 * parts, burst=2, seed=5)
    assert settled.heap_packets == parts and len(packets) == 3 * 7 * parts
    format = small(name)
    fields = Parser(format).parse([p for _, p in packets])
    assert fields.valid.all(), fields.explain(int(np.argmin(fields.valid)))
    seen = {}
    for i, (stream, packet) in enumerate(packets):
        identity, number = payload_place(format, fields.header[i])
        body = packet[HEADER[name] :]
        offset = int(fields.offset[i])
        assert body == payload_of(5, identity, number, heap)[offset : offset + len(body)]
        assert body == expected_payload(5, identity, number, len(body), offset=offset).tobytes()
        assert len(body) == min(part, heap - offset) and offset % part == 0
        seen.setdefault((stream, number), set()).add(offset)
    assert sorted(seen) == [(s, n) for s in range(3) for n in range(7)]
    assert all(offsets == set(range(0, heap, part)) for offsets in seen.values())
    if format.heap.number is not None:  # no two heaps have one, all packets of a heap have the same
        numbers = {}
        for i, (stream, _) in enumerate(packets):
            key = stream, int(fields.timestamp[i])
            assert numbers.setdefault(key, int(fields.header["heap_count"][i])) == int(fields.header["heap_count"][i])
        assert len(set(numbers.values())) == len(numbers) == 21


@pytest.mark.parametrize("name", ["meerkat_f", "meerkat_x", "ryle_x"])
def test_spead2_puts_the_same_heaps_together(name):
    heap, part = CUT[name]
    packets, _ = made(name, part, sources=2, packets=5 * -(-heap // part))
    ring = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig(max_heaps=8))
    item = {"meerkat_f": 0x4300, "meerkat_x": 0x1800, "ryle_x": 0x1801}[name]
    length = {"meerkat_f": heap, "meerkat_x": heap, "ryle_x": 640}[name]
    # spead2's buffer reader takes packets one behind the other: a heap ends with its last byte.
    ring.add_buffer_reader(b"".join(p for _, p in packets))
    got = {}
    for h in ring:
        items = {i.id: i for i in h.get_items()}
        array = bytes(np.asarray(items[item]))
        time = items[0x1600].immediate_value
        where = tuple(items[i].immediate_value for i in (0x4101, 0x4103) if i in items)
        got[where, time] = array[:length]
    format = small(name)
    assert len(got) == 10
    fields = Parser(format).parse([p for _, p in packets])
    for i in range(len(packets)):
        names = format.timestamp.stream
        where = tuple(int(fields.header[n][i]) for n in names)
        key = where, int(fields.timestamp[i])
        identity, number = payload_place(format, fields.header[i])
        assert got[key] == payload_of(1, identity, number, heap)[:length]


def fates(settled):
    rows = np.zeros((len(settled.streams), len(FATES) + 2), np.int64)
    settled.sources[0].counts_into(rows)
    return dict(zip(FATES, rows.sum(axis=0).tolist(), strict=False)), int(rows[:, len(FATES)].sum())


@pytest.mark.parametrize("name", CUT)
def test_faults_as_an_assembler_counts_them(name, rng):
    """Its account is what the sender says was injected, and every byte that is left is right."""
    heap, part = CUT[name]
    parts = -(-heap // part)
    faults = InjectedFaults(
        loss=0.05, duplicate=0.05, reorder=0.1, truncate=0.03, foreign=0.03, seed=int(rng.integers(1 << 40))
    )
    packets, settled = made(name, part, sources=2, packets=400 * parts, faults=faults, seed=7, burst=1)
    format = small(name)
    heads = [tuple(s.fields[n] for n in format.timestamp.stream) for s in settled.streams]
    step = format.timestamp.step
    p = Plan(format, heads, 8, chunks=60, window=20 * step, parts=_parts(format, part), linger=0)
    assembler, rule, found = Assembler(p), PayloadRule.of(p, Filling.RANDOM, 7), Verified()
    for at in range(0, len(packets), 64):
        assembler.take([packet for _, packet in packets[at : at + 64]])
        while (chunk := assembler.next(0)) is not None:
            verify(rule, chunk, found)
            chunk.release()
    assembler.finish()
    for chunk in assembler:
        verify(rule, chunk, found)
    counts, expected = assembler.counts(), expect(*fates(settled))
    same = ("placed", "duplicate", "malformed", "foreign")
    assert {k: getattr(counts, k) for k in same} == {k: expected[k] for k in same}
    assert counts.received == expected["datagrams"] == len(packets) and counts.late == 0
    # What is lost after a stream's last heap, or before its first, nobody can see.
    assert expected["missing"] - 2 * parts <= counts.missing <= expected["missing"] > 40
    assert (found.packets, found.wrong_packets) == (counts.placed, 0)


@pytest.mark.parametrize("name", CUT)
def test_turned_bits_as_a_reader_finds_them(name, rng):
    heap, part = CUT[name]
    faults = InjectedFaults(corrupt=0.6, seed=int(rng.integers(1 << 40)))
    packets, settled = made(name, part, sources=2, packets=2000 * -(-heap // part), faults=faults, seed=7)
    format = small(name)
    heads = {tuple(s.fields[n] for n in format.timestamp.stream) for s in settled.streams}
    fields = Parser(format).parse([p for _, p in packets])
    said = dict.fromkeys(("malformed", "foreign", "misplaced", "placed"), 0)
    for i, (_, packet) in enumerate(packets):
        header, offset = fields.header[i], int(fields.offset[i])
        body = packet[HEADER[name] :]
        if Reason(int(fields.reason[i])).foreign:
            said["foreign"] += 1
        elif not fields.valid[i] or offset % part or len(body) != min(part, heap - offset):
            said["malformed"] += 1  # there is no such part
        elif tuple(int(header[n]) for n in format.timestamp.stream) not in heads:
            said["foreign"] += 1
        else:
            is_its = body == expected_payload(7, *payload_place(format, header), len(body), offset=offset).tobytes()
            on_step = int(fields.timestamp[i]) % format.timestamp.step == 0
            said["placed" if is_its and on_step else "misplaced"] += 1
    expected = expect(*fates(settled))
    assert said == {k: expected[k] for k in said}
    assert all(n > 100 for n in said.values())


def test_what_cannot_be_sent():
    with pytest.raises(ValueError, match=r"multiples of 8 bytes .* nearest have 176 and 184"):
        made("meerkat_f", 109)
    with pytest.raises(ValueError, match="payload_offset: the sender says"):
        made("meerkat_f", fields={"payload_offset": 8})


def test_a_heap_in_one_packet_and_the_usual_size():
    packets, settled = made("meerkat_f", packets=3)
    assert settled.heap_packets == 1 and {len(p) for _, p in packets} == {512 + HEADER["meerkat_f"]}
    assert [int.from_bytes(p[10:16], "big") for _, p in packets] == [0, 1, 2]


def test_clocks_jump_by_heaps():
    parts, step = 3, small("meerkat_f").timestamp.step
    packets, _ = made(
        "meerkat_f", 200, packets=10 * parts, pps=30.0, burst=1, faults=InjectedFaults(jump_at=0.5, jump=100)
    )
    times = Parser(small("meerkat_f")).parse([p for _, p in packets]).timestamp.tolist()
    assert times == [(n if n < 5 else n + 100) * step for n in range(10) for _ in range(parts)]


def test_threads_share_the_heaps_of_a_stream():
    packets, settled = made("meerkat_f", 200, threads=2, packets=24, burst=2)
    format = small("meerkat_f")
    fields = Parser(format).parse([p for _, p in packets])
    keys = list(zip(fields.timestamp.tolist(), fields.offset.tolist(), strict=True))
    assert len(settled.sources) == 2 and fields.valid.all()
    assert sorted(keys) == [(n * format.timestamp.step, at) for n in range(8) for at in (0, 200, 400)]
    assert len(set(fields.header["heap_count"].tolist())) == 8
