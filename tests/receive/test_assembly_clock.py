"""Whose time it is: which packets open and close chunks, and that one stream's clock costs no other stream anything."""

import numpy as np
import pytest

import fresh
from assembled import STEP, check_rules, check_sums, drain, feed, packet, plan, stream
from assembly_rules import Rules
from ryle.receive.assembly import Assembler

SECOND = 10**9
START = 10**18  # ns


def take(assembler, events):
    """Hand over (head, number, time) one by one."""
    for head, number, time in events:
        assembler.take([packet(head, number)], times=time)


def closed(assembler):
    """Numbers of the chunks that are ready."""
    return [c[1] for c in ready(assembler)]


def ready(assembler):
    chunks = []
    while (chunk := assembler.next(0)) is not None:
        with chunk:
            chunks.append((chunk.epoch, chunk.number, chunk.timestamp, chunk.present.copy(), chunk.data.copy()))
    return chunks


def wild(rng, p, n):
    """Traffic with everything that goes wrong: (head, number, arrival), in order of arrival."""
    heads, rate = len(p.heads), 10 ** rng.uniform(4, 8)  # ns from packet to packet
    clock = rng.integers(1000, 10**6, heads) if rng.random() < 0.2 else np.full(heads, rng.integers(1000, 10**6))
    clock = clock + rng.integers(0, max(1, p.open_most * p.packets), heads)
    dead, now, events = np.zeros(heads, bool), START, []
    for _ in range(n):
        now += int(rng.exponential(rate)) if rng.random() > 0.003 else int(rng.uniform(0, 3 * SECOND))
        if rng.random() < 0.002:
            now -= int(rng.choice([SECOND, 20 * SECOND]))
        if rng.random() < 0.003:  # all jump, or restart
            size = int(rng.choice([20, 200, 5000, 10**8]))
            clock += int(rng.integers(-size, size))
        if rng.random() < 0.003:
            clock[rng.integers(0, heads)] += int(rng.integers(-300, 300))
        if rng.random() < 0.005:
            dead[rng.integers(0, heads)] ^= True
        head = int(rng.integers(0, heads))
        if dead[head]:
            continue
        number = int(clock[head])
        clock[head] += 1
        kind = rng.random()
        if kind < 0.03:
            continue
        if kind < 0.08:
            number -= int(rng.integers(0, 4 * p.packets))
        elif kind < 0.1:
            number += int(rng.integers(0, 40 * p.packets))
        elif kind < 0.11:
            number = int(rng.integers(0, 2**40))
        events.append((head, max(0, number), now))
    return events


@pytest.mark.parametrize("turn", range(6))
def test_whatever_arrives_is_placed_as_the_rules_say(turn):
    """Also: whatever the batches in which it is handed over, and whenever a consumer looks."""
    for _ in range(12):
        rng = fresh.rng()
        packets = int(rng.integers(1, 12))
        slack = int(rng.integers(0, 3 * packets * STEP))
        window = int(rng.integers(0, slack + 1))
        p = plan(
            int(rng.integers(1, 7)),
            packets=packets,
            window=window,
            skew=slack - window,
            outage=int(rng.integers(1, 9)) * packets * STEP,
            chunks=90,
            linger=float(rng.choice([0.0, 0.3, 1.5])),
            silence=float(rng.choice([0.0, 0.4, 1.0])),
            rate=STEP * float(rng.choice([0.0, 1.0, 1e2, 1e4, 1e6])),
        )
        events = wild(rng, p, 1500)
        known = rng.random() < 0.8
        rules, assembler = Rules(p), Assembler(p)
        for head, number, time in events:
            rules.take(head, number, time if known else 0)
        rules.close_all()
        times = [time for _, _, time in events] if known else None
        chunks = feed(assembler, rng, [packet(head, number) for head, number, _ in events], times, most=60)
        assembler.finish()
        chunks += drain(assembler)
        check_rules(assembler, rules, chunks)
        check_sums(assembler)


def test_time_passes_alike_however_often_somebody_looks():
    """Idle calls only make what has happened known earlier: chunks and counts do not depend on them."""
    rng = fresh.rng()
    p = plan(4, packets=8, window=8 * STEP, skew=16 * STEP, chunks=90, linger=0.3, silence=0.2, outage=200)
    events = wild(rng, p, 1200)
    results = []
    for often in (False, True):
        assembler, chunks = Assembler(p), []
        before = events[0][2]
        for head, number, time in events:
            if often and time > before:
                for now in np.sort(rng.integers(before, time, 3)):
                    assembler.idle(int(now))
            before = time
            assembler.take([packet(head, number)], times=time)
            chunks += ready(assembler)
        assembler.finish()
        chunks += drain(assembler)
        counts = assembler.counts()
        results.append(([(*c[:3], c[3].tobytes(), c[4].tobytes()) for c in chunks], counts.placed, counts.missing))
    assert results[0] == results[1]


@pytest.mark.parametrize("spans", [1.5, 1.9, 8.0, 50.0])
@pytest.mark.parametrize("heads", [2, 3, 8])
def test_early_packets_of_one_head_cost_no_other_a_packet(spans, heads):
    p = plan(heads, packets=100, window=100 * STEP, skew=400 * STEP, chunks=16)
    width = p.open_most * p.packets
    sent = stream(heads, range(5000, 8000))
    early = [packet(0, 6000 + int(spans * width) + i) for i in range(100)]
    for forged in (early[:1], early):
        assembler = Assembler(p)
        at = heads * 1000
        chunks = feed(assembler, fresh.rng(), sent[:at] + forged + sent[at:], most=80)
        assembler.finish()
        chunks += drain(assembler)
        counts, each = check_sums(assembler), assembler.head_counts()
        assert each.late[1:].tolist() == each.ring_full[1:].tolist() == each.missing[1:].tolist() == [0] * (heads - 1)
        assert (each.placed[1:] == 3000).all() and counts.resyncs == 0
        assert each.placed[0] + each.duplicate[0] >= 3000 and each.late[0] == 0


def test_a_lone_stream_needs_eight_packets_in_a_row():
    """Packets far ahead that do not agree, or are fewer, close nothing; the eighth in a row that agrees does."""
    p = plan(1, packets=10, chunks=50)
    assembler = Assembler(p)
    assembler.take([packet(0, n) for n in range(25)])
    assert closed(assembler) == [0, 1]
    assembler.take([packet(0, n) for n in (195, 196, 197, 198, 199, 200, 201)])
    assembler.take([packet(0, n) for n in range(25, 29)])
    assert closed(assembler) == [] and assembler.counts().placed == 36
    assembler.take([packet(0, n) for n in range(202, 209)])
    assert closed(assembler) == []
    assembler.take([packet(0, 209)])
    assert closed(assembler) == list(range(2, 21))  # the chunks between are void; the last is full


def test_chunks_close_when_the_median_stream_is_past_them_by_the_skew():
    p = plan(5, packets=10, skew=20 * STEP, chunks=20)
    assembler = Assembler(p)
    for n in range(40):  # heads 3 and 4 stop at 5
        assembler.take([packet(h, n) for h in range(5) if h < 2 or n < 5])
    assert closed(assembler) == []  # two of five are past chunk 0 by the skew (30): not more than half
    assembler.take([packet(2, n) for n in range(5, 30)])
    assert closed(assembler) == []
    assembler.take([packet(2, 30)])
    assert closed(assembler) == [0]


def test_a_tie_keeps_the_clock():
    p = plan(4, packets=10, skew=20 * STEP, chunks=8, outage=2 * 10 * STEP)
    assembler = Assembler(p)
    feed(assembler, fresh.rng(), stream(4, range(100)), most=40)
    sent = [packet(h, n + (10**6 if h < 2 else 0)) for n in range(100, 200) for h in range(4)]
    feed(assembler, fresh.rng(), sent, most=40)
    assembler.finish()
    counts = check_sums(assembler)
    assert counts.resyncs == 0 and assembler.head_counts().jump.tolist() == [100, 100, 0, 0]
    assert assembler.head_counts().placed.tolist() == [100, 100, 200, 200]


def test_a_stream_silent_for_a_second_delays_nobody():
    p = plan(3, packets=10, skew=1000 * STEP, chunks=128)
    assembler = Assembler(p)
    tick = SECOND // 100
    take(assembler, [(h, n, START + n * tick) for n in range(30) for h in range(3)])
    assert closed(assembler) == [0, 1, 2]  # they are full
    # Head 2 was last heard at 0.29 s: from 1.29 s on nobody waits for it, though it is not past by the skew.
    take(assembler, [(h, n, START + n * tick) for n in range(30, 129) for h in range(2)])
    assert closed(assembler) == []
    take(assembler, [(0, 129, START + 129 * tick)])
    assert closed(assembler) == list(range(3, 12))
    take(assembler, [(2, 125, START + 130 * tick)])  # it is heard again, and waited for
    take(assembler, [(h, n, START + n * tick) for n in range(130, 150) for h in range(2)])
    assert closed(assembler) == []
    assert check_sums(assembler).late == 0
    take(assembler, [(2, n, START + 150 * tick) for n in range(126, 150)])
    assert closed(assembler) == [12, 13, 14]


@pytest.mark.parametrize("rate", [0.0, 100.0 * STEP])
def test_that_nobody_was_heard_is_no_streams_silence(rate):
    """The network is gone for 3 s. Then head 0 comes back first, and is ahead of head 1 by less than the skew; 2 is dead."""
    p = plan(3, packets=10, skew=300 * STEP, chunks=100, outage=1000 * STEP, rate=rate)
    assembler = Assembler(p)
    tick = SECOND // 100
    take(assembler, [(h, n, START + n * tick) for n in range(400) for h in range(3) if h < 2 or n < 100])
    assembler.idle(START + 690 * tick)
    took = closed(assembler)
    take(assembler, [(0, n, START + (700 + (n - 700) // 10) * tick) for n in range(700, 900)])
    take(assembler, [(1, n, START + 720 * tick) for n in range(700, 900)])
    took += closed(assembler)
    assert took == list(range(took[-1] + 1)) and took[-1] >= 88  # nor is the dead one waited for again
    counts = check_sums(assembler)
    assert counts.late == counts.ring_full == 0 and counts.placed == 2 * 600 + 100


def test_streams_that_begin_within_a_second_of_the_first_lose_nothing():
    p = plan(2, packets=10, skew=1000 * STEP, chunks=128)
    assembler = Assembler(p)
    tick = SECOND // 100
    take(assembler, [(0, n, START + n * tick) for n in range(100)])
    assert closed(assembler) == []
    take(assembler, [(1, 5, START + 99 * tick)])
    assembler.take([packet(1, n) for n in range(6, 100)], times=START + 99 * tick)
    assembler.finish()
    counts = check_sums(assembler)
    assert counts.late == 0 and assembler.head_counts().missing.tolist() == [0, 0]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("chunks", [12, 400])
def test_a_jump_of_all_heads_costs_no_packet(heads, chunks):
    """Farther than memory reaches (what is not believed at once is kept until it is), and within it."""
    p = plan(heads, packets=16, window=16 * STEP, skew=32 * STEP, chunks=chunks, outage=100 * 16 * STEP)
    rng = fresh.rng()
    sent = stream(heads, range(1600, 3200)) + stream(heads, range(8200, 9800))
    rules = Rules(p)
    for i in range(len(sent)):
        head, number = i % heads, 1600 + i // heads if i < 1600 * heads else 8200 + i // heads - 1600
        rules.take(head, number)
    rules.close_all()
    assembler = Assembler(p)
    chunks = feed(assembler, rng, sent, most=60)
    assembler.finish()
    chunks += drain(assembler)
    check_rules(assembler, rules, chunks)
    counts = check_sums(assembler)
    assert counts.resyncs == 1 and counts.placed == counts.received == len(sent) and counts.missing == 0
    old = [c for c in chunks if c[0] == 0]
    assert [c[1] for c in old] == list(range(100, 200)) and all(c[3].all() for c in old)
    assert [c[1] for c in chunks if c[0] == 1] == list(range(512, 613))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("back", [100, 5000, 10**7])
def test_a_step_back_is_believed_after_eight_packets_in_a_row(heads, back):
    p = plan(heads, packets=16, window=16 * STEP, skew=16 * STEP, chunks=12)
    assembler = Assembler(p)
    start = 2 * 10**7
    chunks = feed(assembler, fresh.rng(), stream(heads, range(start, start + 800)), most=60)
    first = start + 800 - back
    chunks += feed(assembler, fresh.rng(), stream(heads, range(first, first + 400)), most=60)
    assembler.finish()
    chunks += drain(assembler)
    counts = check_sums(assembler)
    kept = {c[1] * 16 + i for c in chunks if c[0] == 1 for i in range(16) if c[3][:, i].all()}
    assert counts.resyncs == 1 and kept == set(range(first, first + 400)) and counts.placed == 1200 * heads


def test_a_head_that_steps_back_alone_is_late_and_moves_nobody():
    p = plan(3, packets=16, window=16 * STEP, skew=16 * STEP, chunks=12)
    assembler = Assembler(p)
    sent = [packet(h, n - (500 if h == 1 and n >= 2000 else 0)) for n in range(1600, 3200) for h in range(3)]
    feed(assembler, fresh.rng(), sent, most=60)
    assembler.finish()
    counts, each = check_sums(assembler), assembler.head_counts()
    assert counts.resyncs == 0 and each.placed[[0, 2]].tolist() == [1600, 1600] and each.missing[[0, 2]].sum() == 0
    assert each.late[1] + each.jump[1] + each.duplicate[1] == 1200


def test_no_chunk_is_left_out_within_an_epoch_and_a_longer_gap_begins_another():
    p = plan(2, packets=10, chunks=8, outage=20 * 10 * STEP, notes=("seq",))
    assembler = Assembler(p)
    assembler.take(stream(2, range(20)))
    chunks = ready(assembler)
    assembler.take(stream(2, range(200, 230)))
    chunks += ready(assembler)
    assert [c[:2] for c in chunks] == [(0, n) for n in range(23)]
    assert [bool(c[3].any()) for c in chunks] == [n < 2 or n >= 20 for n in range(23)]
    assembler.take(stream(2, range(500, 530)))
    chunks = ready(assembler)
    assert [c[:2] for c in chunks] == [(1, 50), (1, 51), (1, 52)]
    counts = check_sums(assembler)
    assert counts.voids == 18 and counts.resyncs == 1 and counts.missing == 2 * 180


def test_void_chunks_share_memory_that_nobody_writes():
    p = plan(1, packets=10, chunks=4, outage=20 * 10 * STEP, notes=("seq",))
    assembler = Assembler(p)
    assembler.take([packet(0, n) for n in (*range(12), *range(150, 180))])
    chunks = [assembler.next(0) for _ in range(8)]
    voids = [c for c in chunks if c is not None and c.void]
    assert len(voids) >= 6
    assert len({c.data.ctypes.data for c in voids}) == 1 and {c.slot for c in voids} == {4}
    for c in voids:
        assert not c.data.any() and not c.present.any() and not c.notes.any()
        c.release()
        c.release()
    check_sums(assembler)


def test_a_gap_that_time_does_not_fill_is_a_jump_and_one_that_it_fills_is_loss():
    """Within memory and beyond it, of few heads and of many."""
    rate = 2000  # packets/s
    for heads in (1, 4):
        for gap, chunks in ((60, 40), (60, 8), (600, 40)):
            for outage in (False, True):
                p = plan(heads, packets=10, skew=20 * STEP, chunks=chunks, rate=rate * STEP, outage=10**6)
                numbers = [*range(203), *range(203 + gap, 400 + gap)]
                clock = np.array(numbers) - (0 if outage else np.where(np.array(numbers) < 203, 0, gap))
                times = (START + clock * (SECOND // rate)).tolist()
                sent = [(h, n, t) for n, t in zip(numbers, times, strict=True) for h in range(heads)]
                assembler, rules, found = Assembler(p), Rules(p), []
                for h, n, t in sent:
                    assembler.take([packet(h, n)], times=t)
                    rules.take(h, n, t)
                    found += ready(assembler)
                assembler.finish()
                rules.close_all()
                found += drain(assembler)
                counts = check_sums(assembler)
                assert counts.placed == len(sent), (heads, gap, chunks, outage)
                assert (counts.resyncs, counts.missing) == ((0, gap * heads) if outage else (1, 0)), (
                    heads,
                    gap,
                    chunks,
                )
                assert {c[0] for c in found if c[1] * 10 < 203} == {0}
                assert {c[0] for c in found if c[1] * 10 >= 203 + gap} == {0 if outage else 1}
                if chunks == 40:
                    check_rules(assembler, rules, found)


def test_a_silent_stream_has_no_say_on_how_long_the_other_is_held():
    """One of two polarizations is unplugged: of the other nothing is lost, though memory is for the skew only."""
    p = plan(2, packets=10, skew=100 * STEP, chunks=16, rate=1000 * STEP, silence=1.0)
    assembler, tick, got = Assembler(p), SECOND // 1000, []
    for n in range(3000):
        take(assembler, [(h, n, START + n * tick) for h in range(2) if h == 0 or n < 500])
        got += closed(assembler)
    counts, each = check_sums(assembler), assembler.head_counts()
    assert counts.ring_full == counts.late == 0 and each.placed.tolist() == [3000, 500] and each.missing[0] == 0
    assert got == list(range(got[-1] + 1)) and got[-1] >= 285


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_packets_forged_between_a_streams_own_move_no_clock(heads):
    """As many as there are true ones, and ten times as many; of one head, and of all."""
    tick = SECOND // 10_000
    for forged, each in ((1, 1), (1, 10), (heads, 10)):
        p = plan(heads, packets=10, window=10 * STEP, skew=100 * STEP, chunks=24, rate=10_000 * STEP, silence=1.0)
        assembler, count = Assembler(p), iter(range(10**6, 10**9))
        for n in range(2000):
            for h in range(heads):
                take(assembler, [(h, n, START + n * tick)])
                if h < forged:
                    take(assembler, [(h, next(count), START + n * tick) for _ in range(each)])
            closed(assembler)
        counts = check_sums(assembler)
        assert counts.placed == 2000 * heads and counts.resyncs == counts.late == counts.ring_full == 0
        assert counts.faults["jump"] == 2000 * forged * each


def test_what_is_kept_of_another_time_takes_memory_from_nobody():
    """A head that is elsewhere, in steps that nobody follows: the others need all chunks, and get them."""
    p = plan(3, packets=10, window=10 * STEP, skew=50 * STEP, chunks=9, outage=10**7)
    assembler, rng = Assembler(p), fresh.rng()
    for n in range(0, 2000, 10):
        sent = [packet(h, i) for i in range(n, n + 10) for h in range(2)]
        elsewhere = [packet(2, 10**6 + int(rng.integers(10**6)) + i) for i in range(10)]
        assembler.take([one for pair in zip(sent[::2], sent[1::2], elsewhere, strict=True) for one in pair])
        closed(assembler)
    counts, each = check_sums(assembler), assembler.head_counts()
    assert each.placed.tolist() == [2000, 2000, 0] and counts.ring_full == counts.late == counts.resyncs == 0


def test_a_jump_costs_no_packet_of_heaps_either():
    """Heads of several parts, some optional, and notes of each cell: they are where they would be without a jump."""
    p = plan(2, packets=4, chunks=12, notes=("seq",), skew=8 * STEP)
    assembler = Assembler(p)
    assembler.take(stream(2, range(40)))
    found = ready(assembler)
    assembler.take(stream(2, range(10_000, 10_040)))
    while (chunk := assembler.next(0)) is not None:
        with chunk:
            found.append((chunk.epoch, chunk.number))
            numbers = chunk.number * 4 + np.arange(4)
            assert (chunk.notes[..., 0] == numbers).all() and chunk.present.all()
    assert [c[:2] for c in found] == [(0, n) for n in range(10)] + [(1, n) for n in range(2500, 2510)]
