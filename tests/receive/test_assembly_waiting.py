"""A plan that waits: packets that find no memory hold their thread up until a consumer gives some back."""

import threading
import time
from collections import deque
from dataclasses import replace

import numpy as np
import pytest

import fresh
from assembled import STEP, check_data, check_sums, packet, plan, stream
from ryle.receive.assembly import Assembler


def feeding(assembler, *shares, most=200, ahead=10**9):
    """Start a thread for each list of packets, none by more than `ahead` of another, and one that says when all ended."""
    taken = [0] * len(shares)

    def work(which):
        share, rng, at = shares[which], np.random.default_rng(len(shares[which])), 0
        while at < len(share):
            while at > min(taken) + ahead:
                time.sleep(1e-4)
            n = int(rng.integers(1, most))
            assembler.take(share[at : at + n])
            at += n
            taken[which] = at

    threads = [threading.Thread(target=work, args=(which,)) for which in range(len(shares))]

    def end():
        for thread in threads:
            thread.join()
        assembler.finish()

    for thread in [*threads, ending := threading.Thread(target=end)]:
        thread.start()
    return ending


def consume(assembler, hold=0, slow=0.0):
    """Copy all chunks; keep the newest `hold` before giving them back."""
    held, chunks = deque(), []
    while not assembler.ended:
        if (chunk := assembler.next(0.2)) is None:
            continue
        chunks.append((chunk.epoch, chunk.number, chunk.timestamp, chunk.present.copy(), chunk.data.copy()))
        held.append(chunk)
        time.sleep(slow)
        while len(held) > hold:
            held.popleft().release()
    while held:
        held.popleft().release()
    return chunks


@pytest.mark.timeout(60)
@pytest.mark.parametrize("skew", [None, 0, 40 * STEP])
@pytest.mark.parametrize("hold", [0, 2])
def test_nothing_is_dropped_however_slow_the_consumer(skew, hold):
    """Also one that needs the next chunk before it gives back two that it holds."""
    p = plan(3, packets=8, skew=skew, window=8 * STEP, chunks=10, waits=True)
    assembler = Assembler(p)
    ending = feeding(assembler, stream(3, range(1200)))
    chunks = consume(assembler, hold, 0.0005)
    ending.join()
    check_data(p, chunks)
    assert [c[1] for c in chunks] == list(range(150)) and all(c[3].all() for c in chunks)
    counts = check_sums(assembler)
    assert counts.placed == 3600 and counts.ring_full == counts.late == counts.missing == 0


@pytest.mark.timeout(60)
def test_streams_may_lag_as_far_as_memory_reaches():
    """In a thread each, one 60 packets behind: with any skew smaller than that packets would be late."""
    p = plan(2, packets=8, skew=None, chunks=12, waits=True)
    ahead, behind = stream(1, range(60)), []
    for n in range(60, 1200):
        ahead += [packet(0, n), packet(1, n - 60)]
    behind = [packet(1, n) for n in range(1140, 1200)]
    assembler = Assembler(p)
    ending = feeding(assembler, ahead + behind, most=20)
    chunks = consume(assembler)
    ending.join()
    assert [c[1] for c in chunks] == list(range(150)) and all(c[3].all() for c in chunks)
    assert check_sums(assembler).placed == 2400


@pytest.mark.timeout(60)
def test_a_stream_that_never_comes_delays_by_no_more_than_memory():
    """A chunk closes without it when a packet waits for memory and the consumer has nothing else to do."""
    p = plan(2, packets=8, skew=None, chunks=6, waits=True, silence=0.0)
    assembler = Assembler(p)
    ending = feeding(assembler, [packet(0, n) for n in range(800)])
    chunks = consume(assembler)
    ending.join()
    assert [c[1] for c in chunks] == list(range(100))
    assert all(c[3].tolist() == [[1] * 8, [0] * 8] for c in chunks)
    assert check_sums(assembler).late == 0


@pytest.mark.timeout(60)
def test_copies_that_were_found_places_are_made_before_a_thread_waits():
    """Two threads fill the same chunks: one that waits must not keep the other's chunk from being read."""
    p = plan(4, packets=8, skew=None, chunks=4, waits=True)
    numbers = range(2400)
    shares = [[packet(h, n) for n in numbers for h in pair] for pair in ((0, 1), (2, 3))]
    assembler = Assembler(p)
    # A machine that lets one of them stand still for longer would make its packets seem to be of another time.
    ending = feeding(assembler, *shares, ahead=100)
    chunks = consume(assembler, hold=1)
    ending.join()
    check_data(p, chunks)
    assert [c[1] for c in chunks] == list(range(300))
    counts = check_sums(assembler)
    assert counts.placed + counts.late == 9600 and counts.ring_full == 0  # late: one thread got ahead by all memory


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["stop_waiting", "finish"])
def test_a_thread_that_waits_can_be_let_go(how):
    p = plan(1, packets=8, chunks=3, waits=True)
    assembler = Assembler(p)
    thread = threading.Thread(target=lambda: assembler.take([packet(0, n) for n in range(80)]))
    thread.start()
    end = time.monotonic() + 30
    while assembler.counts().placed < 24 and time.monotonic() < end:
        time.sleep(0.005)
    thread.join(0.2)
    assert thread.is_alive() and assembler.counts().ring_full == 0 and assembler.counts().placed == 24
    getattr(assembler, how)()
    thread.join(20)
    assert not thread.is_alive()
    counts = check_sums(assembler)
    assert counts.placed == 24 and counts.ring_full == 56


def test_only_plans_that_wait_may_leave_the_skew_out():
    with pytest.raises(ValueError, match="waits"):
        Assembler(plan(2, skew=None))


def test_results_do_not_depend_on_the_consumer():
    """Bit for bit what an assembler with memory for all makes of it: early heads, loss, repeats, steps."""
    rng = fresh.rng()
    numbers = [(h, n + 20 * h) for n in range(1000) for h in range(3) if rng.random() > 0.1]
    sent = [packet(*numbers[i]) for i in np.argsort(np.arange(len(numbers)) + rng.uniform(0, 20, len(numbers)))]
    sent += stream(3, range(10**6, 10**6 + 400))
    results = []
    for chunks, waits in ((300, False), (16, True)):
        p = plan(3, packets=8, window=16 * STEP, skew=48 * STEP, chunks=chunks, waits=waits, outage=400)
        assembler = Assembler(p)
        ending = feeding(assembler, sent)
        results.append([(*c[:3], c[3].tobytes(), c[4].tobytes()) for c in consume(assembler, slow=0.0003)])
        ending.join()
        check_sums(assembler)
    assert results[0] == results[1]


@pytest.mark.parametrize("away", [(10**6, 10**6 + 1, 10**6 + 2, 10**7), (10**6,)])
def test_memory_of_packets_of_another_time_is_memory(away):
    """Packets of another time, given up or not, took what a packet behind a gap waits for; a consumer asks meanwhile."""
    p = plan(1, packets=1, window=0, skew=2 * STEP, chunks=7, waits=True, outage=50 * STEP)
    p = replace(p, chunks=p.open_most + 2)
    assembler = Assembler(p)
    took = []
    for number in [*range(10), *away]:
        assembler.take([packet(0, number)], times=10**18)
        while (chunk := assembler.next(0)) is not None:
            took.append(chunk.number)
            chunk.release()
    late = threading.Thread(target=assembler.take, args=([packet(0, 10 + p.open_most + 1)],), kwargs={"times": 10**18})
    late.start()
    end = time.monotonic() + 20
    while late.is_alive() and time.monotonic() < end:
        if (chunk := assembler.next(0.001)) is not None:
            chunk.release()
    went_on = not late.is_alive()
    assembler.stop_waiting()  # else nothing ends
    late.join()
    assert went_on and took == list(range(10))
