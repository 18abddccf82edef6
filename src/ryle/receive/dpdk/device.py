"""A network device of DPDK's: queues, steering, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ryle.receive.dpdk.buffers import Pool
from ryle.receive.dpdk.environment import native


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """What a device counts; virtual ones do not know all of it and say 0.

    Parameters
    ----------
    received, received_bytes, sent, sent_bytes : int
        Frames and their bytes.
    missed : int
        Frames dropped because a queue was full.
    errors, send_errors : int
        Frames that were broken, or that could not be sent.
    no_buffer : int
        Times, or frames, for which the pool had no buffer.
    """

    received: int
    received_bytes: int
    missed: int
    errors: int
    no_buffer: int
    sent: int
    sent_bytes: int
    send_errors: int


class Device:
    """Take a device and set up its queues. It is given back when nobody uses it any more.

    Parameters
    ----------
    name : str
        PCI address of a network interface that `DpdkConfig.devices` lists, or a virtual device with its arguments:
        ``"net_ring0"`` (what is sent is received), ``"net_memif0,role=server,id=0,bsize=9216"``,
        ``"net_pcap0,rx_pcap=file"``, ``"net_null0"``, ``"net_af_packet0,iface=eth1"``.
    pools : sequence of Pool
        One a receive queue. A queue has a pool of its own unless its packets are copied at once.
    headers : sequence of Pool
        One a queue: split packets, the first `header_bytes` bytes to these and the rest to `pools`. For devices that
        can (mlx5, ice, bnxt).
    tx_queues : int
        Transmit queues.
    descriptors : int
        Packets that a queue holds.
    mtu : int
        Longest packet; devices with less get their most.
    promiscuous : bool
        Receive packets to other Ethernet addresses too.

    Raises
    ------
    ryle.receive._dpdk.DpdkError
        If there is no such device, or it cannot do this. The message ends with what DPDK says.
    """

    def __init__(
        self,
        name: str,
        pools: Sequence[Pool],
        *,
        headers: Sequence[Pool] = (),
        header_bytes: int = 0,
        tx_queues: int = 1,
        descriptors: int = 1024,
        mtu: int = 9000,
        promiscuous: bool = True,
    ) -> None:
        self.name = name
        self.pools = list(pools)
        self.descriptors = descriptors
        #: How packets come to queues; see `steer`.
        self.steering = "software"
        self.native = native().Port(
            name,
            [pool.native for pool in pools],
            [pool.native for pool in headers],
            header_bytes,
            tx_queues,
            descriptors,
            mtu,
            promiscuous,
        )

    @property
    def driver(self) -> str:
        """Name of its driver."""
        return str(self.native.driver)

    @property
    def address(self) -> str:
        """Its Ethernet address."""
        return str(self.native.address)

    @property
    def up(self) -> bool:
        """Whether it is connected."""
        return bool(self.native.up)

    def steer(self, ports: Mapping[int, int]) -> str:
        """Bring packets to UDP ports to queues, before anything is received.

        Parameters
        ----------
        ports : mapping of int to int
            Queue of each UDP port.

        Returns
        -------
        str
            "isolated": the device brings nothing else, and does not count it. "flows": the rest arrives too, in any
            queue. "software": the device has no such rules; packets arrive in any queue, and each source counts those
            that are not for it as foreign.
        """
        self.steering = str(self.native.steer(list(ports.items())))
        return self.steering

    def begin(self) -> None:
        """Switch it on, if it is not: sources and senders do so as well. Virtual devices connect then."""
        self.native.begin()

    def stats(self) -> DeviceStats:
        """Read its counters."""
        return DeviceStats(**self.native.stats())

    def send(self, frames: Sequence[bytes], pool: Pool, queue: int = 0) -> int:
        """Send whole frames, each copied into a buffer of the pool; how many the device took."""
        return int(native().send(self.native, queue, pool.native, list(frames)))
