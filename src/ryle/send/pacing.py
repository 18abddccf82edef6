"""Back-pressure between processes of one host: a sender at full speed waits for receivers to empty their sockets.

UDP has no flow control, and a laptop's socket buffers hold some tens of packets. The kernel shows how full each local
socket is, so a sender without a rate of its own can go as fast as its receivers take the packets, and no faster.
"""

from __future__ import annotations

import ipaddress
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ryle.config.endpoints import Endpoint

T = TypeVar("T")
#: Payload bytes sent to one endpoint between two looks at its socket.
BURST = 32 << 10
#: Fill of a socket, as the kernel counts, up to which a burst is sent.
ROOM = 64 << 10


class LocalQueues:
    """How full the sockets of this host are that receive at some endpoints.

    Parameters
    ----------
    endpoints : sequence of Endpoint
        Where the packets go; those that no socket of this host receives at are never waited for.
    """

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._wanted = {_kernel_name(e) for e in endpoints}

    def fill(self) -> int:
        """Bytes in the fullest of the sockets, as the kernel counts them (bookkeeping included)."""
        most = 0
        for table in ("/proc/net/udp", "/proc/net/udp6"):
            try:
                lines = Path(table).read_bytes().splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                words = line.split(None, 5)
                if words[1] in self._wanted:
                    most = max(most, int(words[4].split(b":")[1], 16))
        return most

    def wait(self, patience: float = 10.0) -> None:
        """Wait until every socket has room, at most `patience` seconds: a dead receiver must not stop all."""
        deadline = time.monotonic() + patience
        while self.fill() > ROOM and time.monotonic() < deadline:
            time.sleep(0.0005)

    def portions(self, heaps: list[T], heap_bytes: int, per_endpoint: int) -> Iterator[list[T]]:
        """Cut `heaps` into runs that fit a burst, and wait before each.

        Parameters
        ----------
        heaps : list
            In the order of sending, endpoints taking turns.
        heap_bytes : int
            Payload of one heap.
        per_endpoint : int
            Heaps of the sequence for each one that any endpoint gets: the number of endpoints that take turns.
        """
        count = max(1, BURST // heap_bytes) * per_endpoint
        for i in range(0, len(heaps), count):
            self.wait()
            yield heaps[i : i + count]


def _kernel_name(endpoint: Endpoint) -> bytes:
    """Address and port as /proc/net/udp writes them: 32-bit words of the address in host order, in hexadecimal."""
    packed = ipaddress.ip_address(endpoint.host).packed
    order = "<" if sys.byteorder == "little" else ">"
    words = struct.unpack(f"{order}{len(packed) // 4}I", packed)
    return ("".join(f"{w:08X}" for w in words) + f":{endpoint.port:04X}").encode()
