"""Where packets come from: sockets, packet rings, captures, memory. All of them feed an `Assembler` or a `Discard`.

A source has native threads; Python only starts, stops and watches it. ``docs/explanation/assembly.md`` says which to
choose.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ryle.config.tables import Endpoint
from ryle.receive import _native
from ryle.receive.assembly import Assembler, Plan
from ryle.receive.sockets import receive_socket
from ryle.wire.description import terms
from ryle.wire.laid_out import laid_out
from ryle.wire.packets import build, compiled

_BLOCK = 1 << 20  # bytes of a packet ring's blocks
_groups = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """What one thread did.

    Parameters
    ----------
    name : str
        Name, as the system shows it too.
    core : int
        Core that it is pinned to; -1 if it is not.
    running : bool
        Whether it still runs.
    cpu_seconds, wall_seconds : float
        Processor time used and time since its start.
    packets, bytes, calls : int
        Packets handed over, their bytes, and in how many batches.
    kernel_drops : int
        Packets that the kernel dropped before; -1 if that cannot be seen.
    interruptions : int
        Times that the link went down.
    discarded : int
        Packets that came before the start, as far as that is known; nothing is made of them. A train counts once.
    """

    name: str
    core: int
    running: bool
    cpu_seconds: float
    wall_seconds: float
    packets: int
    bytes: int
    calls: int
    kernel_drops: int
    interruptions: int = 0
    discarded: int = 0

    @property
    def busy(self) -> float:
        """Share of its time that the thread used a processor."""
        return self.cpu_seconds / self.wall_seconds if self.wall_seconds else 0.0


class Source(Protocol):
    """What every source can do. It starts once; `stop` returns at once and the threads end within some 20 ms."""

    def start(self) -> None:
        """Begin to receive."""

    def stop(self) -> None:
        """Ask the threads to end."""

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""

    @property
    def running(self) -> bool:
        """Whether any thread runs."""

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far."""

    @property
    def kernel_drops(self) -> int | None:
        """Packets that the kernel dropped; None if that cannot be seen."""


class Discard:
    """A sink that counts packets and forgets them: what receiving costs by itself.

    Attributes
    ----------
    native : Sink
        What native sources hand packets to.
    """

    def __init__(self) -> None:
        self.native = _native.Discard()

    @property
    def packets(self) -> int:
        """Packets so far."""
        return self.native.packets

    @property
    def bytes(self) -> int:
        """Bytes of these."""
        return self.native.bytes

    @property
    def arrived(self) -> tuple[int, int]:
        """When the first packet arrived and when the newest did, ns since 1970; 0 if unknown."""
        return self.native.first, self.native.last


Sink = Assembler | Discard


class NativeSource:
    """What sources with native threads share. ``with source:`` starts it, stops it and waits for its threads."""

    _native: _native.Source

    def start(self) -> None:
        """Begin to receive."""
        self._native.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        self._native.stop()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        ended = self._native.join(timeout)
        if error := self._native.error:
            raise RuntimeError(error)
        return ended

    @property
    def running(self) -> bool:
        """Whether any thread runs."""
        return self._native.running

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far."""
        return [ThreadReport(**report) for report in self._native.reports()]

    @property
    def kernel_drops(self) -> int | None:
        """Packets that the kernel dropped; None if that cannot be seen."""
        drops = [report.kernel_drops for report in self.reports()]
        return None if min(drops) < 0 else sum(drops)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join()


class Together:
    """Several sources that feed the same sink, as one.

    Parameters
    ----------
    sources : sequence of Source
        Which.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = list(sources)

    def start(self) -> None:
        """Begin to receive."""
        for source in self._sources:
            source.start()

    def stop(self) -> None:
        """Ask the threads to end."""
        for source in self._sources:
            source.stop()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        return all([source.join(timeout) for source in self._sources])

    @property
    def running(self) -> bool:
        """Whether all of them run."""
        return all(source.running for source in self._sources)

    def reports(self) -> list[ThreadReport]:
        """Say what each thread did so far, under names that tell the sources apart."""
        return [
            replace(report, name=f"{report.name}.{i}") for i, s in enumerate(self._sources) for report in s.reports()
        ]

    @property
    def kernel_drops(self) -> int | None:
        """Packets that the kernel or the devices dropped; None if that cannot be seen."""
        drops = [source.kernel_drops for source in self._sources]
        return None if None in drops else sum(n for n in drops if n is not None)


class UdpSource(NativeSource):
    """Receive from UDP sockets, what comes after the start.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    endpoints : sequence of Endpoint
        Own addresses or multicast groups, and ports. Packets get the place in this list as their port number.
    interface : str
        Address of the interface on which to join multicast groups.
    threads : int
        Receive threads. Endpoints are dealt out among them; with more threads than endpoints each endpoint gets several
        sockets (SO_REUSEPORT), among which the kernel deals out flows, so that one sender stays with one thread.
    cores : sequence of int
        Cores that the threads run on, in turn; anywhere if empty.
    buffer : int
        Bytes of each socket's buffer.
    gro : bool
        Receive trains of packets at a time (UDP_GRO) where the system has them.
    largest : int
        Bytes of the longest packet; longer ones become malformed.

    Raises
    ------
    OSError
        If an endpoint cannot be opened; the message says why.
    """

    def __init__(
        self,
        sink: Sink,
        endpoints: Sequence[Endpoint],
        *,
        interface: str = "127.0.0.1",
        threads: int = 1,
        cores: Sequence[int] = (),
        buffer: int = 64 << 20,
        gro: bool = True,
        largest: int = 9216,
    ) -> None:
        if not endpoints or threads < 1:
            raise ValueError("a source needs at least one endpoint and one thread")
        shared = threads > len(endpoints)
        if shared and any(e.multicast for e in endpoints):
            raise ValueError("every thread would get all packets of a multicast group; use no more threads than groups")
        opened: list[socket.socket] = []
        dealt: list[list[tuple[int, int]]] = [[] for _ in range(threads)]
        try:
            for i in range(max(threads, len(endpoints))):
                port = i % len(endpoints)
                s = receive_socket(endpoints[port], interface, buffer, shared=shared, deaf=True)
                opened.append(s)
                dealt[i % threads].append((s.fileno(), port))
            self._native = _native.udp_source(sink.native, dealt, gro, largest, list(cores))
        finally:
            for s in opened:  # the threads have their own descriptors
                s.close()


def ports_of(sink: Sink, endpoints: Sequence[Endpoint]) -> list[int]:
    """List the ports of endpoints for a source below the kernel's network stack, which sees ports alone.

    Several endpoints may have one port where it does not matter which of them a packet came to: packets then have its
    place in the list as their port number.

    Raises
    ------
    ValueError
        If it does matter.
    """
    ports = list(dict.fromkeys(e.port for e in endpoints))
    indifferent = isinstance(sink, Discard) or (isinstance(sink, Assembler) and not sink.plan.by_port)
    if len(ports) < len(endpoints) and not indifferent:
        raise ValueError(
            f"ports {[e.port for e in endpoints]}: packet rings and DPDK tell endpoints apart by port; "
            "use different ones"
        )
    return ports


def deaf_sockets(endpoints: Sequence[Endpoint], interface: str) -> list[socket.socket]:
    """Open a socket for each endpoint that drops everything: it tells the kernel that packets are wanted.

    It joins multicast groups, and lets the kernel answer nobody that a port is unreachable.
    """
    opened: list[socket.socket] = []
    try:
        for endpoint in endpoints:
            opened.append(receive_socket(endpoint, interface, 4096, deaf=True))
    except BaseException:
        for s in opened:
            s.close()
        raise
    return opened


class RingSource(NativeSource):
    """Receive below the kernel's network stack, from a ring that the kernel fills (AF_PACKET, TPACKET_V3).

    Packets are copied from the ring to their place. Nobody checks their checksums, and nothing but a socket tells the
    kernel that they are wanted: one is opened for each endpoint, which drops everything, and joins multicast groups.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    endpoints : sequence of Endpoint
        As for `UdpSource`, of at most 64 ports; ports tell them apart (`ports_of`).
    interface : str
        Name of the network interface, such as "eth0".
    threads : int
        Receive threads, each with a ring; the kernel deals out flows among them.
    cores : sequence of int
        Cores that the threads run on, in turn; anywhere if empty.
    buffer : int
        Bytes of each ring.
    group_interface : str
        Address of the interface on which to join multicast groups.

    Raises
    ------
    OSError
        If the system does not allow it; it needs CAP_NET_RAW.
    """

    def __init__(
        self,
        sink: Sink,
        endpoints: Sequence[Endpoint],
        *,
        interface: str,
        threads: int = 1,
        cores: Sequence[int] = (),
        buffer: int = 128 << 20,
        group_interface: str = "127.0.0.1",
    ) -> None:
        if not endpoints or threads < 1:
            raise ValueError("a source needs at least one endpoint and one thread")
        ports = ports_of(sink, endpoints)
        self._holding = deaf_sockets(endpoints, group_interface)
        try:
            blocks = max(2, buffer // _BLOCK)
            group = (os.getpid() ^ next(_groups) << 12) & 0xFFFF
            self._native = _native.ring_source(
                sink.native, interface, ports, _BLOCK, blocks, threads, group, list(cores)
            )
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        for s in self._holding:
            s.close()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        ended = super().join(timeout)
        if ended:
            self._let_go()
        return ended


class SyntheticSource(NativeSource):
    """Make packets in memory, as fast as it goes or at a rate: streams take turns, only their counters change.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    plan : Plan
        Format and heads.
    payloads : ndarray of uint8, shape (head, payload bytes), optional
        What every packet of a head holds; random if not given.
    packets : int, optional
        Packets of each head; until stopped if not given.
    rate : float
        Packets a second of all heads together; 0: no limit.
    first : int
        Timestamp of the first packets.
    cores : sequence of int
        Core that the thread runs on.
    """

    def __init__(
        self,
        sink: Sink,
        plan: Plan,
        *,
        payloads: NDArray[np.uint8] | None = None,
        packets: int | None = None,
        rate: float = 0.0,
        first: int = 0,
        cores: Sequence[int] = (),
    ) -> None:
        if plan.by_port:
            raise ValueError("a synthetic source has no ports; use a plan without by_port")
        f = laid_out(plan.format)
        if f.heap is not None:
            raise ValueError(f"{f.name} has heaps of several packets; a synthetic source makes packets that are all")
        if payloads is None:
            payloads = np.random.default_rng(0).integers(0, 256, (len(plan.heads), plan.payload_bytes), np.uint8)
        sizes = {s: plan.sizes[s] for s in f.payload.size.values() if isinstance(s, str)}
        counters = dict.fromkeys(terms(f.timestamp.count), 0)
        heads = [
            build(f, {**sizes, **counters, **dict(zip(f.timestamp.stream, head, strict=True))}, payload.tobytes())
            for head, payload in zip(plan.heads, payloads, strict=True)
        ]
        self._native = _native.synthetic_source(
            sink.native,
            compiled(f),
            heads,
            first,
            plan.step,
            -1 if packets is None else packets,
            rate,
            list(cores),
        )
