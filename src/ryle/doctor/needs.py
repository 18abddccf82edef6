"""What an observation wants of the machine that its engines run on; without one, what any correlator wants."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from ryle.config import Observation, rates
from ryle.config.observation import Engine
from ryle.engines.budget import NAMES, plans
from ryle.engines.gpus import gpu_numbers
from ryle.receive.dpdk.pools import dpdk_bytes, pool_bytes
from ryle.receive.entrance import largest_packet
from ryle.receive.receiving import frame_bytes

#: Without an observation: the buffer that is asked for if no file says otherwise, and packets in jumbo frames.
_BUFFER, _DATAGRAM = 64 << 20, 9000
#: What a sender asks for (native/send/socket.h).
SEND_BUFFER = 8 << 20


@dataclass(frozen=True)
class Needs:
    """What engines want.

    Attributes
    ----------
    socket_buffer : int
        Bytes of the largest buffer of a receiving socket; 0: none receives by sockets.
    sockets : int
        How many there are in all engines.
    most_sockets : int
        How many the engine with most of them has.
    datagram : int
        Bytes of the largest IP packet.
    interface : str or None
        Address of the interface that packets come by and go by; None: whatever cards there are.
    devices : tuple of str
        Names of interfaces that are read below the network stack.
    dpdk : tuple of str
        PCI addresses that DPDK is to take.
    huge_bytes : int
        Bytes of huge pages that DPDK is to have.
    bits : float
        That come by the interface a second, on the wire.
    multicast : bool
        Whether groups are received.
    hosts : tuple of str
        Others that are sent to, each by its own address.
    receiving, cores : tuple of int
        Cores that receive, and all that engines are to run on; none: anywhere.
    gpus : tuple of int
        GPUs, in the order of CUDA; None: whatever there is.
    shared_gpus : bool
        Whether several engines use one GPU.
    window : int
        Bytes of a GPU's memory that a card is to write to.
    """

    socket_buffer: int = _BUFFER
    sockets: int = 1
    most_sockets: int = 1
    datagram: int = _DATAGRAM
    interface: str | None = None
    devices: tuple[str, ...] = ()
    dpdk: tuple[str, ...] = ()
    huge_bytes: int = 0
    bits: float = 0.0
    multicast: bool = True
    hosts: tuple[str, ...] = ()
    receiving: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    gpus: tuple[int, ...] | None = None
    shared_gpus: bool = False
    window: int = 0

    @classmethod
    def of(cls, o: Observation, engines: Sequence[tuple[Engine, int]] = ()) -> Needs:
        """Say what an observation wants of the machine on which some of its engines run; all, if none is named."""
        engines = engines or [(engine, i) for engine, count in o.engines.items() for i in range(count)]
        how = {each: o.receive(*each) for each in engines}
        ends = {each: o.engine_endpoints(*each) for each in engines}
        sockets = [each for each in engines if how[each].by == "udp"]
        dpdk = [each for each in engines if how[each].by == "dpdk"]
        gpus = [number for engine, i in engines for number in gpu_numbers(o, engine, i)]
        every = [end for each in engines for end in ends[each]]
        outside = [end for end in every if not ipaddress.ip_address(end.host).is_loopback]
        pools = [_pools(o, *each, len({end.port for end in ends[each]})) for each in dpdk]
        return cls(
            socket_buffer=max((how[each].buffer or 0 for each in sockets), default=0),
            sockets=sum(len(ends[each]) for each in sockets),
            most_sockets=max((len(ends[each]) for each in sockets), default=0),
            datagram=max(link.datagram for link in rates.links(o)) if outside else 0,
            interface=_own_address(o),
            devices=tuple(dict.fromkeys(r.device for r in how.values() if r.by == "packet_ring")),
            dpdk=tuple(dict.fromkeys(how[each].device.split(",")[0] for each in dpdk)),
            huge_bytes=sum(huge for huge, _ in pools),
            bits=sum(_incoming(o, engine) for engine, _ in engines) if outside else 0.0,
            multicast=any(end.multicast for end in outside),
            hosts=tuple(dict.fromkeys(end.host for end in outside if not end.multicast)),
            receiving=tuple(dict.fromkeys(core for r in how.values() for core in r.cores)),
            cores=tuple(dict.fromkeys(core for each in engines for core in o.engine_cores(*each))),
            gpus=tuple(dict.fromkeys(gpus)),
            shared_gpus=len(set(gpus)) < len(gpus),
            window=max((window for _, window in pools), default=0),
        )


def _incoming(o: Observation, engine: Engine) -> float:
    """Give what comes to one engine, bit/s on the wire."""
    return next((link.wire for link in rates.links(o) if link.name == f"{NAMES[engine]} in"), 0.0)


def _pools(o: Observation, engine: Engine, index: int, ports: int) -> tuple[int, int]:
    """Give the bytes of huge pages that an engine's queues take, and of a GPU's memory that the card writes to."""
    receive, plan = o.receive(engine, index), plans(o)[engine]
    frame = frame_bytes(largest_packet(plan))
    window = pool_bytes(receive, plan, ports, frame) if receive.copies == 0 else 0
    return dpdk_bytes(receive, plan, ports, frame), window


def _own_address(o: Observation) -> str:
    """Say at which of its addresses this host takes part; if at none, where it should."""
    try:
        return o.network.own_address
    except ValueError:
        return o.network.interface
