"""Sources: every packet that was sent arrives at its place or is counted as dropped, and threads end when told to."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fresh
from heap_formats import ALONE
from ports import free_ports
from ryle.config.endpoints import Endpoint
from ryle.receive.assembly import Assembler, Plan, grid
from ryle.receive.entrance import Entrance
from ryle.receive.packet_ring import RingSource
from ryle.receive.replay import PcapSource
from ryle.receive.sources import Discard, SyntheticSource
from ryle.receive.udp import UdpSource
from ryle.store.pcap_write import PcapWriter
from ryle.wire.description import Format

UDP_SEGMENT, SO_DETACH_FILTER = 103, 27
PAPER = Format.load("paper_psa128")
HEADS = grid(PAPER, fid=range(4), xid=1)


def paper(number, fid, data):
    return struct.pack(">Q", number << 16 | fid << 8 | 1) + data


def plan(**settings):
    return Plan(PAPER, HEADS, **({"packets": 8, "chunks": 24, "window": 16 * 64, "linger": 0.0} | settings))


@pytest.fixture
def data():
    return fresh.rng().integers(0, 256, (40, 4, 8192), np.uint8)


def some_ports(count):
    first = free_ports(count)
    return list(range(first, first + count))


def endpoint(port):
    return Endpoint(host="127.0.0.1", port=port)


def wait(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


def send(data, ports, segments):
    """Send in order, as single packets or as trains that the kernel cuts (UDP_SEGMENT)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for number, row in enumerate(data):
            packets = [paper(number, fid, d.tobytes()) for fid, d in enumerate(row)]
            to = ("127.0.0.1", ports[number % len(ports)])
            if segments:
                s.sendmsg([b"".join(packets)], [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", 8200))], 0, to)
            else:
                for packet in packets:
                    s.sendto(packet, to)
            time.sleep(0.0005)  # not to be faster than a busy machine


def check(assembler, data, lost=0):
    """All data where they belong, but for packets that are counted as lost."""
    assembler.finish()
    found = 0
    for chunk in assembler:
        for i in range(8):
            number = chunk.number * 8 + i
            there = chunk.present[:, i].astype(bool)
            assert number < len(data) or not there.any()
            if number < len(data):
                assert np.array_equal(chunk.data[:, i], np.where(there[:, None], data[number], 0))
            found += int(there.sum())
    counts = assembler.counts()
    assert counts.placed == found == data.shape[0] * 4 - lost, counts
    assert counts.late == counts.duplicate == counts.malformed == counts.foreign == counts.ring_full == 0


@pytest.mark.parametrize("gro", [False, True])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("ports, threads", [(1, 1), (3, 1), (3, 2), (1, 3)])
def test_udp_sockets(data, steady, gro, segments, ports, threads):
    def body():
        numbers = some_ports(ports)
        assembler = Assembler(plan())
        source = UdpSource(assembler, [endpoint(p) for p in numbers], threads=threads, gro=gro, buffer=1 << 22)
        with source:
            send(data, numbers, segments)
            wait(lambda: sum(r.packets for r in source.reports()) + (source.kernel_drops or 0) >= 160)
            before = time.monotonic()
        assert time.monotonic() - before < 3.0 and not source.running
        assert source.kernel_drops == 0
        check(assembler, data)
        reports = source.reports()
        assert len(reports) == threads and sum(r.bytes for r in reports) == 160 * 8200
        assert all(0 <= r.busy < 1.5 and not r.running for r in reports)

    steady(body)


def test_ports_are_free_when_the_threads_have_ended(data, steady):
    """Also while the source is still held, so that the next one need not wait for the last reference to go."""

    def body():
        port = some_ports(1)
        held = []
        for _ in range(3):
            assembler = Assembler(plan())
            held.append(UdpSource(assembler, [endpoint(port[0])], buffer=1 << 22))
            with held[-1]:
                send(data, port, False)
                wait(lambda: sum(r.packets for r in held[-1].reports()) + (held[-1].kernel_drops or 0) >= 160)
            check(assembler, data)
        assert [source.kernel_drops for source in held] == [0, 0, 0]

    steady(body)


def test_ports_tell_heads_apart():
    f = Format.load("counter_8192")
    ports = some_ports(2)
    p = Plan(f, grid(f, port=range(2)), packets=4, by_port=True, linger=0.0)
    assembler = Assembler(p)
    with UdpSource(assembler, [endpoint(q) for q in ports]) as source, socket.socket(type=socket.SOCK_DGRAM) as s:
        for i in range(8):
            s.sendto(struct.pack(">Q", i // 2) + bytes([i]) * 8184, ("127.0.0.1", ports[i % 2]))
        wait(lambda: source.reports()[0].packets == 8)
    assembler.finish()
    (first,) = [c.data[:, :, 0].copy() for c in assembler]
    assert first.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_packets_that_the_kernel_drops_are_counted():
    port = free_ports(1)
    sink = Discard()
    source = UdpSource(sink, [endpoint(port)], gro=False, buffer=4096)
    with socket.socket(type=socket.SOCK_DGRAM) as s, source:
        for _ in range(60):  # trains, which the kernel cuts: it has them all before a thread can look
            train = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", 8200))]
            s.sendmsg([bytes(7 * 8200)], train, 0, ("127.0.0.1", port))
        wait(lambda: sink.packets + source.kernel_drops == 420)
    assert 0 < source.kernel_drops < 420 and source.kernel_drops == source.reports()[0].kernel_drops


def test_a_train_that_the_kernel_drops_counts_once():
    port, sink, sent = free_ports(1), Discard(), 0
    source = UdpSource(sink, [endpoint(port)], buffer=4096)
    with socket.socket(type=socket.SOCK_DGRAM) as s, source:
        while not source.kernel_drops:  # where the sender has to wait for a core, the receiver keeps up with it
            assert sent < 200 * 1400
            for _ in range(200):
                train = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", 8200))]
                s.sendmsg([bytes(7 * 8200)], train, 0, ("127.0.0.1", port))
            sent += 1400
            wait(lambda sent=sent: sink.packets + 7 * source.kernel_drops == sent)


@pytest.mark.parametrize("segments", [False, True])
def test_what_comes_to_an_engine_that_is_too_slow_is_in_its_account(data, segments):
    """Its reader holds every chunk: sockets lose nothing, and each packet is placed or found the ring full."""
    port = free_ports(1)
    assembler = Assembler(plan(chunks=4, window=64, skew=64))
    entrance = Entrance("slow", assembler, UdpSource(assembler, [endpoint(port)]))
    entrance.start()
    send(data, [port], segments)
    wait(lambda: assembler.counts().received == data[:, :, 0].size)
    account = entrance.account()
    assert account.datagrams + account.ring_full == 160 and account.datagrams == account.placed == 4 * 4 * 8
    assert account.kernel_drops == 0 and account.balanced()
    entrance.close()
    assert entrance.account().missing == entrance.account().ring_full == 32


def test_what_comes_before_the_start_is_dropped():
    """It is counted, as discarded, and neither received nor dropped by the kernel for want of room."""
    port, sink = free_ports(1), Discard()
    source = UdpSource(sink, [endpoint(port)])
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        for _ in range(300):
            s.sendto(bytes(1000), ("127.0.0.1", port))
        with source:
            for _ in range(20):
                s.sendto(bytes(1000), ("127.0.0.1", port))
            wait(lambda: sink.packets == 20)
    assert source.kernel_drops == 0 and source.reports()[0].discarded == 300


def test_datagrams_longer_or_emptier_than_any_packet_are_malformed():
    port = free_ports(1)
    assembler = Assembler(plan())
    with UdpSource(assembler, [endpoint(port)], gro=False, largest=8200) as source:
        with socket.socket(type=socket.SOCK_DGRAM) as s:
            for size in (0, 7, 8200, 8201, 20000, 65507):
                s.sendto(struct.pack(">Q", 1).ljust(size, b"\1")[:size], ("127.0.0.1", port))
        wait(lambda: source.reports()[0].packets == 6)
    faults = assembler.counts().faults
    assert (faults["short"], faults["length"]) == (2, 3) and assembler.counts().placed == 1


def _may_capture():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _may_capture(), reason="packet sockets need CAP_NET_RAW")
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_packet_rings(data, segments, threads):
    ports = some_ports(3)
    assembler = Assembler(plan())
    endpoints = [endpoint(p) for p in ports[:2]]
    # A block for each moment of sending: nothing is lost even if the threads do not run until the end.
    source = RingSource(assembler, endpoints, interface="lo", threads=threads, buffer=64 << 20)
    with source:
        send(data[:1], ports[2:], segments)  # to another port: not seen
        send(data, ports[:2], segments)
        wait(lambda: sum(r.packets for r in source.reports()) >= 160)
    assert source.kernel_drops == 0 and not source.running
    check(assembler, data)


@pytest.mark.parametrize("kind", ["udp", "packet_ring"])
def test_what_has_come_when_the_end_is_told_is_taken(data, steady, kind):
    """A sender that has just ended: the kernel still holds its last, of a ring in a block that is not yet full."""
    if kind == "packet_ring" and not _may_capture():
        pytest.skip("packet sockets need CAP_NET_RAW")

    def body():
        (port,) = some_ports(1)
        assembler, ends = Assembler(plan()), [endpoint(port)]
        if kind == "udp":
            source = UdpSource(assembler, ends, buffer=1 << 22)
        else:
            source = RingSource(assembler, ends, interface="lo", buffer=64 << 20)
        with source:
            send(data, [port], segments=False)
        assert not source.kernel_drops
        check(assembler, data)

    steady(body)


@pytest.mark.skipif(not _may_capture(), reason="packet sockets need CAP_NET_RAW")
def test_packet_rings_take_ipv6_and_say_what_is_wrong():
    port = free_ports(1)
    sink = Discard()
    with RingSource(sink, [Endpoint(host="::1", port=port)], interface="lo", buffer=64 << 20):
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            for _ in range(5):
                s.sendto(bytes(100), ("::1", port))
        wait(lambda: sink.packets == 5)
    with pytest.raises(OSError, match="no interface nowhere0"):
        RingSource(sink, [endpoint(port)], interface="nowhere0")
    two, f = [endpoint(port), Endpoint(host="127.0.0.2", port=port)], Format.load("counter_8192")
    with pytest.raises(ValueError, match="different"):
        RingSource(Assembler(Plan(f, grid(f, port=range(2)), packets=4, by_port=True)), two, interface="lo")
    RingSource(sink, two, interface="lo", buffer=4 << 20)  # it does not matter which


@pytest.mark.parametrize("speed", [0.0, 4.0])
def test_captures_are_replayed(data, tmp_path, speed):
    path, gap = tmp_path / "capture.pcap", 40_000_000 if speed else 10**10  # ns; 390 s that are not waited for
    with PcapWriter(path) as writer:
        for number, row in enumerate(data):
            for fid, d in enumerate(row):
                writer.write(10**18 + number * gap + fid, paper(number, fid, d.tobytes()), "10.0.0.1", 8511)
            writer.write(10**18 + number * gap + 9, b"other", "10.0.0.1", 9999)
    assembler = Assembler(plan())
    began = time.monotonic()
    source = PcapSource(assembler, path, [Endpoint(host="10.0.0.1", port=8511)], speed=speed)
    source.start()
    assert source.join(60)
    took = time.monotonic() - began
    check(assembler, data)
    assert source.account.datagrams == 200
    assert took > 0.39 or not speed  # 39 x 40 ms, four times as fast


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_that_share_a_capture_decide_as_one_does(tmp_path, threads):
    """Losses, duplicates, late packets, a jump of the clock: the same bytes and the same account, whoever copies."""
    rng = fresh.rng()
    order = np.repeat(np.arange(700), 4)
    order = order[np.argsort(order + rng.normal(0, rng.choice([0.2, 3.0, 30.0], order.size), order.size))]
    order = order[rng.random(order.size) > 0.03]
    order = np.insert(order, rng.integers(0, order.size, 40), rng.choice(order, 40))
    path = tmp_path / "capture.pcap"
    with PcapWriter(path) as writer:
        for i, number in enumerate(order.tolist()):
            fid = int(rng.integers(0, 5))  # the last is nobody's
            writer.write(10**18 + 50_000 * i, paper(number + 9000 * (i > 1500), fid, rng.bytes(8192)), "10.0.0.1", 8511)

    def run(count):
        assembler = Assembler(plan(waits=True, rate=2e4, silence=1.0, skew=40, chunks=240))
        source = PcapSource(assembler, path, threads=count)
        source.start()
        found = []

        def finish():
            assert source.join(60)
            assembler.finish()

        ending = threading.Thread(target=finish)
        ending.start()
        for chunk in assembler:
            found.append((chunk.number, chunk.epoch, chunk.present.copy(), chunk.data[chunk.present == 1].copy()))
        ending.join()
        counts = assembler.counts()
        return found, replace(counts, first_loss=0.0, open=0, ready=0, taken=0, free=0), source.account

    wanted, got = run(1), run(threads)
    assert wanted[1].resyncs and wanted[1].duplicate and wanted[1].late and wanted[1].missing and wanted[1].foreign
    assert got[1:] == wanted[1:] and len(got[0]) == len(wanted[0])
    for a, b in zip(got[0], wanted[0], strict=True):
        assert a[:2] == b[:2]
        np.testing.assert_array_equal(a[2], b[2])
        np.testing.assert_array_equal(a[3], b[3])


def test_a_replay_stops_at_once(tmp_path, steady):
    path = tmp_path / "capture.pcap"
    with PcapWriter(path) as writer:
        writer.write(0, b"first", "10.0.0.1", 1)
        writer.write(10**12, b"much later", "10.0.0.1", 1)

    def body():
        sink = Discard()
        with PcapSource(sink, path, speed=1.0):
            wait(lambda: sink.packets == 1)
            before = time.monotonic()
        assert time.monotonic() - before < 3.0 and sink.packets == 1

    steady(body)


@pytest.mark.parametrize("name", ALONE)
def test_synthetic_packets_of_every_format(name):
    f = Format.load(name)
    rng = fresh.rng()
    sizes = {s: 4 for s in f.payload.size.values() if isinstance(s, str)}
    heads = grid(f, **{n: range(f.fields[n].low, f.fields[n].low + 2) for n in f.timestamp.stream})
    p = Plan(f, heads, packets=8, chunks=16, sizes=sizes, linger=0.0)
    payloads = rng.integers(0, 256, (len(heads), p.payload_bytes), np.uint8)
    turn = f.period if f.period <= 1 << 63 else 1 << 62
    first = (turn // p.step - 12) * p.step  # over the counter's turn, if it has one
    packets = 12 if f.period > 1 << 63 else 40
    assembler = Assembler(p)
    source = SyntheticSource(assembler, p, payloads=payloads, packets=packets, first=first)
    source.start()
    assert source.join(60)
    assembler.finish()
    for chunk in assembler:
        assert np.array_equal(chunk.data, np.where(chunk.present[..., None] == 1, payloads[:, None], 0))
    counts = assembler.counts()
    assert (counts.placed, counts.missing, counts.malformed) == (packets * len(heads), 0, 0)


def test_synthetic_packets_come_at_their_rate():
    sink = Discard()
    with SyntheticSource(sink, plan(), rate=20_000) as source:
        wait(lambda: sink.packets >= 4000)
    report = source.reports()[0]
    assert report.packets <= report.wall_seconds * 20_000 + 64 and report.wall_seconds > 0.19
    assert report.busy < 0.9


def test_a_sender_that_is_killed_and_one_that_starts_again(steady):
    """With patience: senders that stand still for `linger` are taken for others, and of what a socket loses last nobody knows."""
    steady(_killed_and_started_again)


def _killed_and_started_again():
    port = free_ports(1)
    assembler = Assembler(plan(linger=2.0, chunks=64))
    program = (
        "import socket, struct, time\n"
        "s = socket.socket(type=socket.SOCK_DGRAM)\n"
        "for n in range(10**6):\n"
        "    for f in range(4):\n"
        f"        s.sendto(struct.pack('>Q', n << 16 | f << 8 | 1) + bytes([1 + n % 255]) * 8192, ('127.0.0.1', {port}))\n"
        "    time.sleep(0.001)\n"
    )
    seen, ended = [], threading.Event()

    def consume():
        while not assembler.ended:
            if (chunk := assembler.next(0.05)) is not None:
                with chunk:
                    for i in range(8):
                        want = (1 + (chunk.number * 8 + i) % 255) * chunk.present[:, i]
                        assert (chunk.data[:, i] == want[:, None]).all()
                    seen.append((chunk.epoch, chunk.number))
        ended.set()

    consumer = threading.Thread(target=consume)
    consumer.start()
    with UdpSource(assembler, [endpoint(port)]) as source:
        for epoch in range(2):
            sender = subprocess.Popen([sys.executable, "-c", program])
            try:
                wait(lambda e=epoch: sum(x == e for x, _ in seen) > 3)
            finally:
                os.kill(sender.pid, signal.SIGKILL)
                sender.wait()
            got = source.reports()[0].packets
            wait(lambda n=got: assembler.counts().open == 0 and source.reports()[0].packets >= n)
            time.sleep(2.2)  # after `linger` the next packet is believed, whatever its time
    assembler.finish()
    consumer.join()
    assert ended.is_set()
    for epoch in range(2):
        numbers = [n for e, n in seen if e == epoch]
        assert numbers == list(range(len(numbers)))  # from the first chunk on: a new sender is believed at once
    counts = assembler.counts()
    assert counts.resyncs == 1 and counts.late == counts.malformed == 0
    assert counts.datagrams == counts.placed and counts.missing == source.kernel_drops


def test_a_thread_that_cannot_run_is_an_error():
    with pytest.raises((RuntimeError, OSError, ValueError), match="core"):
        SyntheticSource(Discard(), plan(), cores=[1023]).start()
    with pytest.raises(OSError, match=r"192\.0\.2\.77"):
        UdpSource(Discard(), [Endpoint(host="192.0.2.77", port=9)])
    with pytest.raises(ValueError, match="multicast"):
        UdpSource(Discard(), [Endpoint(host="239.1.1.1", port=9)], threads=2)


def test_a_thread_rests_while_packets_gather():
    """To be woken for each would cost it more than the packets themselves."""
    port, sink, count = free_ports(1), Discard(), 4000

    def switches():
        for task in Path("/proc/self/task").iterdir():
            if (task / "comm").read_text().strip() == "udp-0":
                return int((task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
        raise AssertionError("there is no such thread")

    with UdpSource(sink, [endpoint(port)], gro=False) as source, socket.socket(type=socket.SOCK_DGRAM) as s:
        before = switches()
        due = time.perf_counter()
        for _ in range(count):
            s.sendto(bytes(1000), ("127.0.0.1", port))
            due += 50e-6
            while time.perf_counter() < due:
                pass
        wait(lambda: sink.packets + source.kernel_drops == count)
        assert sink.packets > count / 2 and switches() - before < count / 3


def test_multicast():
    port = free_ports(1)
    sink = Discard()
    group = f"239.77.{os.getpid() % 256}.9"
    with UdpSource(sink, [Endpoint(host=group, port=port)]) as source, socket.socket(type=socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for _ in range(10):
            s.sendto(bytes(1000), (group, port))
        wait(lambda: sink.packets == 10)
    assert source.kernel_drops == 0


def _within(arrived, before):
    first, last = arrived
    assert before <= first <= last <= time.time_ns()


def hear(port):
    """Let this process's socket on a port have packets although its source has not started."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing itself is closed meanwhile
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as s:
            if s.type == socket.SOCK_DGRAM and s.getsockname()[1:] == (port,):
                s.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


@pytest.mark.parametrize("gro", [False, True])
def test_packets_carry_the_time_at_which_the_kernel_saw_them(gro):
    """Not that at which a thread got round to reading them."""
    port = free_ports(1)
    sink = Discard()
    source = UdpSource(sink, [endpoint(port)], gro=gro)
    hear(port)
    before = time.time_ns()
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.sendto(b"early", ("127.0.0.1", port))
        time.sleep(0.3)
        s.sendto(b"late", ("127.0.0.1", port))
    between = time.time_ns()
    time.sleep(0.3)
    with source:
        wait(lambda: sink.packets == 2)
    _within(sink.arrived, before)
    first, last = sink.arrived
    assert last <= between and last - first > 250_000_000


def test_synthetic_packets_have_a_time_line_of_their_own():
    sink, before = Discard(), time.time_ns()
    with SyntheticSource(sink, plan(), rate=20_000, packets=250) as source:  # of four heads
        assert source.join(60)
    assert sink.packets == 1000 and sink.arrived[0] >= before
    assert abs(sink.arrived[1] - sink.arrived[0] - 999 * 50_000) <= 999


def test_replayed_packets_have_the_times_of_the_capture(tmp_path):
    path = tmp_path / "capture.pcap"
    with PcapWriter(path) as writer:
        for i in range(100):
            writer.write(10**18 + i * 7000, bytes(100 + i % 2), "10.0.0.1", 1)
    sink = Discard()
    source = PcapSource(sink, path)
    source.start()
    assert source.join(60) and sink.packets == 100
    assert sink.arrived == (10**18, 10**18 + 99 * 7000)


@pytest.mark.parametrize("groups", [40])
def test_many_sockets_on_one_thread(groups, steady):
    """Packets that take turns among many endpoints arrive as those of one do, in order, and with their numbers."""

    def body():
        ports = some_ports(groups)
        f = Format.load("counter_8192")
        assembler = Assembler(Plan(f, grid(f, port=range(groups)), packets=4, by_port=True, linger=0.0, chunks=64))
        with UdpSource(assembler, [endpoint(p) for p in ports], buffer=1 << 20) as source:
            with socket.socket(type=socket.SOCK_DGRAM) as s:
                for number in range(20):
                    for port in ports:
                        s.sendto(struct.pack(">Q", number) + bytes([number]) * 8184, ("127.0.0.1", port))
                    wait(lambda n=number: source.reports()[0].packets == (n + 1) * groups)
        assembler.finish()
        chunks = [(c.present.all(), (c.data[:, :, 0] == np.arange(4) + 4 * c.number).all()) for c in assembler]
        assert chunks == [(True, True)] * 5
        assert assembler.counts().placed == 20 * groups and source.kernel_drops == 0

    steady(body)


_LINK_PROGRAM = r"""
import socket, subprocess, sys, time
from ryle.config.endpoints import Endpoint
from ryle.receive.packet_ring import RingSource
from ryle.receive.sources import Discard

def link(state):
    subprocess.run(["ip", "link", "set", "va", state], check=True)

def send(sink, more):
    wanted, end = sink.packets + more, time.monotonic() + 30
    while sink.packets < wanted:
        assert time.monotonic() < end, "nothing came"
        for _ in range(more):
            far.send(frame)
        time.sleep(0.05)

payload = bytes(1000)
udp = b"\x10\x00\x1f\x40" + (8 + len(payload)).to_bytes(2, "big") + b"\0\0" + payload  # to port 8000
addresses = bytes([10, 77, 0, 2, 10, 77, 0, 1])
ip = bytearray(b"\x45\0" + (20 + len(udp)).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0" + addresses)
words = sum(ip[i] << 8 | ip[i + 1] for i in range(0, 20, 2))
ip[10:12] = ((~(words % 65535)) & 0xFFFF).to_bytes(2, "big")
far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
far.bind(("vb", 0))
frame = b"\xff" * 6 + b"\2\0\0\0\0\2" + b"\x08\0" + bytes(ip) + udp
sink = Discard()
source = RingSource(sink, [Endpoint(host="10.77.0.1", port=8000)], interface="va", buffer=4 << 20)
source.start()
before = time.time_ns()
send(sink, 10)
assert before <= sink.arrived[0] <= sink.arrived[1] <= time.time_ns()
assert source.reports()[0].interruptions == 0
link("down")
time.sleep(0.3)
cpu = source.reports()[0].cpu_seconds
time.sleep(1.0)
spent = source.reports()[0].cpu_seconds - cpu
assert spent < 0.3, f"{spent:.2f} s of CPU in 1 s without a link"
link("up")
send(sink, 10)
assert source.reports()[0].interruptions == 1 and source.running
subprocess.run(["ip", "link", "del", "va"], check=True)
end = time.monotonic() + 30
while source.running:
    assert time.monotonic() < end, "it goes on without its interface"
    time.sleep(0.01)
source.join()
"""


def test_a_packet_ring_waits_while_its_link_is_down():
    """It neither spins nor ends, counts it, and goes on when the link is up; a removed interface is an error."""
    name = f"ryle-ring-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("network namespaces need root and 'ip'")
    inside = ["ip", "netns", "exec", name]
    try:
        for line in (
            "ip link add va type veth peer name vb",
            "ip addr add 10.77.0.1/24 dev va",
            "ip link set va up",
            "ip link set vb up",
        ):
            subprocess.run([*inside, *line.split()], check=True)
        done = subprocess.run(
            [*inside, sys.executable, "-c", _LINK_PROGRAM], capture_output=True, text=True, timeout=120
        )
        assert done.stderr.endswith("interface va was removed; start again when it is back\n"), done.stderr
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
