"""Queues that can be worked out by hand, packets that are all accounted for, and a real sender beside the simulated one."""

import math
import socket
import struct
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from observations import observe_rows
from ryle.config import changed, example, load
from ryle.plan.corner_turn import Turn, queue, scenarios, simulate
from ryle.send.rows import RowSender

PLAIN = Turn(senders=8, receivers=8, packets=4, packet=1250, block=1e-3, link=10e9)


def plainly(at, seconds, room):
    """Each packet by itself."""
    leaves, kept, last, queued = [], [], -math.inf, []
    for t in at:
        queued = [end for end in queued if end > t + 1e-15]
        waits = max(0.0, (last - t) / seconds)
        good = waits + 1 <= max(1, room) + 1e-9
        kept.append(good)
        if good:
            last = max(last, t) + seconds
            queued.append(last)
        leaves.append(last if good else np.nan)
    return np.array(leaves), np.array(kept)


@pytest.mark.parametrize("room", [1, 3, 20, math.inf])
@pytest.mark.parametrize("load", [0.5, 0.99, 1.4])
def test_a_queue_is_what_it_is_packet_by_packet(rng, room, load):
    at = np.sort(rng.uniform(0, 1e-3 / load, 1000))
    leaves, kept, depth = queue(at, 1e-6, room)
    expected, good = plainly(at, 1e-6, room)
    assert np.array_equal(kept, good)
    np.testing.assert_allclose(leaves[kept], expected[kept], rtol=1e-9)
    assert np.all(np.diff(leaves[kept]) >= 1e-6 * (1 - 1e-6))
    assert 1 <= depth <= max(1, room) + 1e-6
    assert kept.all() == (room == math.inf) or kept.all()


def test_incast_by_hand():
    """All send a block to the same receiver at once: all but what leaves meanwhile waits at its port."""
    turn = replace(PLAIN, staggered=False, pace=0.0)
    found = simulate(turn, blocks=1)
    # 8 senders bring 4 packets each in 4 packet times; 4 of 32 have left when the last of them comes; it waits for 29.
    assert found.deepest == pytest.approx((32 - 4 + 1) * 1250)
    assert found.lost == 0
    spread_out = simulate(replace(turn, staggered=True), blocks=1)
    assert spread_out.deepest == pytest.approx(1250)  # each receiver has one sender at a time
    assert spread_out.spread == pytest.approx(31 * 1e-6)


def test_a_full_buffer_drops_what_has_no_room():
    turn = replace(PLAIN, staggered=False, pace=0.0, buffer=10 * 1250)
    found = simulate(turn, blocks=1)
    assert found.deepest <= 10 * 1250 * (1 + 1e-9)
    assert 0.2 < found.lost < 0.7
    assert simulate(replace(turn, buffer=1e9), blocks=1).lost == 0


def test_jitter_is_what_a_block_is_apart():
    calm = simulate(PLAIN, blocks=6)
    assert calm.spread < PLAIN.block and calm.skew(PLAIN.block) == 0
    late = simulate(replace(PLAIN, jitter=3e-3), blocks=6)
    assert 1e-3 < late.skew(PLAIN.block) < 3.5e-3


def test_a_link_that_is_too_slow_lets_queues_grow():
    slow = replace(PLAIN, link=8 * 32 * 1250 / 1e-3 * 0.8)
    few, many = simulate(slow, blocks=4), simulate(slow, blocks=16)
    assert many.busiest > 1.2 and many.latency > 3 * few.latency


def test_leaves_and_spines():
    wide = Turn(16, 16, 8, 1250, 1e-3, link=10e9, leaves=4, uplinks=4)
    found = {name: simulate(turn, blocks=4) for name, turn in scenarios(wide).items()}
    assert set(found) == {
        "as planned",
        "senders late by up to a block",
        "all begin with the same X-engine",
        "not paced",
        "an uplink fails",
    }
    assert all(f.lost == 0 for f in found.values())
    assert found["an uplink fails"].busiest > found["as planned"].busiest
    assert found["all begin with the same X-engine"].deepest > found["as planned"].deepest
    alone = simulate(replace(wide, leaves=1, uplinks=0), blocks=4)
    assert alone.latency < found["as planned"].latency


def test_an_observation_has_its_corner_turn():
    o = load(example("meerkat_extension"))
    turn = Turn.of(o, 400e9)
    assert (turn.senders, turn.receivers) == (80, 64)
    assert turn.packets == 64 // 32  # 8 KiB are 32 channels of 2 polarizations and 64 spectra of 2 bytes
    found = simulate(turn, blocks=3)
    assert found.lost == 0 and found.busiest < 0.5


def test_a_real_sender_spreads_a_block_as_the_simulated_one_does(steady):
    """Two F-engines' senders over loopback, in real time; when packets arrive is what the kernel says."""
    o = changed(observe_rows(antennas=4, channels=1024, sub=512), fengine={"pace": 2.0, "antennas_per_engine": 2})
    turn = Turn.of(o, 20e9)
    count = 12

    def body():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        receiver.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        end = o.spectra_endpoint(0)
        receiver.bind((end.host, end.port))
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        other.bind((o.spectra_endpoint(1).host, o.spectra_endpoint(1).port))

        def send(antennas):
            begun = time.monotonic()
            with RowSender(o, antennas) as sender:
                rows = np.zeros((1, len(antennas), 1024, o.pols, 128), np.int8)
                for block in range(count):
                    time.sleep(max(0.0, begun + block * turn.block - time.monotonic()))
                    sender.send(rows, np.full((1, len(antennas), o.pols), 2**64 - 1, np.uint64), block)

        threads = [threading.Thread(target=send, args=(a,)) for a in ([0, 1], [2, 3])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times = {}
        receiver.settimeout(0.3)
        try:
            while True:
                packet, more, _, _ = receiver.recvmsg(9000, 64)
                seconds, nanoseconds = struct.unpack("qq", more[0][2])
                times.setdefault(int.from_bytes(packet[16:24], "big"), []).append(seconds + 1e-9 * nanoseconds)
        except TimeoutError:
            pass
        finally:
            receiver.close()
            other.close()
        assert sorted(times) == list(range(count))
        assert {len(t) for t in times.values()} == {turn.packets * turn.senders}
        spread = float(np.median([max(t) - min(t) for t in times.values()]))
        assert spread == pytest.approx(simulate(turn, count).spread, rel=0.35)

    steady(body)
