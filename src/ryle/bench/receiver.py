"""Processes that receive, and a sender to each on the same machine: what is lost at a rate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ryle.bench.harness import Child
from ryle.bench.lossless import Trial
from ryle.config import Endpoint
from ryle.host_time import TimeTaken
from ryle.send.sender import Sender
from ryle.send.sending import Sending
from ryle.wire.description import Format

_QUIET = 0.3  # s after which what was sent has been received or lost
_FIRST_LOOK, _LOOK = 2.0, 0.5  # s into an attempt, and between looks


class Receiver:
    """Children that receive, and a sender to each of them.

    Parameters
    ----------
    children : sequence of Child
        Each says when it is ready; its "figures" say how many packets it has ``placed``.
    format : Format
        Of the packets.
    ports : sequence of sequence of int
        Where packets for each child are sent to, of this machine.
    sources : int
        Streams to each port.
    threads, cores : int, sequence of int
        That send, to each child.
    """

    def __init__(
        self,
        children: Sequence[Child],
        format: Format,
        ports: Sequence[Sequence[int]],
        sources: int,
        threads: int = 1,
        cores: Sequence[int] = (),
    ) -> None:
        self.children = children
        for child in children:
            child.answer()
        self._to = [[Endpoint(host="127.0.0.1", port=port) for port in each] for each in ports]
        self._format, self._sources, self._threads, self._cores = format, sources, threads, cores
        self._start = 0
        #: First time stamp of the last trial, and when it was to be sent, on the clock that never steps.
        self.began = 0, 0.0

    def trial(self, gbps: float, seconds: float) -> Trial:
        """Send to each child at a rate for some seconds; count what was not placed.

        Returns
        -------
        Trial
            Packets of all children; the rate offered is the lowest.
        """
        return self._trial(gbps, seconds, to_the_end=True)

    def attempt(self, gbps: float, seconds: float) -> Trial:
        """Make a trial, but end it when so much is missing that the rest cannot matter: for searches."""
        return self._trial(gbps, seconds, to_the_end=False)

    def _trial(self, gbps: float, seconds: float, to_the_end: bool) -> Trial:
        before = self.placed()
        taken = TimeTaken([child.pid for child in self.children])
        senders = [self._sender(to, gbps, seconds) for to in self._to]
        self.began = self._start, time.monotonic()
        for sender in senders:
            sender.start()
        look = self.began[1] + _FIRST_LOOK
        while not to_the_end and any(sender.running for sender in senders):
            time.sleep(_LOOK / 10)
            if time.monotonic() > look:
                look += _LOOK
                if self._so_far(gbps, senders, before, taken).hopeless(seconds):
                    for sender in senders:
                        sender.stop()
        for sender in senders:
            sender.join()
        found = self._so_far(gbps, senders, before, taken)
        ended, missing = time.monotonic(), found.lost
        last = ended
        while time.monotonic() - last < _QUIET:
            time.sleep(_QUIET / 10)
            if (now := found.sent - (self.placed() - before)) != missing:
                missing, last = now, time.monotonic()
        packets = zip((sender.progress().packets for sender in senders), self._to, strict=True)
        per_stream = max(-(-n // (self._sources * len(to))) for n, to in packets)
        self._start += per_stream * self._format.timestamp.step  # no jump, which would be a clock set anew
        return replace(found, lost=missing, behind=last - ended)

    def _so_far(self, gbps: float, senders: Sequence[Sender], before: int, taken: TimeTaken) -> Trial:
        """Give what a trial is at a moment of it; what is on its way counts as lost."""
        done = [sender.progress() for sender in senders]
        sent = sum(d.packets for d in done)
        return Trial(
            asked=gbps,
            offered=min(d.bytes * 8e-9 / max(d.seconds, 1e-9) for d in done),
            seconds=max(d.seconds for d in done),
            sent=sent,
            lost=sent - (self.placed() - before),
            stolen=taken.stolen,
            others=taken.others,
            longest=taken.longest,
        )

    def _sender(self, to: list[Endpoint], gbps: float, seconds: float) -> Sender:
        return Sender(
            Sending(
                to=to,
                format=self._format,
                sources=self._sources,
                gbps=gbps,
                seconds=seconds,
                start=self._start,
                threads=self._threads,
                cores=self._cores,
            )
        )

    def placed(self) -> int:
        """Ask how many packets have been placed, by all children."""
        return sum(int(figures["placed"] or 0) for figures in self.figures())

    def figures(self) -> list[dict[str, Any]]:
        """Ask for all that the children say of themselves."""
        for child in self.children:
            child.ask("figures")
        return [child.answer() for child in self.children]

    def close(self) -> None:
        """End the children."""
        for child in self.children:
            child.close()
