"""What a core does besides UDP: groups that it joins, pings, and what its frames' headers say."""

from __future__ import annotations

import ipaddress
import os
import struct
import time
from dataclasses import dataclass

from ryle.fpga.addresses import ip_number, ip_text, mac_number, parsed
from ryle.fpga.core import Core
from ryle.fpga.transport import FpgaError

#: Groups that the core reports; it receives more, but joins none of them then.
MOST_GROUPS = 1024
_HEADERS = 14 + 20 + 8  # Ethernet, IPv4, ICMP


@dataclass(frozen=True)
class Membership:
    """A core's membership of multicast groups.

    Attributes
    ----------
    groups : str
        Those that are received, as 239.1.2.0/24 or address/mask; none if empty.
    igmp : bool
        Whether it may report them.
    joined : bool
        Whether it has.
    queries, sent : int
        Queries that came; reports and leaves that went out.
    """

    groups: str
    igmp: bool
    joined: bool
    queries: int
    sent: int


@dataclass(frozen=True)
class Answer:
    """What became of one echo request; `milliseconds` has the register accesses' time in it, None: no answer."""

    sequence: int
    milliseconds: float | None


def membership(core: Core) -> Membership:
    """Read what a core is a member of."""
    group, mask = core.read("multicast_ip"), core.read("multicast_mask")
    host = ~mask & 0xFFFFFFFF
    plain = host & (host + 1) == 0
    shown = f"{ip_text(group & mask)}/{32 - host.bit_length() if plain else ip_text(mask)}"
    return Membership(
        groups=shown if mask and group >> 28 == 14 else "",
        igmp=bool(core.read("control.igmp")),
        joined=bool(core.read("igmp_status.joined")),
        queries=core.read("igmp_queries"),
        sent=core.read("igmp_sent"),
    )


def join(core: Core, groups: str, seconds: float = 2.0) -> Membership:
    """Receive groups (239.1.2.3, 239.1.2.0/24) and let the core be a member of them; of others it is none any more.

    Raises
    ------
    FpgaError
        If they are no groups or too many; if the core has not joined after `seconds`, or is disabled.
    """
    network = parsed(ipaddress.IPv4Network, groups, "a group or groups, such as 239.1.2.3 or 239.1.2.0/24")
    if network.num_addresses > MOST_GROUPS:
        raise FpgaError(
            f"{groups} are {network.num_addresses} groups: the core reports each, and does so for {MOST_GROUPS} at "
            "most (/22). `ryle fpga set --multicast` receives more, without joining them"
        )
    core.set_addresses(multicast=groups)
    core.write("control.igmp", 1)
    if not core.read("control.enable"):
        raise FpgaError(f"{groups} is set, but the core is disabled and sends nothing: `ryle fpga set --enable` joins")
    return _settled(core, joined=True, seconds=seconds)


def leave(core: Core, seconds: float = 2.0) -> Membership:
    """Receive no group any more, and say so to the network.

    Raises
    ------
    FpgaError
        If the core has not left after `seconds`.
    """
    core.write("multicast_mask", 0)
    return _settled(core, joined=False, seconds=seconds)


def _settled(core: Core, *, joined: bool, seconds: float) -> Membership:
    end = time.monotonic() + seconds
    # The core waits 64 ms, since two registers are written one after the other; to leave, 1 ms a group.
    while (now := membership(core)).joined != joined:
        if time.monotonic() > end:
            raise FpgaError(
                f"the core has not {'joined' if joined else 'left'} after {seconds:.0f} s: `ryle fpga status` shows "
                "whether it is enabled and its link up"
            )
        time.sleep(0.02)
    return now


def set_header(core: Core, *, ttl: int | None = None, dscp: int | None = None) -> None:
    """Set what IPv4 headers of sent packets say: time to live (1 to 255), differentiated services (0 to 63).

    Raises
    ------
    FpgaError
        If a value cannot be; nothing is set then.
    """
    for name, value, least, most in (("TTL", ttl, 1, 255), ("DSCP", dscp, 0, 63)):
        if value is not None and not least <= value <= most:
            raise FpgaError(f"a {name} of {value} cannot be: it is {least} to {most}")
    if ttl is not None:
        core.write("tx_header.ttl", ttl)
    if dscp is not None:
        core.write("tx_header.dscp", dscp)


def set_vlan(core: Core, vlan: str) -> None:
    """Tag what is sent: ``100``, ``100:5`` with a priority, or ``none``. Tagged frames are received from then on.

    Raises
    ------
    FpgaError
        If there is no such VLAN or priority.
    """
    if vlan == "none":
        core.write("tx_vlan.insert", 0)
        return
    number, _, priority = vlan.partition(":")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= 4094):
        raise FpgaError(f"VLAN {vlan!r}: write a number from 1 to 4094, 100:5 for one with priority 5, or none")
    if priority and priority not in "01234567":
        raise FpgaError(f"VLAN {vlan!r}: a priority is 0 to 7, as in 100:5")
    core.write("tx_vlan", 1 << 16 | int(priority or 0) << 13 | int(number))
    core.write("control.accept_vlan", 1)


def ping(core: Core, host: str, sequence: int, size: int = 56, seconds: float = 1.0) -> Answer:
    """Send an ICMP echo request from the core, through its processor's buffers, and wait for the answer.

    Frames in the processor's receive buffer are taken out meanwhile: not for a core whose processor uses them.

    Parameters
    ----------
    core : Core
    host : str
        IPv4 address.
    sequence : int
        Of the request, 0 to 65535.
    size : int
        Bytes behind the ICMP header.
    seconds : float
        For which to wait.

    Raises
    ------
    FpgaError
        If the core is disabled or has no address, the next hop does not answer ARP, or the size does not fit.
    """
    target, own = ip_number(host), core.read("ip")
    if not 0 <= size <= (most := core.read("buffer_sizes.tx") - _HEADERS):
        raise FpgaError(f"a ping of {size} B: the processor's buffer has room for 0 to {most}")
    if not core.read("control.enable") or not own:
        raise FpgaError("the core is disabled or has no address: `ryle fpga set --ip ADDRESS --enable`")
    mac = core.read("mac_high") << 32 | core.read("mac_low")
    hop = mac_number(core.resolve(host))
    identifier, payload = os.getpid() & 0xFFFF, bytes(n & 0xFF for n in range(size))
    echo = struct.pack("!BBHHH", 8, 0, 0, identifier, sequence) + payload
    echo = echo[:2] + checksum(echo) + echo[4:]
    head = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(echo), 0, 0x4000, core.read("tx_header.ttl"), 1, 0, own, target)
    head = head[:10] + checksum(head) + head[12:]
    while core.receive_frame() is not None:
        pass
    began = time.monotonic()
    core.send_frame(hop.to_bytes(6, "big") + mac.to_bytes(6, "big") + b"\x08\x00" + head + echo)
    while time.monotonic() < began + seconds:
        if (frame := core.receive_frame()) is None:
            continue
        if frame[12:14] == b"\x81\x00":
            frame = frame[:12] + frame[16:]
        packet = frame[14:]
        got = packet[4 * (packet[0] & 15) :][: len(echo)] if frame[12:14] == b"\x08\x00" else b""
        if packet[12:16] == target.to_bytes(4, "big") and got[:2] == b"\0\0" and got[4:] == echo[4:]:
            return Answer(sequence, 1e3 * (time.monotonic() - began))
    return Answer(sequence, None)


def checksum(data: bytes) -> bytes:
    """Give the checksum of RFC 1071, two bytes."""
    words: tuple[int, ...] = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
