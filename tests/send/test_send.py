"""Sending over loopback: bytes, rates, faults, recordings, and how a sender ends."""

import collections
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ryle.config.addresses import endpoints, senders
from ryle.engines.send import send
from ryle.send import departure
from ryle.send.sender import Sender
from ryle.send.sending import FATES, InjectedFaults, Sending, expected_payload, plan
from ryle.store.pcap_write import PcapWriter
from ryle.wire.description import Format


def _may_go_first():
    """Whether this user may have real-time priority: what tests of time need on a busy machine."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


FIRST = _may_go_first()
PSA = Format.load("paper_psa128")
COUNTER = Format.load("counter_8192")


class Receiver:
    """Datagrams at some ports, read by a thread: (port, sender's address, arrival in ns, bytes)."""

    def __init__(self, ports, host="127.0.0.1", keep=True):
        self.got, self.keep, self.count = [], keep, collections.Counter()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sockets = {}
        for port in ports:
            s = socket.socket(family, socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE: all that a test sends, read or not
            s.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS: when the kernel took it
            s.bind((host, port))
            s.setblocking(False)
            self.sockets[s] = port
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while True:
            ready, _, _ = select.select(list(self.sockets), [], [], 0.1)
            if not ready and self._done.is_set():
                return
            for s in ready:
                for _ in range(64):
                    try:
                        data, control, _, address = s.recvmsg(65536, 64)
                    except BlockingIOError:
                        break
                    seconds, ns = struct.unpack("qq", control[0][2])
                    self.count[self.sockets[s]] += 1
                    if self.keep:
                        self.got.append((self.sockets[s], address[:2], seconds * 10**9 + ns, data))
                    else:
                        self.got.append(seconds * 10**9 + ns)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        for s in self.sockets:
            s.close()


def all_of(asked):
    """What a sender's plan makes, by stream."""
    by_stream = collections.defaultdict(list)
    for source in plan(asked).sources:
        while source.due() >= 0:
            packet, stream, _ = source.make()
            by_stream[stream].append(packet)
    return by_stream


@pytest.mark.parametrize("segment", [True, False], ids=["segmented", "plain"])
def test_streams_with_their_own_addresses(segment, ports, steady):
    def body():
        first, own = ports(2), ports(2)
        asked = Sending(
            to=endpoints(f"127.0.0.1:{first}+2"),
            sender=senders(f"127.0.0.5:{own},127.0.0.6"),
            format=PSA,
            sources=2,
            packets=40,
            pps=4000,
            burst=4,
            faults=InjectedFaults(truncate=0.1, duplicate=0.1, reorder=0.1),
            segment=segment,
        )
        with Receiver([first, first + 1]) as receiver:
            sender, summary = send(asked, quiet=True)
            time.sleep(0.2)
        for stream, packets in all_of(asked).items():
            s = sender.plan.streams[stream]
            got = [d for port, who, _, d in receiver.got if port == s.to.port and who[0] == s.sender.host]
            assert got == packets
        assert {who for _, who, _, _ in receiver.got if who[0] == "127.0.0.5"} == {("127.0.0.5", own)}
        assert len(receiver.got) == summary["packets"] == summary["pushed"] == summary["expect"]["datagrams"]
        assert summary["segmentation"] is segment

    steady(body)


def test_ipv6(ports, steady):
    def body():
        port = ports(1)
        asked = Sending(to=endpoints(f"[::1]:{port}"), format=COUNTER, packets=30, pps=2000, burst=5)
        with Receiver([port], "::1") as receiver:
            send(asked, quiet=True)
            time.sleep(0.2)
        assert [d for *_, d in receiver.got] == all_of(asked)[0]

    steady(body)


def test_multicast(ports, steady):
    """Groups count up; the own address says through which interface."""

    def body():
        port = ports(1)
        asked = Sending(
            to=endpoints(f"239.77.9.1:{port}+2"), sender=senders("127.0.0.1"), format=PSA, packets=30, pps=2000
        )
        with Receiver([port], "0.0.0.0") as receiver:
            (s,) = receiver.sockets
            for group in ("239.77.9.1", "239.77.9.2"):
                s.setsockopt(
                    socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
                )
            send(asked, quiet=True)
            time.sleep(0.2)
        made = all_of(asked)
        for stream in (0, 1):  # xid tells the destinations apart
            assert [d for *_, d in receiver.got if d[7] == stream] == made[stream]

    steady(body)


def test_several_threads_share_one_counter(ports, steady):
    def body():
        port = ports(1)
        asked = Sending(
            to=endpoints(f"127.0.0.1:{port}"),
            format=COUNTER,
            packets=3000,
            pps=6000,
            threads=2,
            cores=(0, os.cpu_count() - 1),
            seed=9,
        )
        with Receiver([port]) as receiver:
            sender, summary = send(asked, quiet=True)
            time.sleep(0.2)
        numbers = [int.from_bytes(d[:8], "big") for *_, d in receiver.got]
        assert sorted(numbers) == list(range(3000)) and summary["threads"] == 2 and len(sender.plan.streams) == 2
        for n, (*_, d) in zip(numbers[:50], receiver.got, strict=False):
            assert d[8:] == expected_payload(9, 0, n, 8184).tobytes()

    steady(body)


@pytest.mark.parametrize(("rate", "burst"), [({"pps": 3000.0}, 1), ({"pps": 20000.0}, 8), ({"gbps": 0.01}, None)])
def test_rate(rate, burst, ports, steady):
    """Within 1 % over two seconds by the receiver's clock, and no half second of it far off. Packets of 64 bytes."""

    def body():
        port = ports(1)
        asked = Sending(
            to=endpoints(f"127.0.0.1:{port}"),
            format=Format.load("lwa_snap2"),
            size=64,
            seconds=2,
            burst=burst,
            filling="zeros",
            realtime=FIRST,
            **rate,
        )
        with Receiver([port], keep=False) as receiver:
            sender, summary = send(asked, quiet=True)
            time.sleep(0.2)
        pps = rate.get("pps") or rate["gbps"] * 1e9 / 8 / 64
        assert len(receiver.got) == summary["packets"] == round(2 * pps)
        at = (np.array(receiver.got) - receiver.got[0]) * 1e-9
        per_burst = sender.plan.burst
        intervals = len(at) / per_burst - 1  # the last burst's packets come with its first
        assert at[-1] == pytest.approx(intervals * per_burst / pps, rel=0.01, abs=per_burst / pps)
        for half in range(3):
            inside = ((at >= half / 2) & (at < half / 2 + 0.5)).sum()
            assert inside == pytest.approx(pps / 2, rel=0.2)
        assert summary["asked_packets_per_s"] == pytest.approx(pps)

    steady(body)


def test_bursts_are_sent_back_to_back(ports, steady):
    def body():
        port = ports(1)
        asked = Sending(
            to=endpoints(f"127.0.0.1:{port}"), format=COUNTER, packets=100, pps=1000, burst=5, realtime=FIRST
        )
        with Receiver([port], keep=False) as receiver:
            send(asked, quiet=True)
            time.sleep(0.2)
        gaps = np.diff(np.array(receiver.got)) * 1e-9
        between = gaps[4::5]
        assert len(between) == 19 and np.median(between) == pytest.approx(0.005, rel=0.1)
        assert np.median(np.delete(gaps, np.s_[4::5])) < 1e-4

    steady(body)


def test_faults_as_a_receiver_counts_them(ports, steady):
    def body():
        port = ports(1)
        faults = InjectedFaults(
            loss=0.05, duplicate=0.05, reorder=0.05, truncate=0.05, foreign=0.05, seed=time.time_ns()
        )
        asked = Sending(
            to=endpoints(f"127.0.0.1:{port}"), format=PSA, sources=3, packets=1000, pps=10000, faults=faults
        )
        with Receiver([port]) as receiver:
            _, summary = send(asked, quiet=True)
            time.sleep(0.2)
        said, seen = collections.Counter(), set()
        for *_, d in receiver.got:
            if len(d) != 8200:
                said["malformed"] += 1
            elif d[6] > 2 or d[7] > 0:  # fid, xid
                said["foreign"] += 1
            else:
                said["duplicate" if d[:8] in seen else "placed"] += 1
                seen.add(d[:8])
        expected = summary["expect"]
        assert said == {k: v for k, v in expected.items() if k in ("malformed", "foreign", "duplicate", "placed")}
        assert expected["missing"] == 3000 - said["placed"] and expected["misplaced"] == 0
        assert sum(s["packets"] for s in summary["streams"]) == len(receiver.got) == expected["datagrams"]
        assert summary["events"]["complete"] and len(summary["events"]["list"]) == sum(
            n for k, n in summary["injected"].items() if k != "sent"
        )

    steady(body)


@pytest.mark.parametrize("speed", [1.0, 2.0, 0.0])
def test_a_recording(speed, tmp_path, ports, steady, rng):
    """Bytes as they were, new addresses, times as recorded, scaled, or as fast as it goes."""
    path, packets = tmp_path / "some.pcap", []
    with PcapWriter(path) as file:
        for n in range(120):
            data = rng.bytes(int(rng.choice([100, 100, 1400])))
            time_ns = 10**18 + n * 5_000_000 + (300_000_000 if n >= 60 else 0)
            to = ("10.0.0.1", 7000) if n % 3 else ("10.0.0.2", 7000)
            file.write(time_ns, data, *to)
            packets.append((n % 3 > 0, time_ns - 10**18, data))

    def body():
        first = ports(2)
        asked = Sending(to=endpoints(f"127.0.0.1:{first}+2"), recording=path, speed=speed, realtime=FIRST)
        with Receiver([first, first + 1]) as receiver:
            _, summary = send(asked, quiet=True)
            time.sleep(0.2)
        for way, port in ((False, first), (True, first + 1)):  # in the order in which the recording has them
            got = [(t, d) for p, _, t, d in receiver.got if p == port]
            assert [d for _, d in got] == [d for w, _, d in packets if w == way]
            if speed:
                want = np.array([t for w, t, _ in packets if w == way]) / speed
                times = np.array([t for t, _ in got])
                assert np.abs(times - times[0] - want + want[0]).max() < 20e6
        seconds = (0.9 - 0.005) / speed if speed else 0
        assert summary["packets"] == 120 and seconds <= summary["seconds"] < seconds + 0.2
        lossy = Sending(to=asked.to, recording=path, speed=0, faults=InjectedFaults(loss=0.2, duplicate=0.1))
        with Receiver([first, first + 1]) as receiver:
            _, summary = send(lossy, quiet=True)
            time.sleep(0.2)
        lost = {(e["stream"], e["packet"]) for e in summary["events"]["list"] if e["what"] == "lost"}
        assert lost and len(receiver.got) == 120 - len(lost) + summary["injected"]["duplicated"]

    steady(body)


def test_a_recording_of_nothing(tmp_path):
    path = tmp_path / "empty.pcap"
    PcapWriter(path).close()
    with pytest.raises(ValueError, match="no UDP datagram"):
        Sender(Sending(to=endpoints("127.0.0.1:9"), recording=path))
    with pytest.raises(ValueError, match="--speed"):
        Sender(Sending(to=endpoints("127.0.0.1:9"), recording=path, pps=5.0))


def test_as_fast_as_it_goes_for_a_time(ports):
    port = ports(1)
    with Receiver([port], keep=False):
        start = time.monotonic()
        _, summary = send(Sending(to=endpoints(f"127.0.0.1:{port}"), format=COUNTER, seconds=0.5), quiet=True)
        assert 0.5 <= time.monotonic() - start < 10
    assert 0.49 < summary["seconds"] < 10 and summary["packets"] > 100 and summary["asked_packets_per_s"] is None
    assert summary["pacing"] == "none" and summary["packets"] == summary["pushed"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(how, ports, steady):
    """A sender that is asked to stop says exactly what it sent; packets held back still go out."""

    def body():
        port = ports(1)
        command = f"send paper_psa128 --to 127.0.0.1:{port} --pps 2000 --reorder 0.2 --distance 300 --loss 0.1 --json -"
        with Receiver([port]) as receiver:
            process = subprocess.Popen(
                [sys.executable, "-m", "ryle", *command.split()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            deadline = time.monotonic() + 60
            while len(receiver.got) < 2500 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(how)
            out, told = process.communicate(timeout=30)
            time.sleep(0.2)
        assert process.returncode == 0, told
        summary = json.loads(out)
        assert summary["packets"] == len(receiver.got) == summary["expect"]["datagrams"]
        numbers = sorted(struct.unpack(">Q", d[:8])[0] >> 16 for *_, d in receiver.got)
        lost = {e["packet"] for e in summary["events"]["list"] if e["what"] == "lost"}
        assert numbers == [n for n in range(len(numbers) + len(lost)) if n not in lost]
        assert "Gb/s" in told and "packets/s" in told

    steady(body)


def test_nobody_receives(ports):
    port = ports(1)  # that nobody has, nor gets from the kernel meanwhile
    _, summary = send(Sending(to=endpoints(f"127.0.0.1:{port}"), format=COUNTER, packets=50, pps=500), quiet=True)
    assert summary["packets"] == summary["pushed"] == 50 and summary["unreachable"] > 0


def test_addresses_of_others():
    with pytest.raises(OSError, match="one of this host's"):
        Sender(Sending(to=endpoints("127.0.0.1:9"), sender=senders("192.0.2.7"), format=COUNTER))
    with pytest.raises(ValueError, match="both must be IPv4 or both IPv6"):
        Sender(Sending(to=endpoints("127.0.0.1:9"), sender=senders("::1"), format=COUNTER))


def test_catching_up(ports, steady):
    """After 0.3 s without the CPU, packets follow at 1.25 times the rate, and the schedule is met again."""

    def body():
        port = ports(1)
        command = f"send lwa_snap2 --size 64 --to 127.0.0.1:{port} --pps 4000 --seconds 3 --quiet --json -"
        with Receiver([port], keep=False) as receiver:
            process = subprocess.Popen(
                [sys.executable, "-m", "ryle", *command.split(), *(["--realtime"] if FIRST else [])],
                stdout=subprocess.PIPE,
                text=True,
            )
            deadline = time.monotonic() + 60
            while len(receiver.got) < 2000 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            out, _ = process.communicate(timeout=60)
            time.sleep(0.2)
        summary = json.loads(out)
        at = (np.array(receiver.got) - receiver.got[0]) * 1e-9
        assert len(at) == 12000 == summary["packets"] and 0.25 < summary["most_behind_s"] < 1
        assert at[-1] == pytest.approx(3, rel=0.01)
        gap = int(np.argmax(np.diff(at)))
        resumed = at[gap + 1]
        quarter = ((at > resumed) & (at < resumed + 0.5)).sum() / 0.5
        assert 4000 * 1.1 < quarter < 4000 * 1.4

    steady(body)


def test_who_holds_packets():
    """The kernel's list is the one that tc shows; loopback holds nothing."""
    assert departure.keeper(endpoints("127.0.0.1:9")[0]) == ""
    assert departure.keeper(endpoints("[::1]:9")[0]) == ""
    index = socket.if_nametoindex("lo")
    assert (index, departure._ROOT, "noqueue") in list(departure._disciplines()) and departure._interface_to(
        endpoints("127.0.0.1:9")[0]
    ) == index
    with pytest.raises(ValueError, match="qdisc replace"):
        Sender(Sending(to=endpoints("127.0.0.1:9"), format=COUNTER, pps=10.0, departure=True))


def test_departure_times_reach_the_kernel(ports):
    """Asked for where nothing holds them, packets leave at once: the control message itself is accepted."""
    from ryle.receive import _native

    port = ports(1)
    with Receiver([port]) as receiver:
        settled = plan(Sending(to=endpoints(f"127.0.0.1:{port}"), format=COUNTER, packets=20, pps=1000.0, burst=5))
        threads = _native.SendThreads()
        (source,) = settled.sources
        way = _native.SocketPort([("127.0.0.1", port, "", 0)], source.most_bytes, 5, True, True, 1 << 20, 1)
        threads.add(source, way, -1)
        threads.start(0.0)
        threads.join()
        time.sleep(0.2)
    assert threads.error() == (0, "") and len(receiver.got) == 20


def test_fates_are_those_of_the_native_code():
    settled = plan(Sending(to=endpoints("127.0.0.1:9"), format=COUNTER, packets=1))
    with pytest.raises(ValueError, match="row"):
        settled.sources[0].counts_into(np.zeros((1, len(FATES) + 1), np.int64))
