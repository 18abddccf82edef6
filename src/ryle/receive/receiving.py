"""The source that somebody asked for: sockets, a packet ring or DPDK, as ``[network.receive]`` and its like say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ryle.config.endpoints import Endpoint
from ryle.config.engine_tables import Receiving
from ryle.config.observation import RING_BYTES, Engine, Observation
from ryle.receive.assembly import Assembler
from ryle.receive.packet_ring import RingSource, deaf_sockets, ports_of
from ryle.receive.sources import Sink, Source
from ryle.receive.udp import UdpSource

if TYPE_CHECKING:
    from ryle.receive.dpdk.device import Device
    from ryle.receive.dpdk.pools import GpuMemory, QueuePools

_SOCKET_BYTES = 64 << 20
_FRAME = 9216  # bytes of a DPDK buffer, headers included
_HEADERS = 64  # of Ethernet with a VLAN, IPv4 and UDP, rounded up
_ROUND = 1024  # to which a buffer is rounded, so that 16 of them are whole pages
_INTERFACES = "/sys/class/net"


def make_source(
    observation: Observation,
    engine: Engine,
    sink: Sink,
    endpoints: Sequence[Endpoint],
    *,
    index: int = 0,
    largest: int = 9216,
    gpu: GpuMemory | None = None,
) -> Source:
    """Make the source of an engine's packets.

    Parameters
    ----------
    observation : Observation
        Says how engines of this kind receive.
    engine : "f", "x", "catcher" or "fx"
        Which kind.
    sink : Assembler or Discard
        What to feed.
    endpoints : sequence of Endpoint
        Where packets are sent to. Packets get the place in this list as their port number.
    index : int
        Which engine of its kind.
    largest : int
        Bytes of the longest packet (a UDP payload).
    gpu : GpuMemory, optional
        What reads payloads where they come to, if ``receive.copies`` says so.

    Returns
    -------
    Source
        Not yet started.

    Raises
    ------
    OSError, ValueError
        If the system, or this build, cannot receive so; the message names the key and says what to do.
    """
    receive = observation.receive(engine, index)
    return open_source(receive, sink, endpoints, interface=observation.network.own_address, largest=largest, gpu=gpu)


def open_source(
    receive: Receiving,
    sink: Sink,
    endpoints: Sequence[Endpoint],
    *,
    interface: str = "127.0.0.1",
    largest: int = 9216,
    gro: bool = True,
    gpu: GpuMemory | None = None,
) -> Source:
    """Make a source; see `make_source`.

    Parameters
    ----------
    receive : Receiving
        How.
    interface : str
        Address of the interface on which to join multicast groups.
    gro : bool
        Take trains of packets from sockets, where the system has them.
    """
    match receive.by:
        case "packet_ring":
            return _packet_ring(receive, sink, endpoints, interface)
        case "dpdk":
            return _dpdk(receive, sink, endpoints, interface, largest, gpu)
    if receive.threads > len(endpoints) and any(e.multicast for e in endpoints):
        raise ValueError(
            f"receive.threads = {receive.threads} for {len(endpoints)} multicast groups: every thread would get all "
            f'packets of a group; use at most {len(endpoints)}, or receive.by = "packet_ring"'
        )
    return UdpSource(
        sink,
        endpoints,
        interface=interface,
        threads=receive.threads,
        cores=receive.cores,
        buffer=receive.buffer or _SOCKET_BYTES,
        gro=gro,
        largest=largest,
    )


def _packet_ring(receive: Receiving, sink: Sink, endpoints: Sequence[Endpoint], interface: str) -> Source:
    _check_interface(receive, receive.device)
    try:
        return RingSource(
            sink,
            endpoints,
            interface=receive.device,
            threads=receive.threads,
            cores=receive.cores,
            buffer=receive.buffer or RING_BYTES,
            group_interface=interface,
        )
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            'receive.by = "packet_ring" needs CAP_NET_RAW: run as root, give the capability with '
            "'setcap cap_net_raw+ep' to a copy of the Python interpreter, or with AmbientCapabilities in a systemd "
            'unit; or set receive.by = "udp"',
        ) from None


def _check_interface(receive: Receiving, name: str) -> None:
    there = sorted(os.listdir(_INTERFACES)) if os.path.isdir(_INTERFACES) else []
    if there and name not in there:
        raise ValueError(
            f'receive.device = "{receive.device}": there is no such network interface; there are {", ".join(there)}'
        )


def _check_dpdk_device(receive: Receiving) -> None:
    """Refuse what DPDK would refuse in words that help nobody."""
    driver, *arguments = receive.device.split(",")
    if not driver.startswith("net_"):
        raise ValueError(
            f'receive.device = "{receive.device}": write a PCI address, such as "0000:41:00.0", or a virtual device of '
            'DPDK\'s, such as "net_af_packet0,iface=eth1" or "net_memif0,role=server,id=0"'
        )
    if driver.startswith("net_af_packet"):
        interface = next((a.removeprefix("iface=") for a in arguments if a.startswith("iface=")), None)
        if interface is None:
            raise ValueError(
                f'receive.device = "{receive.device}": say which network interface, as in "{driver},iface=eth1"'
            )
        _check_interface(receive, interface)


def _with_room(device: str, frame: int, buffer: int) -> str:
    """Add to the arguments of a virtual device what it needs to hold frames of so many bytes, where nothing is said."""
    driver = device.split(",")[0].rstrip("0123456789")
    wanted: dict[str, int] = {}
    if driver == "net_af_packet":  # blocks of whole pages, of whole frames
        wanted = {"framesz": frame, "blocksz": 16 * frame, "framecnt": max(512, buffer // frame // 16 * 16)}
    if driver == "net_memif":
        wanted = {"bsize": frame}
    said = {argument.split("=")[0] for argument in device.split(",")[1:]}
    return ",".join([device, *(f"{name}={value}" for name, value in wanted.items() if name not in said)])


def frame_bytes(largest: int) -> int:
    """Say how long the buffers of packets are whose UDP payload has so many bytes at most."""
    return -(-max(_FRAME, largest + _HEADERS) // _ROUND) * _ROUND


def _dpdk(
    receive: Receiving,
    sink: Sink,
    endpoints: Sequence[Endpoint],
    interface: str,
    largest: int,
    gpu: GpuMemory | None,
) -> Source:
    from ryle.receive.dpdk import DpdkConfig, DpdkSource, DpdkUnavailable, start
    from ryle.receive.dpdk.environment import is_pci, native
    from ryle.receive.dpdk.pools import dpdk_bytes, queue_pools

    if receive.copies == 1:
        raise OSError(
            "receive.copies = 1: Ryle knows no way here by which a core writes to the memory of a GPU (python -m "
            'ryle.gpu.reach says what refuses); set it to 2, 0 or "host-table"'
        )
    ports = ports_of(sink, endpoints)
    pci = is_pci(receive.device)
    if not pci:
        _check_dpdk_device(receive)
    frame, plan = frame_bytes(largest), sink.plan if isinstance(sink, Assembler) else None
    memory = dpdk_bytes(receive, plan, len(ports), frame)
    try:
        dpdk_error = native().DpdkError
        start(DpdkConfig(devices=[receive.device] if pci else [], memory=memory))
    except DpdkUnavailable as error:
        raise OSError(f'receive.by = "dpdk": {error}') from None
    try:
        pools = queue_pools(receive, plan, ports, frame, gpu)
        name = receive.device.split(",")[0] if pci else _with_room(receive.device, frame, receive.buffer or 0)
        device = _device(name, pools, frame - _HEADERS)
        device.steer({port: i % receive.threads for i, port in enumerate(ports)})
        # Only of this device's packets the kernel knows as well.
        holding = deaf_sockets(endpoints, interface) if device.driver == "net_af_packet" else ()
        return DpdkSource(sink, device, ports, cores=receive.cores, payload_pools=pools.payloads, holding=holding)
    except dpdk_error as error:
        raise OSError(f'receive.device = "{receive.device}": {error}') from None


def _device(name: str, pools: QueuePools, mtu: int) -> Device:
    """Open a device; one without a network is split by what stands in its place (`ryle.send.dpdk.Emulation`)."""
    from ryle.receive.dpdk import Device

    if pools.headers and not name.startswith("net_null"):
        return Device(name, pools.payloads, headers=pools.headers, header_bytes=pools.header_bytes, mtu=mtu)
    return Device(name, pools.headers or pools.payloads, mtu=mtu)
