"""Made packets: sent by `ryle.send.sender`, or by a thread that only counts, or seemingly received by a device.

`way_out` lets the sender of all formats (``Sender(sending, way_out(device, pool))``) send through DPDK. `Generator` and
`Emulation` make packets of one header in which fields count, at less cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ryle.receive.dpdk.buffers import Pool
from ryle.receive.dpdk.device import Device
from ryle.receive.dpdk.environment import native
from ryle.receive.dpdk.frames import Path, Stamp
from ryle.send.sending import Plan


class Generator:
    """Send frames from a thread: a header in which fields count, then whatever lies in the buffer.

    Parameters
    ----------
    device : Device
        Sends them.
    pool : Pool
        Their buffers; `Pool.fill` says what payloads hold.
    header : bytes
        Ethernet header to the end of the format's header.
    stamps : sequence of Stamp
        Fields that count (`ryle.receive.dpdk.frames.counting`).
    payload_bytes : int
        Bytes behind the header.
    queue, core : int
        Transmit queue; core of the thread, -1: any.
    rate : float
        Packets a second; 0: as fast as it goes.
    count : int
        Packets in all; 0: until stopped.
    wait : bool
        Try again what the device does not take; otherwise it is dropped and counted, as in a network.
    """

    def __init__(
        self,
        device: Device,
        pool: Pool,
        header: bytes,
        stamps: Sequence[Stamp],
        payload_bytes: int,
        *,
        queue: int = 0,
        core: int = -1,
        rate: float = 0.0,
        count: int = 0,
        wait: bool = True,
    ) -> None:
        self._native = native().Generator(
            device.native, queue, core, pool.native, header, list(stamps), payload_bytes, rate, count, wait
        )

    def start(self) -> None:
        """Begin to send."""
        self._native.start()

    def stop(self) -> None:
        """End, and wait for the thread."""
        self._native.stop()

    @property
    def running(self) -> bool:
        """Whether it still sends."""
        return bool(self._native.running)

    @property
    def sent(self) -> int:
        """Packets that the device took."""
        return int(self._native.sent)

    @property
    def dropped(self) -> int:
        """Packets that it did not take."""
        return int(self._native.dropped)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Emulation:
    """Let a ``net_null`` device receive made packets: it takes buffers as an interface does, headers are written here.

    Parameters
    ----------
    device : Device
        A ``net_null`` device, of which nothing is received yet; its pool holds whole packets, or headers if `payloads`
        is given.
    header, stamps, payload_bytes, rate, count :
        As for `Generator`.
    payloads : Pool, optional
        Split packets as a device would that can: payloads, untouched, come from here.
    """

    def __init__(
        self,
        device: Device,
        header: bytes,
        stamps: Sequence[Stamp],
        payload_bytes: int,
        *,
        queue: int = 0,
        payloads: Pool | None = None,
        rate: float = 0.0,
        count: int = 0,
    ) -> None:
        pool = payloads.native if payloads is not None else None
        self._native = native().Emulation(device.native, queue, pool, header, list(stamps), payload_bytes, rate, count)

    @property
    def made(self) -> int:
        """Packets received."""
        return int(self._native.made)

    @property
    def no_buffer(self) -> int:
        """Packets lost because there was no buffer for them."""
        return int(self._native.no_buffer)


def way_out(
    device: Device, pool: Pool, *, source_mac: str = "", target_mac: str = "", burst: int = 32
) -> Callable[[Plan, int], Any]:
    """Let `ryle.engines.send.Sender` send through a device: thread i through transmit queue i.

    Parameters
    ----------
    device : Device
        With a transmit queue for each thread.
    pool : Pool
        Buffers; they come back as the device has sent them.
    source_mac, target_mac : str
        Ethernet addresses: the device's own if absent, and that of the receiver or of the next router. Without one,
        unicast frames are broadcast: nobody is asked by ARP.
    burst : int
        Packets made at once.
    """

    def make(plan: Plan, thread: int) -> Any:
        headers = []
        for stream in plan.streams:
            here = stream.sender.host if stream.sender else "0.0.0.0"
            path = Path(
                source_mac or device.address,
                target_mac,
                here,
                stream.to.host,
                stream.sender.port if stream.sender else 17000,
                stream.to.port,
            )
            headers.append(path.headers(0))
        most = plan.sources[thread].most_bytes
        return native().SendPort(device.native, thread, pool.native, headers, most, max(burst, plan.burst))

    return make
