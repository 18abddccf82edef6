"""Every packet where it belongs, and counted: against a plain-Python oracle, on traffic with every kind of fault."""

import ctypes
import struct
import threading

import numpy as np
import pytest

import fresh
from assembled import FORMAT, STEP, check_data, check_rules, check_sums, drain, feed, packet, payload, plan, stream
from assembly_rules import Rules
from heap_formats import ALONE
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.wire.build import build
from ryle.wire.description import Format


def arrivals(rng, p, numbers, loss, skew=0, twice=0.05, disorder=0.1, reach=3):
    """(head, number) in order of arrival: lost, repeated, delayed by up to and beyond the window, heads apart."""
    events = []
    for head in range(len(p.heads)):
        lag = rng.uniform(0, skew) if skew else 0
        for number in numbers:
            if rng.random() < loss:
                continue
            time = number + lag / p.step + rng.uniform(0, 0.5)
            if rng.random() < disorder:
                time += rng.uniform(0, max(1, p.window / p.step))
            elif rng.random() < disorder / 4:
                time += rng.uniform(0, reach * p.open_most * p.packets)
            events.append((time, head, number))
            if rng.random() < twice:
                events.append((time + rng.exponential(p.packets), head, number))
    return [(head, number) for _, head, number in sorted(events)]


@pytest.mark.parametrize("loss", [0.0, 0.001, 0.01, 0.2])
def test_random_traffic_is_placed_as_the_rules_say(loss):
    for _ in range(12):
        rng = fresh.rng()
        packets = int(rng.integers(3, 24))
        slack = int(rng.integers(0, 3 * packets * STEP))
        window = int(rng.integers(0, slack + 1))
        p = plan(int(rng.integers(1, 6)), packets=packets, window=window, skew=slack - window, chunks=80)
        start = int(rng.integers(0, 1000))
        sent = arrivals(rng, p, range(start, start + 12 * packets), loss, skew=2 * p.skew)
        rules, assembler = Rules(p), Assembler(p)
        for event in sent:
            rules.take(*event)
        rules.close_all()
        chunks = feed(assembler, rng, [packet(*event) for event in sent])
        assembler.finish()
        chunks += drain(assembler)
        check_rules(assembler, rules, chunks)
        c = check_sums(assembler)
        assert c.resyncs == 0 and c.malformed == 0


def test_heads_100_ms_apart_lose_nothing_if_the_skew_allows_it():
    rate = 20_000  # packets/s of each head, a 200 kHz spectrum rate at STEP 4
    lag = rate // 10
    heads, numbers = 4, range(3 * lag)
    lags = np.array([0, lag, lag // 3, lag // 2])
    order = sorted((number + lags[head], head, number) for head in range(heads) for number in numbers)
    packets = [packet(head, number) for _, head, number in order]
    rng = fresh.rng()

    def run(skew):
        p = plan(heads, packets=512, skew=skew, chunks=10)
        assembler = Assembler(p)
        chunks = feed(assembler, rng, packets)
        assembler.finish()
        chunks += drain(assembler)
        return check_sums(assembler), chunks

    counts, chunks = run(lag * STEP)
    assert (counts.placed, counts.missing, counts.late) == (len(packets), 0, 0)
    assert [c[1] for c in chunks] == list(range(len(chunks)))
    counts, _ = run(lag * STEP // 8)  # the other way round: without it the test says nothing
    assert counts.late > 0 and counts.missing > 0


def test_a_chunk_closes_once_all_heads_have_passed_it_also_the_first():
    assembler = Assembler(plan(2, packets=4, skew=8 * 4 * STEP))
    assembler.take([packet(0, 4), *stream(2, range(3))])  # the first packet is not the earliest
    assert assembler.next(0) is None
    assembler.take([packet(1, 4)])
    with assembler.next(0) as chunk:
        assert chunk.number == 0 and chunk.present[:, :3].all() and not chunk.present[:, 3].any()


def test_a_chunk_that_is_full_closes_at_once_in_its_turn():
    """Whatever window and skew would keep open: nothing more could be placed in it."""
    p = plan(2, packets=4, window=4 * 4 * STEP, skew=8 * 4 * STEP)
    assembler = Assembler(p)
    assembler.take([packet(0, 0), *stream(2, range(4, 8)), packet(1, 0), *stream(2, range(1, 3)), packet(0, 3)])
    assert assembler.next(0) is None  # one packet of the first is missing; the second is full, but not the oldest
    assembler.take([packet(1, 3)])
    for number in (0, 1):
        with assembler.next(0) as chunk:
            assert chunk.number == number and chunk.present.all()
    assert assembler.next(0) is None
    assembler.take([packet(0, 8), packet(1, 5), packet(0, 2)])  # again: places that were taken, so they are no losses
    counts = check_sums(assembler)
    assert (counts.duplicate, counts.late, counts.missing, counts.open) == (2, 0, 0, 1)


@pytest.mark.parametrize("name", ALONE)
def test_counters_of_shipped_formats_wrap(name):
    f = Format.load(name)
    rng = fresh.rng()
    sizes = {s: 2 for s in f.payload.size.values() if isinstance(s, str)}
    fields = f.timestamp.stream
    heads = [tuple(int(rng.integers(f.fields[n].low, min(f.fields[n].high, 2**31) + 1)) for n in fields) for _ in "ab"]
    heads = list(dict.fromkeys(heads))
    p = Plan(f, heads, packets=4, window=2 * f.timestamp.step, chunks=6, sizes=sizes, linger=0)
    wraps = f.period <= 1 << 63
    turn = (f.period if wraps else 1 << 62) // f.timestamp.step  # 64-bit counters never turn: go to the last time
    assert f.period % f.timestamp.step == 0 or not wraps
    first = turn - 6 if wraps else turn - 14
    data = rng.integers(0, 256, (len(heads), 14, p.payload_bytes), np.uint8)
    packets = [
        build(
            f,
            stamp(f, (first + i) * f.timestamp.step % f.period) | dict(zip(fields, head, strict=True)) | sizes,
            data[h, i].tobytes(),
        )
        for i in range(14)
        for h, head in enumerate(heads)
    ]
    order = np.argsort(np.arange(len(packets)) + rng.uniform(0, 3, len(packets)))
    assembler = Assembler(p)
    assembler.take([packets[i] for i in order])
    assembler.finish()
    got = np.full_like(data, 255)
    for chunk in assembler:
        for i in range(4):
            if 0 <= (at := chunk.number * 4 + i - first) < 14:
                got[:, at] = chunk.data[:, i]
                assert chunk.present[:, i].all()
            else:
                assert not chunk.present[:, i].any()
    assert np.array_equal(got, data)
    counts = check_sums(assembler)
    assert (counts.placed, counts.missing, counts.resyncs) == (len(packets), 0, 0)


def stamp(f, count):
    """Fields of a count: the largest factor first."""
    values = {}
    for name, factor in sorted(((n, k) for n, k in f.timestamp.count.items() if n != "add"), key=lambda x: -x[1]):
        values[name], count = divmod(count, factor)
    assert count == 0
    return values


@pytest.mark.parametrize("heads", [1, 2, 5])
@pytest.mark.parametrize("jump", [10**9, 2 * 10**5, 5000, 3000, -5000, -(10**6), -(2**40)])
def test_after_a_clock_jump_the_next_chunk_is_whole(heads, jump):
    """Also a sender's restart: the largest steps back. What was lost and where is found without the rules."""
    p = plan(heads, packets=32, window=8 * STEP, outage=100 * 32 * STEP)
    start = 2**41 + int(fresh.rng().integers(0, 1000))
    assembler = Assembler(p)
    again = start + 200 + jump
    sent = stream(heads, range(start, start + 200)) + stream(heads, range(again, again + 200))
    chunks = feed(assembler, fresh.rng(), sent)
    assembler.finish()
    chunks += drain(assembler)
    check_data(p, chunks)
    counts = check_sums(assembler)
    present = {(e, n * 32 + i) for e, n, _, marks, _ in chunks for i in range(32) if marks[:, i].all()}
    kept = {n for _, n in present}
    assert set(range(start, start + 200)) <= kept
    lost = sorted(set(range(again, again + 200)) - kept)
    assert len(lost) <= 32 and lost == list(range(again, again + len(lost)))
    if 0 < jump <= 100 * 32:
        assert counts.resyncs == 0
        assert counts.missing >= heads * jump  # an outage: all of it is missing
    else:
        assert counts.resyncs == 1 and {e for e, _ in present} == {0, 1}
        assert counts.missing == 0
    assert counts.faults["jump"] + counts.late + counts.placed == len(sent)


@pytest.mark.parametrize("heads", [1, 4])
def test_after_a_short_step_back_the_next_chunk_is_whole(heads):
    p = plan(heads, packets=256, window=8 * STEP)
    assembler = Assembler(p)
    chunks = feed(assembler, fresh.rng(), stream(heads, range(5000, 6500)) + stream(heads, range(5800, 7000)))
    assembler.finish()
    chunks += drain(assembler)
    kept = {n * 256 + i for e, n, _, marks, _ in chunks if e == 1 for i in range(256) if marks[:, i].all()}
    lost = sorted(set(range(5800, 7000)) - kept)
    assert len(lost) <= 256 and lost == list(range(5800, 5800 + len(lost)))
    assert check_sums(assembler).resyncs == 1


def test_one_head_with_a_wrong_clock_moves_no_other():
    p = plan(3, packets=16, skew=16 * STEP)
    assembler = Assembler(p)
    sent = [
        packet(head, number + (10**7 if head == 1 else 0)) for number in range(160, 800) for head in (0, 0, 1, 2, 2)
    ]
    chunks = feed(assembler, fresh.rng(), sent)
    assembler.finish()
    chunks += drain(assembler)
    assert [c[1] for c in chunks] == list(range(10, 50))
    for _, _, _, present, _ in chunks:
        assert present.all(1).tolist() == [True, False, True]
    counts, heads = check_sums(assembler), assembler.head_counts()
    assert counts.resyncs == 0 and heads.jump.tolist() == [0, 640, 0] and heads.missing.tolist() == [0, 640, 0]


def test_two_heads_of_three_that_move_take_the_third_along():
    p = plan(3, packets=64)
    assembler = Assembler(p)
    sent = stream(3, range(640, 960))
    sent += [packet(head, number + (10**7 if head < 2 else 0)) for number in range(960, 1600) for head in range(3)]
    chunks = feed(assembler, fresh.rng(), sent)
    assembler.finish()
    chunks += drain(assembler)
    late = [present for epoch, _, _, present, _ in chunks if epoch == 1]
    assert len(late) == 10 and all(p.all(1).tolist() == [True, True, False] for p in late[1:])
    assert check_sums(assembler).resyncs == 1


def test_a_wild_timestamp_costs_one_packet():
    p = plan(2, packets=16, window=4 * STEP)
    rng = fresh.rng()
    sent = stream(2, range(1600, 3200))
    wild = 1 + rng.choice(len(sent) - 1, 40, replace=False)  # what a wild first packet costs is the next test's
    for i in wild:
        sent[i] = packet(int(rng.integers(0, 2)), int(rng.integers(10**6, 2**47)))
    assembler = Assembler(p)
    chunks = feed(assembler, rng, sent)
    assembler.finish()
    chunks += drain(assembler)
    check_data(p, chunks)
    counts = check_sums(assembler)
    assert counts.faults["jump"] == 40 and counts.placed == len(sent) - 40 and counts.resyncs == 0


def test_a_wild_first_packet_does_not_hold_up_the_stream():
    assembler = Assembler(plan(2, packets=32))
    assembler.take([packet(0, 2**40), *stream(2, range(320, 640))])
    assembler.finish()
    chunks = [c for c in drain(assembler) if c[0] == 1]
    assert len(chunks) == 10 and all(c[3].all() for c in chunks[1:])


def test_malformed_and_foreign_packets_are_counted_by_reason():
    assembler = Assembler(plan(2))
    good = packet(0, 5)
    assembler.take([good, good[:5], b"", good + b"x", good[:-1], good[:7] + b"\x08" + good[8:], packet(9, 5)])
    c = check_sums(assembler)
    assert c.faults == {
        "short": 2,
        "field": 1,
        "length": 2,
        "stated_length": 0,
        "timestamp": 0,
        "off_step": 0,
        "jump": 0,
        "part": 0,
        "item": 0,
        "heap": 0,
    }
    assert c.foreign == 1 and c.placed == 1
    other = Assembler(Plan(FORMAT, [(0,)], packets=16, origin=2))
    other.take([good])
    assert other.counts().faults["off_step"] == 1


def test_slow_consumers_keep_their_chunks_and_the_newest_data_is_dropped():
    p = plan(2, packets=8, chunks=4)
    assembler = Assembler(p)
    assembler.take(stream(2, range(0, 16)))
    held = assembler.next(0)
    before = held.data.copy()
    assembler.take(stream(2, range(16, 400)))
    assert np.array_equal(held.data, before)
    counts = assembler.counts()
    assert counts.ring_full == 2 * (400 - 32) and counts.free == 0 and counts.placed == 64
    held.release()
    held.release()
    rest = []
    while (chunk := assembler.next(0)) is not None:
        with chunk:
            rest.append((chunk.epoch, chunk.number, chunk.timestamp, chunk.present.copy(), chunk.data.copy()))
    assert [c[1] for c in rest] == list(range(1, 49))  # those that found no memory are void, and in their turn
    assert [c[3].any() for c in rest] == [True] * 3 + [False] * 45
    assert counts.chunks == 4 and counts.voids == 45
    for first in range(400, 480, 16):
        rest += feed(assembler, fresh.rng(), stream(2, range(first, first + 16)))
    assembler.finish()
    rest += drain(assembler)
    check_data(p, rest)
    assert rest[-1][1] == 59 and rest[-1][3].all()
    counts = check_sums(assembler)
    assert counts.missing == counts.ring_full and counts.first_loss > 1.7e9


def test_chunks_that_are_reused_hold_nothing_stale():
    p = plan(2, packets=8, chunks=2)
    rng = fresh.rng()
    assembler = Assembler(p)
    full, holes = stream(2, range(0, 80)), [q for q in stream(2, range(80, 400)) if rng.random() < 0.5]
    chunks = feed(assembler, rng, full + holes)
    assembler.finish()
    chunks += drain(assembler)
    check_data(p, chunks)
    assert sum(int(c[3].sum()) for c in chunks) == check_sums(assembler).placed


@pytest.mark.parametrize(
    "order",
    [
        ("head", "packet", "time", "channel", "input"),
        ("channel", "packet", "time", "head", "input"),
        ("input", "channel", "head", "time", "packet"),
        ("packet", "head", "channel", "time", "input"),
    ],
)
def test_payloads_can_be_permuted(order):
    p = plan(3, packets=8, order=order)
    rng = fresh.rng()
    data = rng.integers(0, 256, (3, 8, *p.payload_shape), np.uint8)
    lost = rng.random((3, 8)) < 0.3
    assembler = Assembler(p)
    for _ in range(2):  # the second time over what the first left
        assembler.take(
            [struct.pack(">Q", n << 16 | h << 8 | 7) + data[h, n].tobytes() for h in range(3) for n in range(8)]
        )
        assembler.finish()
        (full,) = [c.data.copy() for c in assembler]
        assembler.reopen()
    axes = ("head", "packet", *FORMAT.payload.order)
    assert np.array_equal(full, data.transpose([axes.index(a) for a in order]))
    assembler.take(
        [
            struct.pack(">Q", n << 16 | h << 8 | 7) + data[h, n].tobytes()
            for h in range(3)
            for n in range(8)
            if not lost[h, n]
        ]
    )
    assembler.finish()
    (holes,) = [c.data.copy() for c in assembler]
    assert np.array_equal(
        holes, np.where(lost[..., None, None, None], 0, data).transpose([axes.index(a) for a in order])
    )


def test_addresses_are_kept_and_buffers_come_back_once():
    p = plan(2, packets=8, pointers=True, chunks=3)
    assembler = Assembler(p)
    back = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
    give_back = kind(lambda context, buffers, n: back.extend(buffers[i] for i in range(n)))
    assembler.on_give_back(ctypes.cast(give_back, ctypes.c_void_p).value)
    sent = [*stream(2, range(16)), packet(0, 15), packet(9, 3), packet(1, 40)[:20]]
    rows = [np.frombuffer(s, np.uint8).copy() for s in sent]
    assembler.native.take_at(
        [r.ctypes.data for r in rows], [len(r) for r in rows], [0] * len(rows), list(range(1, len(rows) + 1))
    )
    assert sorted(back) == [33, 34, 35]
    chunk = assembler.next(0)
    want = [[rows[2 * n + h].ctypes.data + 8 for n in range(8)] for h in range(2)]
    assert chunk.addresses.tolist() == want and chunk.data.size == 0 and chunk.present.all()
    chunk.release()
    assert sorted(back) == [*range(1, 17), 33, 34, 35]
    assembler.finish()
    for c in assembler:
        assert c.number == 1
    assert sorted(back) == list(range(1, 36))
    assembler.reopen()
    split = np.array([0], np.uint8)
    assembler.native.take_at([rows[0].ctypes.data], [len(rows[0])], [split.ctypes.data], [0])
    assembler.finish()
    assert [int(c.addresses[0, 0]) for c in assembler] == [split.ctypes.data]


def test_many_threads_lose_and_double_nothing():
    heads, per = 6, 4000
    p = plan(heads, packets=64, window=per * STEP, chunks=80)
    assembler = Assembler(p)
    rng = fresh.rng()
    shares = [[] for _ in range(3)]
    for number in range(per):
        for head in range(heads):
            shares[int(rng.integers(0, 3))].append(packet(head, number))
            if rng.random() < 0.02:
                shares[int(rng.integers(0, 3))].append(packet(head, number))
    total = sum(map(len, shares))

    def work(share):
        for i in range(0, len(share), 97):
            assembler.take(share[i : i + 97])

    threads = [threading.Thread(target=work, args=(s,)) for s in shares]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assembler.finish()
    chunks = drain(assembler)
    check_data(p, chunks)
    counts = check_sums(assembler)
    assert counts.placed == heads * per and counts.placed + counts.duplicate == total and counts.missing == 0
    assert assembler.head_counts().placed.tolist() == [per] * heads


def test_silence_closes_chunks_and_a_new_stream_is_believed_at_once():
    """Sources tell the time, by which silence is judged; packets without times are taken to be as old as the last call."""
    assembler = Assembler(plan(2, packets=16, linger=0.05))
    assembler.take(stream(2, range(1000, 1020)))
    with assembler.next(0) as chunk:
        assert chunk.number == 62
    for now in (10**18, 10**18 + 49_999_999):
        assembler.idle(now)
        assert assembler.next(0) is None
    assembler.idle(10**18 + 50_000_000)
    chunks = [assembler.next(0)]
    assert [c.number for c in chunks] == [63]
    for c in chunks:
        c.release()
    assert assembler.next(0.1) is None
    assembler.take(stream(2, range(0, 32)))
    assembler.finish()
    assert [c[3].all() for c in drain(assembler)] == [True, True]
    counts = check_sums(assembler)
    assert counts.resyncs == 1 and counts.missing == counts.late == 0


def test_a_dead_head_is_missing_and_does_not_hold_up_others():
    assembler = Assembler(plan(3, packets=16, skew=16 * STEP))
    assembler.take([packet(h, n) for n in range(320) for h in range(3) if h != 1 and not (h == 2 and n >= 160)])
    assembler.finish()
    assert len(drain(assembler)) == 20
    check_sums(assembler)
    assert assembler.head_counts().missing.tolist() == [0, 320, 160]


def test_memory_can_be_given():
    p = plan(2, packets=16)
    size = Assembler.memory_bytes(p)
    room = np.zeros(size + 4096, np.uint8)
    at = -room.ctypes.data % 4096
    assembler = Assembler(p, room[at : at + size])
    assembler.take(stream(2, range(16)))
    assembler.finish()
    chunk = assembler.next(0)
    assert room[at:].tobytes().find(payload(1, 3)) == chunk.data[1, 3].ctypes.data - room.ctypes.data - at
    with pytest.raises(ValueError, match="4096"):
        Assembler(p, room[at + 1 : at + 1 + size])
    with pytest.raises(ValueError):
        chunk.data[0, 0, 0] = 1  # views are for reading


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"packets": 0}, "packets"),
        ({"chunks": 1}, "ring"),
        ({"window": 16 * STEP * 8, "chunks": 8}, "9 chunks open"),
        ({"heads": 0}, "heads"),
        ({"order": ("head", "packet")}, "order"),
        ({"skew": -1}, "negative"),
    ],
)
def test_plans_that_cannot_be_carried_out_say_why(settings, message):
    with pytest.raises(ValueError, match=message):
        Assembler(plan(**{"heads": 2} | settings))


def test_formats_with_sizes_in_their_headers_need_them():
    f = Format.load("lwa_snap2")
    with pytest.raises(ValueError, match="sizes"):
        Assembler(Plan(f, [(0, 0)], packets=4))
    p = Plan(f, [(0, 0)], packets=4, sizes={"nchan": 4, "npol": 8}, linger=0)
    assembler = Assembler(p)
    assembler.take([build(f, {"seq": i, "nchan": 4, "npol": 8}, bytes(range(32))) for i in range(4)])
    assembler.take([build(f, {"seq": 4, "nchan": 8, "npol": 4}, bytes(range(32)))])
    counts = assembler.counts()
    assert counts.placed == 4 and counts.faults["field"] == 1


def test_heads_are_products_of_fields():
    f = Format.load("paper_psa128")
    assert grid(f, fid=range(2), xid=3) == ((0, 3), (1, 3))
    with pytest.raises(ValueError, match="fid, xid"):
        grid(f, fid=0)
    with pytest.raises(ValueError, match="same stream"):
        Assembler(Plan(f, [(0, 1), (0, 1)], packets=4))
