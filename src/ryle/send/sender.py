"""A paced packet sender: what `Sending` asks for, from threads of native code, with an exact account at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ryle.host_time import stolen_seconds
from ryle.receive import _native
from ryle.send.departure import keeper
from ryle.send.sending import FATES, Plan, Sending, plan
from ryle.send.streams import SendStream


@dataclass(frozen=True)
class Progress:
    """How far a sender is.

    Parameters
    ----------
    seconds : float
        Since the first packet was due; until the last had left when it has ended.
    packets, bytes : int
        Handed to the kernel or driver; UDP payload.
    calls : int
        Calls of the kernel or driver.
    full : int
        Times that the way out was full and a thread waited.
    unreachable : int
        Answers that nobody receives there.
    behind, most_behind : float
        By how many s the last packets, and the worst so far, left later than they were due.
    busy : float
        Share of their time in which the threads did not wait until packets were due, the busiest one's.
    """

    seconds: float
    packets: int
    bytes: int
    calls: int
    full: int
    unreachable: int
    behind: float
    most_behind: float
    busy: float


class Sender:
    """Send.

    Parameters
    ----------
    sending : Sending
        What, where to, how fast.
    way_out : callable, optional
        Makes the way out of a thread from the plan and the thread's number, in place of UDP sockets
        (`ryle.send.dpdk.way_out`).

    Attributes
    ----------
    plan : Plan
        All that was settled.
    pacing : str
        What makes packets leave when they are due.

    Raises
    ------
    ValueError
        If that cannot be sent.
    OSError
        If a socket cannot be had.
    """

    def __init__(self, sending: Sending, way_out: Callable[[Plan, int], _native.Port] | None = None) -> None:
        self.sending = sending
        self.plan: Plan = plan(sending)
        paced = self.plan.rate > 0 or (sending.recording is not None and sending.speed > 0)
        holds = (
            {keeper(x.to) for x in self.plan.streams}
            if paced and sending.departure is not False and not way_out
            else {""}
        )
        if sending.departure and holds == {""}:
            raise ValueError(
                "nothing holds packets until they are due on this way; 'tc qdisc replace dev NAME root fq' does, if "
                "the kernel has it, or leave out --departure"
            )
        held = "" not in holds
        self.pacing = (
            f"departure times, held by {', '.join(sorted(holds))}"
            if held
            else "clock of each thread: sleep, the last 60 us busy"
            if paced
            else "none"
        )
        self._threads = _native.SendThreads()
        self._ports = []
        for thread, source in enumerate(self.plan.sources):
            port = way_out(self.plan, thread) if way_out is not None else self._sockets(source, held)
            core = sending.cores[thread % len(sending.cores)] if sending.cores else -1
            self._threads.add(source, port, core, sending.realtime)
            self._ports.append(port)
        self._stolen = 0.0
        self._ended: float | None = None

    def _sockets(self, source: _native.PacketSource, held: bool) -> _native.SocketPort:
        """Open the sockets of a thread's own streams."""
        s, mine = self.sending, set(source.streams)
        routes = [_route(x) if i in mine else ("", 0, "", 0) for i, x in enumerate(self.plan.streams)]
        return _native.SocketPort(routes, source.most_bytes, self.plan.burst, s.segment, held, s.buffer, s.ttl)

    def start(self) -> None:
        """Begin."""
        self._stolen = stolen_seconds()
        self._threads.start(self.plan.until)

    def stop(self) -> None:
        """Begin no more packets; those held back still go out."""
        self._threads.stop()

    @property
    def running(self) -> bool:
        """Whether packets are still being sent."""
        return self._threads.running

    def join(self) -> None:
        """Wait until the last packet has left.

        Raises
        ------
        OSError
            If a packet could not be sent: why, and what to do.
        """
        self._threads.join()
        self._stolen = stolen_seconds() - self._stolen if self._ended is None else self._stolen
        self._ended = self._threads.elapsed
        code, message = self._threads.error()
        if code:
            raise OSError(code, message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._threads.join()

    def progress(self) -> Progress:
        """Say how far it is; from any thread."""
        parts = self._threads.parts()
        elapsed = max(self._threads.elapsed, 1e-9)
        finished = [p["finished_ns"] * 1e-9 or elapsed for p in parts]
        seconds = max(finished)
        return Progress(
            seconds=seconds,
            packets=sum(p["packets"] for p in parts),
            bytes=sum(p["bytes"] for p in parts),
            calls=sum(p["calls"] for p in parts),
            full=sum(p["full"] for p in parts),
            unreachable=sum(p["unreachable"] for p in parts),
            behind=max(p["behind_ns"] for p in parts) * 1e-9,
            most_behind=max(p["most_behind_ns"] for p in parts) * 1e-9,
            busy=max(1 - p["waited_ns"] * 1e-9 / max(end, 1e-9) for p, end in zip(parts, finished, strict=True)),
        )

    def counts(self) -> NDArray[np.int64]:
        """Packets of each stream by fate, then packets and bytes handed to the port; shape (stream, 13)."""
        table = np.zeros((len(self.plan.streams), len(FATES) + 2), np.int64)
        for source in self.plan.sources:
            rows = np.zeros((len(source.streams), table.shape[1]), np.int64)
            source.counts_into(rows)
            table[source.streams] = rows
        return table

    @property
    def segments(self) -> bool:
        """Whether the kernel is given many packets at once, for it or the card to cut."""
        return all(getattr(port, "segments", False) for port in self._ports)

    @property
    def stolen(self) -> float:
        """Seconds of CPU time that the host took away meanwhile, of all cores; after `join`."""
        return self._stolen


def _route(x: SendStream) -> tuple[str, int, str, int]:
    return x.to.host, x.to.port, x.sender.host if x.sender else "", x.sender.port if x.sender else 0
