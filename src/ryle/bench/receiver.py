"""A process that receives, and a sender to it on the same machine: what is lost at a rate."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ryle.bench.harness import Child
from ryle.bench.lossless import Trial, taken_seconds, used_seconds
from ryle.config import Endpoint
from ryle.send.sender import Sender
from ryle.send.sending import Sending
from ryle.wire.description import Format

_QUIET = 0.3  # s after which what was sent has been received or lost


class Receiver:
    """A child that receives, and a sender to it.

    Parameters
    ----------
    child : Child
        Says when it is ready; its "figures" say how many packets it has ``placed``.
    format : Format
        Of the packets.
    ports : sequence of int
        Where they are sent to, of this machine.
    sources : int
        Streams to each port.
    threads, cores : int, sequence of int
        That send.
    """

    def __init__(
        self,
        child: Child,
        format: Format,
        ports: Sequence[int],
        sources: int,
        threads: int = 1,
        cores: Sequence[int] = (),
    ) -> None:
        self.child = child
        child.answer()
        self._to = [Endpoint(host="127.0.0.1", port=port) for port in ports]
        self._format, self._sources, self._threads, self._cores = format, sources, threads, cores
        self._start = 0
        #: First time stamp of the last trial, and when it was to be sent, on the clock that never steps.
        self.began = 0, 0.0

    def trial(self, gbps: float, seconds: float) -> Trial:
        """Send at a rate for some seconds; count what was not placed."""
        before = self.placed()
        before_it = self._disturbed()
        sender = Sender(
            Sending(
                to=self._to,
                format=self._format,
                sources=self._sources,
                gbps=gbps,
                seconds=seconds,
                start=self._start,
                threads=self._threads,
                cores=self._cores,
            )
        )
        self.began = self._start, time.monotonic()
        sender.start()
        sender.join()
        done = sender.progress()
        stolen, others = (now - then for now, then in zip(self._disturbed(), before_it, strict=True))
        placed, ended = self.placed(), time.monotonic()
        last = ended
        while time.monotonic() - last < _QUIET:
            time.sleep(_QUIET / 10)
            if (now := self.placed()) != placed:
                placed, last = now, time.monotonic()
        per_stream = -(-done.packets // (self._sources * len(self._to)))
        self._start += per_stream * self._format.timestamp.step  # no jump, which would be a clock set anew
        return Trial(
            asked=gbps,
            offered=done.bytes * 8e-9 / max(done.seconds, 1e-9),
            seconds=done.seconds,
            sent=done.packets,
            lost=done.packets - (placed - before),
            stolen=stolen,
            others=others,
            behind=last - ended,
        )

    def _disturbed(self) -> tuple[float, float]:
        """Processor time that the host took away, and that others than the two processes used, s."""
        stolen, others = taken_seconds()
        return stolen, others - used_seconds(self.child.pid)

    def placed(self) -> int:
        """Ask how many packets have been placed."""
        self.child.ask("figures")
        return int(self.child.answer()["placed"] or 0)

    def close(self) -> None:
        """End the child."""
        self.child.close()
