"""Senders and captures side by side on one machine, over loopback: what one trial of a rate is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ryle.bench.lossless import Trial
from ryle.config.endpoints import Endpoint
from ryle.engines.capture import Capture, CaptureOptions, To
from ryle.gpu import Gpu, open_gpu
from ryle.host_time import TimeTaken
from ryle.receive.assembly import Plan, grid
from ryle.receive.packet_ring import RingSource
from ryle.receive.sources import Discard, Source
from ryle.receive.udp import UdpSource
from ryle.send.sender import Sender
from ryle.send.sending import Sending
from ryle.wire.description import Format

_CHUNK_BYTES = 4 << 20
_CHUNKS = 12
_QUIET = 0.3  # s without packets, after the sender has ended, after which a receiver is stopped
_PATIENCE = 30.0


@dataclass(frozen=True)
class Way:
    """How packets are received.

    Parameters
    ----------
    name : str
        What it is called.
    source : str
        "gro", "plain" (recvmmsg) or "ring" (AF_PACKET).
    assemble : bool
        Whether packets are put in their places or discarded.
    """

    name: str
    source: str = "gro"
    assemble: bool = True


#: Every way to receive that needs no more than the operating system.
WAYS = (
    Way("UDP_GRO, discarded", "gro", False),
    Way("UDP_GRO, assembled", "gro"),
    Way("recvmmsg, discarded", "plain", False),
    Way("recvmmsg, assembled", "plain"),
    Way("packet ring, assembled", "ring"),
)


class Link:
    """Instances of a sender and a receiver, each pair with a port, sockets, a ring and threads of its own.

    Parameters
    ----------
    format : Format
        Of the packets.
    sources : int
        Streams of each instance; as many values of the format's first stream field.
    instances : int
        Pairs.
    way : Way
        How they receive.
    to : To
        What becomes of chunks: `To.NULL` or `To.GPU`.
    gpus : tuple of int
        Of `To.GPU`.
    buffer : int
        Bytes of each socket's buffer.
    """

    def __init__(
        self,
        format: Format,
        *,
        sources: int = 1,
        instances: int = 1,
        way: Way = WAYS[1],
        to: To = To.NULL,
        gpus: tuple[int, ...] = (0,),
        buffer: int = 64 << 20,
        open_device: Callable[[int], Gpu] = open_gpu,
    ) -> None:
        fields = {name: [0] for name in format.timestamp.stream}
        if fields:
            fields[next(iter(fields))] = list(range(sources))
        one = Plan(format, grid(format, **fields), 1)
        packets = max(1, _CHUNK_BYTES // (len(one.heads) * one.payload_bytes))
        step = format.timestamp.step
        skew = 256 * step if len(one.heads) > 1 else 0
        self._plan = Plan(format, one.heads, packets, _CHUNKS, window=32 * step, skew=skew, linger=0.2)
        self._format, self._sources, self._way, self._buffer = format, len(one.heads), way, buffer
        self._options = CaptureOptions(to=to, gpus=gpus, warm_up=0.0)
        self._open_device = open_device
        self._ports = free_ports(instances)
        self.packet_bytes = self._plan.packet_bytes

    def trial(self, gbps: float, seconds: float) -> Trial:
        """Send at a rate, all instances together, for some seconds; count what was lost.

        Raises
        ------
        RuntimeError
            If a receiver did not start or end.
        """
        with ExitStack() as receiving:
            return self._trial(gbps, seconds, [receiving.enter_context(self._receiver(port)) for port in self._ports])

    def _trial(self, gbps: float, seconds: float, receivers: Sequence[Callable[[], int]]) -> Trial:
        share = gbps / len(self._ports)
        senders = [
            Sender(
                Sending(
                    to=[Endpoint(host="127.0.0.1", port=port)],
                    format=self._format,
                    sources=self._sources,
                    gbps=share,
                    seconds=seconds,
                )
            )
            for port in self._ports
        ]
        taken = TimeTaken()
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        placed = sum(receiver() for receiver in receivers)
        progress = [sender.progress() for sender in senders]
        sent = sum(p.packets for p in progress)
        return Trial(
            asked=gbps,
            offered=sum(p.bytes * 8e-9 / max(p.seconds, 1e-9) for p in progress),
            seconds=max(p.seconds for p in progress),
            sent=sent,
            lost=sent - placed,
            stolen=taken.stolen,
            others=taken.others,
            longest=taken.longest,
        )

    def _source(self, sink: Any, port: int) -> Source:
        endpoint = [Endpoint(host="127.0.0.1", port=port)]
        if self._way.source == "ring":
            return RingSource(sink, endpoint, interface="lo", buffer=self._buffer)
        return UdpSource(sink, endpoint, buffer=self._buffer, gro=self._way.source == "gro")

    def _receiver(self, port: int) -> AbstractContextManager[Callable[[], int]]:
        """Receive; gives what waits for the end and says how many packets there were."""
        return self._capturing(port) if self._way.assemble else self._discarding(port)

    @contextmanager
    def _capturing(self, port: int) -> Iterator[Callable[[], int]]:
        waiting = threading.Event()
        found: dict[str, Any] = {}

        def state(now: str) -> None:
            if now == "waiting":
                waiting.set()

        capture = Capture(self._plan, self._options, lambda sink: self._source(sink, port), (), self._open_device)
        capture.state = state

        def run() -> None:
            try:
                found.update(capture.run(None))
            except BaseException as error:
                found["error"] = error
            waiting.set()

        def finish() -> int:
            _until_quiet(lambda: int(capture.metrics.values()["packets"] or 0))
            capture.stop()
            thread.join(_PATIENCE)
            if thread.is_alive():
                raise RuntimeError("a capture did not end")
            if "error" in found:
                raise found["error"]
            return int(found["account"]["placed"])

        thread = threading.Thread(target=run, name="capture", daemon=True)
        thread.start()
        try:
            if not waiting.wait(_PATIENCE):
                raise RuntimeError("a capture did not begin")
            yield finish
        finally:  # also where another one, or a sender, failed
            capture.stop()
            thread.join(_PATIENCE)

    @contextmanager
    def _discarding(self, port: int) -> Iterator[Callable[[], int]]:
        sink = Discard()
        source = self._source(sink, port)

        def finish() -> int:
            _until_quiet(lambda: sink.packets)
            source.stop()
            source.join()
            return sink.packets

        source.start()
        try:
            yield finish
        finally:
            source.stop()
            source.join()


def _until_quiet(packets: Callable[[], int]) -> None:
    """Wait until no more packets come."""
    before = -1
    while before != (now := packets()):
        before = now
        time.sleep(_QUIET)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody has."""
    opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for s in opened:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in opened]
    for s in opened:
        s.close()
    return ports
