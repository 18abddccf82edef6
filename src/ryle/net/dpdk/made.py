"""Made packets: a thread that sends them at a set pace, and a device that seems to receive them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from .buffers import Pool
from .device import Device
from .environment import native
from .frames import Stamp


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
        Fields that count (`ryle.net.dpdk.frames.counting`).
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
