"""Where packets come from: sockets, packet rings, captures, memory. All of them feed an `Assembler` or a `Discard`.

A source has native threads; Python only starts, stops and watches it. ``docs/explanation/assembly.md`` says which to
choose.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from ryle.config.tables import Endpoint

from . import _native
from .assembly import Assembler
from .sockets import receive_socket


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()


class UdpSource(NativeSource):
    """Receive from UDP sockets.

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
                s = receive_socket(endpoints[port], interface, buffer, shared=shared)
                opened.append(s)
                dealt[i % threads].append((s.fileno(), port))
            self._native = _native.udp_source(sink.native, dealt, gro, largest, list(cores))
        finally:
            for s in opened:  # the threads have their own descriptors
                s.close()
