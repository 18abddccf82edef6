"""The faulty link: rates, order, and that the same seed does the same."""

import socket
import struct
import time

import pytest

from faulty_link import FaultyLink
from ryle.config.endpoints import Endpoint
from ryle.config.simulation import FaultsTable
from ryle.wire import spead


def packet(n):
    items = [(1, n), (2, 8), (3, 0), (4, 8), (0x1600, n)]
    words = [1 << 63 | i << 48 | v for i, v in items]
    return b"\x53\x04\x02\x06\0\0" + struct.pack(">H5QQ", 5, *words, n)


@pytest.fixture
def through(ports):
    """What comes of packets 0 … n-1 behind a link, and the link."""

    def run(faults, n=600, extra=()):
        a, b = Endpoint(host="127.0.0.1", port=ports(1)), Endpoint(host="127.0.0.1", port=ports(1))
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
        ):
            back.bind((b.host, b.port))
            back.setblocking(False)
            got = []

            def drain():
                try:
                    while True:
                        got.append(back.recv(65536))
                except BlockingIOError:
                    pass

            with FaultyLink([(a, b)], faults) as link:
                for k, p in enumerate([*map(packet, range(n)), *extra], 1):
                    out.sendto(p, (a.host, a.port))
                    if k % 50 == 0:  # no more than a socket holds
                        until = time.monotonic() + 60
                        while link.counts["passed"] < k:
                            assert time.monotonic() < until
                            time.sleep(0.001)
                        drain()
            drain()
        return got, link

    return run


def test_nothing_wrong(through, steady):
    def body():
        got, link = through(FaultsTable())
        assert got == [packet(k) for k in range(600)] and not link.faults

    steady(body)


def test_each_fault(through, steady):
    def body():
        got, link = through(FaultsTable(loss=0.1, seed=3))
        lost = {f.items[spead.TIMESTAMP] for f in link.faults}
        assert 30 < len(lost) < 100 and {f.kind for f in link.faults} == {"lost"}
        assert got == [packet(k) for k in range(600) if k not in lost]

        got, link = through(FaultsTable(duplicate=0.1, seed=4))
        assert 30 < link.counts["duplicated"] == len(got) - 600
        assert sorted(got) == sorted([packet(k) for k in range(600)] + [packet(f.items[1]) for f in link.faults])

        got, link = through(FaultsTable(reorder=0.2, reorder_distance=5, seed=5))
        order = [spead.read(g)[0][1] for g in got]
        assert sorted(order) == list(range(600)) and order != list(range(600))
        late = {f.items[1] for f in link.faults}
        for place, n in enumerate(order):
            overtaken = sum(m > n for m in order[:place] if m not in late)
            assert overtaken <= (5 if n in late else 0)

        got, link = through(FaultsTable(corrupt=0.2, seed=6))
        broken = {f.items[1] for f in link.faults}
        assert len(got) == 600 and len(broken) > 60
        for k, g in enumerate(got):
            if k in broken:
                assert g != packet(k)
                with pytest.raises(ValueError, match="SPEAD"):
                    spead.read(g)
            else:
                assert g == packet(k)

    steady(body)


def test_same_seed_same_faults(through, steady):
    def body():
        table = FaultsTable(loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.1, seed=9)
        (_, one), (_, two) = through(table, 300), through(table, 300)
        assert one.faults == two.faults and one.faults
        _, other = through(table.model_copy(update={"seed": 10}), 300)
        assert other.faults != one.faults

    steady(body)


def test_stop_heaps_pass_behind_everything_else(through):
    words = [1 << 63 | i << 48 | v for i, v in [(1, 1), (2, 0), (3, 0), (4, 0), (6, 2)]]
    stop = b"\x53\x04\x02\x06\0\0" + struct.pack(">H5Q", 5, *words)
    got, _ = through(FaultsTable(loss=1), 5, [stop])
    assert got == [stop]
    got, _ = through(FaultsTable(reorder=1, reorder_distance=1000), 5, [stop])
    assert sorted(got[:-1]) == [*map(packet, range(5))] and got[-1] == stop


def test_closing_passes_on_what_has_arrived(ports):
    a, b = Endpoint(host="127.0.0.1", port=ports(1)), Endpoint(host="127.0.0.1", port=ports(1))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
    ):
        back.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        back.bind((b.host, b.port))
        back.settimeout(60)
        with FaultyLink([(a, b)], FaultsTable()) as link:
            for n in range(100):
                out.sendto(packet(n), (a.host, a.port))
        assert link.counts["passed"] == 100
        assert [back.recv(65536) for _ in range(100)] == [packet(n) for n in range(100)]
