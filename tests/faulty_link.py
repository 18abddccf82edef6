"""A network that misbehaves to order: a relay that loses, repeats, delays and damages what others send."""

from __future__ import annotations

import contextlib
import heapq
import ipaddress
import os
import select
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ryle.config.endpoints import Endpoint
from ryle.config.simulation import FaultsTable
from ryle.receive.sockets import interface_index, receive_socket
from ryle.wire import spead

_IDLE = 0.05  # s without a datagram after which those held back go on
_TURN = 4  # datagrams of one route that are passed on before it is the next one's turn


@dataclass(frozen=True)
class Fault:
    """What was done to one SPEAD packet.

    Parameters
    ----------
    kind : str
        "lost", "duplicated", "delayed" or "corrupted".
    route : int
        Index of the route.
    items : dict of int to int
        Immediates of the packet as it arrived, by item ID: timestamp, stream, payload offset, …; empty if not SPEAD.
    """

    kind: str
    route: int
    items: dict[int, int]


class FaultyStream:
    """Datagrams of one way, with faults that depend on the seed and on the way's own datagrams, nothing else.

    Parameters
    ----------
    faults : FaultsTable
        Rates and seed.
    index : int
        Which way: others fail otherwise.
    header : bool
        Whether corruption may change a header, as of SPEAD's packets, in which that can be seen; others are cut short.
    """

    def __init__(self, faults: FaultsTable, index: int, header: bool = True) -> None:
        self.index = index
        self._header = header
        self._faults = faults
        self._random = np.random.default_rng([faults.seed, index])
        self._passed = 0
        self._held: list[tuple[int, int, bytes]] = []

    def handle(self, datagram: bytes, faults: list[Fault], counts: Counter[str]) -> list[bytes]:
        """Decide what becomes of `datagram`; return what is to be sent on now."""
        f = self._faults
        draw = self._random.random(4)
        distance = int(self._random.integers(1, f.reorder_distance + 1))
        try:
            items = spead.read(datagram)[0]
        except ValueError:
            items = {}
        counts["passed"] += 1
        if spead.STREAM_CONTROL in items:  # nothing comes after the end
            return [*self.flush(), datagram]

        def note(kind: str) -> None:
            counts[kind] += 1
            faults.append(Fault(kind, self.index, items))

        now = []
        if draw[0] < f.loss:
            note("lost")
        elif draw[1] < f.corrupt:
            note("corrupted")
            now.append(self._corrupt(datagram))
        else:
            if draw[2] < f.duplicate:
                note("duplicated")
                now.append(datagram)
            if draw[3] < f.reorder:
                note("delayed")
                heapq.heappush(self._held, (self._passed + distance, self._passed, datagram))
            else:
                now.append(datagram)
        return now + self._due()

    def _due(self) -> list[bytes]:
        self._passed += 1
        due = []
        while self._held and self._held[0][0] < self._passed:
            due.append(heapq.heappop(self._held)[2])
        return due

    def flush(self) -> list[bytes]:
        """Everything held back."""
        held, self._held = [d for _, _, d in sorted(self._held)], []
        return held

    def _corrupt(self, datagram: bytes) -> bytes:
        """Cut short, or with a wrong byte in the part of the header that says how to read the rest.

        A wrong byte elsewhere could not be told from a right one: against those UDP has its checksum.
        """
        if self._random.random() < 0.5 or not self._header:
            return datagram[: int(self._random.integers(1, len(datagram)))]
        at = int(self._random.choice([0, 1, 2, 3, 6, 7]))
        wrong = datagram[at] ^ int(self._random.integers(1, 256))
        return datagram[:at] + bytes([wrong]) + datagram[at + 1 :]


class _Route(FaultyStream):
    """One way through the link."""

    def __init__(self, incoming: socket.socket, to: tuple[str, int], faults: FaultsTable, index: int) -> None:
        super().__init__(faults, index)
        self.incoming, self.to = incoming, to


class FaultyLink:
    """UDP relay, in a thread of its own, that does to datagrams what a `FaultsTable` says.

    Stop heaps pass unharmed, behind everything held back, so that what follows still ends by itself.

    Parameters
    ----------
    routes : sequence of (Endpoint, Endpoint)
        Where to receive and where to send on to.
    faults : FaultsTable
        Rates and seed. The same seed does the same to the same datagrams of a route.
    interface : str
        Address of the interface for multicast.
    buffer_size : int
        Socket buffer of each route.
    """

    def __init__(
        self,
        routes: Sequence[tuple[Endpoint, Endpoint]],
        faults: FaultsTable,
        *,
        interface: str = "127.0.0.1",
        buffer_size: int = 16 << 20,
    ) -> None:
        #: Every fault so far, in order of arrival on each route.
        self.faults: list[Fault] = []
        #: Datagrams "passed" (all that arrived), "lost", "duplicated", "delayed", "corrupted".
        self.counts: Counter[str] = Counter()
        self._routes = []
        self._senders: dict[bool, socket.socket] = {}
        for index, (listen, to) in enumerate(routes):
            incoming = receive_socket(listen, interface, buffer_size)
            incoming.setblocking(False)
            self._routes.append(_Route(incoming, (to.host, to.port), faults, index))
            self._open_sender(to, interface)
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="faulty-link", daemon=True)
        self._thread.start()

    def _open_sender(self, to: Endpoint, interface: str) -> None:
        six = ipaddress.ip_address(to.host).version == 6
        if six in self._senders:
            return
        s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
        if to.multicast and six:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index(interface))
        elif to.multicast:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
        self._senders[six] = s

    def _send(self, route: _Route, datagrams: list[bytes]) -> None:
        for d in datagrams:
            self._senders[":" in route.to[0]].sendto(d, route.to)

    def _run(self) -> None:
        by_socket = {r.incoming: r for r in self._routes}
        while True:
            ready, _, _ = select.select([self._woken, *by_socket], [], [], _IDLE)
            if self._woken in ready:  # told to end: first everything that has arrived, then what is held back
                while any([self._pass_on(route) for route in self._routes]):
                    pass
            for s in ready:
                if s is not self._woken:
                    self._pass_on(by_socket[s])
            if not ready or self._woken in ready:
                for route in self._routes:
                    self._send(route, route.flush())
            if self._woken in ready:
                return

    def _pass_on(self, route: _Route) -> bool:
        """Pass on what has arrived, a few datagrams: after a pause no route may get far ahead of the others."""
        for count in range(_TURN):
            try:
                datagram = route.incoming.recv(65536)
            except BlockingIOError:
                return count > 0
            self._send(route, route.handle(datagram, self.faults, self.counts))
        return True

    def close(self) -> None:
        """Send on what is held back and end."""
        if self._thread.is_alive():
            self._wake.send(b"x")
            self._thread.join()
            for s in (*(r.incoming for r in self._routes), *self._senders.values(), self._wake, self._woken):
                s.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def kernel_drops(sockets: Iterable[socket.socket]) -> int | None:
    """Datagrams that the kernel dropped at full buffers since `sockets` were opened; None if unknown."""
    opened = list(sockets)
    rows = _kernel_rows(opened)
    return sum(int(words[12]) for words in rows.values()) if len(rows) == len(opened) else None


def _kernel_rows(sockets: Iterable[socket.socket]) -> dict[str, list[str]]:
    """Give the words of the kernel's line about each open socket that it has one for, by inode."""
    inodes = set()
    for s in sockets:
        with contextlib.suppress(OSError, ValueError):  # another thread may be closing it
            inodes.add(str(os.fstat(s.fileno()).st_ino))
    rows = {}
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[9] in inodes:
                    rows[words[9]] = words
    return rows
