"""Which streams of a format arrive: for receivers that were not told."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ryle.config.endpoints import Endpoint
from ryle.receive.sockets import receive_socket
from ryle.wire.description import Format
from ryle.wire.packets import Parser

_LARGEST = 65536
_BATCH = 256


@dataclass(frozen=True)
class Heard:
    """What arrives.

    Parameters
    ----------
    heads : tuple of tuple of int
        Values of the fields that tell streams apart, sorted, as `ryle.receive.assembly.Plan.heads`.
    sizes : dict of str to int
        Values of the fields that say how large packets are, from the first packet.
    part : int
        Most bytes of samples in a packet: what heaps of several packets are cut into.
    """

    heads: tuple[tuple[int, ...], ...]
    sizes: dict[str, int]
    part: int


def discover(
    format: Format,
    endpoints: Sequence[Endpoint],
    interface: str = "127.0.0.1",
    seconds: float = 1.0,
    stop: Callable[[], bool] = lambda: False,
) -> Heard:
    """Listen for a while, from the first valid packet on, and say what came.

    Parameters
    ----------
    format : Format
        Only its packets count.
    endpoints : sequence of Endpoint
        Where to listen.
    interface : str
        Address of the interface on which to join multicast groups.
    seconds : float
        How long after the first packet.
    stop : callable
        Ends it early when it gives True.

    Returns
    -------
    Heard
        Empty if nothing valid came until it was told to stop.
    """
    parser = Parser(format)
    fields = format.timestamp.stream
    sizing = [s for s in format.payload.size.values() if isinstance(s, str)]
    heads: set[tuple[int, ...]] = set()
    sizes: dict[str, int] = {}
    part = 0
    opened: list[socket.socket] = []
    try:
        for endpoint in endpoints:
            opened.append(receive_socket(endpoint, interface, 4 << 20))
            opened[-1].setblocking(False)
        end: float | None = None
        while (end is None or time.monotonic() < end) and not stop():
            ready, _, _ = select.select(opened, [], [], 0.1)
            packets = [p for s in ready for p in _received(s)]
            if not packets:
                continue
            found = parser.parse(packets)
            valid = found.header[found.valid]
            if not len(valid):
                continue
            part = max(part, int(found.bytes[found.valid].max()))
            end = time.monotonic() + seconds if end is None else end
            heads |= (
                {tuple(int(row[name]) for name in fields) for row in np.unique(valid[list(fields)])} if fields else {()}
            )
            sizes = sizes or {name: int(valid[0][name]) for name in sizing}
    finally:
        for s in opened:
            s.close()
    return Heard(tuple(sorted(heads)), sizes, part)


def _received(s: socket.socket) -> list[bytes]:
    packets = []
    for _ in range(_BATCH):
        try:
            packets.append(s.recv(_LARGEST))
        except BlockingIOError:
            break
    return packets
