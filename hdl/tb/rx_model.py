# SPDX-License-Identifier: BSD-3-Clause
"""What the receive half must do with a frame, decided in Python from the bytes and the registers.

`decide` follows the words of the contract in hdl/rtl/rx_filter.sv, not its code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from scapy.utils import checksum

MAX_FRAME = 9216
ANY_MAC = "ff:ff:ff:ff:ff:ff"


def ip_text(ip: int) -> str:
    """Dotted form of an address."""
    return ".".join(str(b) for b in ip.to_bytes(4, "big"))


def mac_text(mac: int) -> str:
    """Form with colons of an address."""
    return ":".join(f"{b:02x}" for b in mac.to_bytes(6, "big"))


@dataclass(frozen=True)
class Settings:
    """Registers that decide."""

    mac: int = 0x02_52_59_4C_45_01
    ip: int = 0x0A010203  # 10.1.2.3
    netmask: int = 0xFFFFFF00
    group: int = 0
    group_mask: int = 0
    port: int = 7148
    port_mask: int = 0xFFFF
    promiscuous: bool = False
    accept_vlan: bool = False
    cpu_ports: bool = False
    answer_ping: bool = False
    igmp: bool = False

    def registers(self) -> dict[str, int]:
        """Values by names of the register map; the core enabled."""
        control = 1 | self.accept_vlan << 25 | self.cpu_ports << 27 | self.promiscuous << 8
        control |= self.answer_ping << 28 | self.igmp << 29
        return {
            "mac_high": self.mac >> 32,
            "mac_low": self.mac & 0xFFFFFFFF,
            "ip": self.ip,
            "netmask": self.netmask,
            "multicast_ip": self.group,
            "multicast_mask": self.group_mask,
            "port": self.port_mask << 16 | self.port,
            "control": control,
        }


@dataclass(frozen=True)
class Outcome:
    """What becomes of a frame.

    Attributes
    ----------
    verdict : str
        ``app``, ``cpu``, ``echo``, or the name of the counter.
    payload : bytes
        What the application gets.
    sideband : dict
        Addresses and ports with it.
    """

    verdict: str
    payload: bytes = b""
    sideband: dict[str, int] = field(default_factory=dict)


def echo_reply(frame: bytes, s: Settings, ttl: int) -> bytes:
    """Make the reply to an echo request: the request but for addresses, TTL, identification, type and checksums."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    ip, icmp = bytearray(frame[at : at + 20]), bytearray(frame[at + 20 :])
    ip[4:8], ip[8], ip[10:12], ip[12:20] = b"\0\0\x40\0", ttl, b"\0\0", ip[16:20] + ip[12:16]
    ip[10:12] = checksum(bytes(ip)).to_bytes(2, "big")
    # By RFC 1624: where both 0 and ffff are right, the request decides.
    total = int.from_bytes(icmp[2:4], "big") + 0x0800
    icmp[:4] = b"\0\0" + ((total & 0xFFFF) + (total >> 16)).to_bytes(2, "big")
    assert checksum(bytes(icmp[: int.from_bytes(ip[2:4], "big") - 20])) == 0
    return frame[6:12] + s.mac.to_bytes(6, "big") + frame[12:at] + bytes(ip) + bytes(icmp)


def _pseudo(packet: bytes, udp: bytes) -> bytes:
    return packet[12:20] + struct.pack(">HH", 17, len(udp)) + udp


def _is_broadcast(ip: int, s: Settings) -> bool:
    if ip == 0xFFFFFFFF:
        return True
    hosts = ~s.netmask & 0xFFFFFFFF
    return hosts & 3 == 3 and ip & s.netmask == s.ip & s.netmask and ip & hosts == hosts


def is_host(mac: bytes, ip: int, s: Settings) -> bool:
    """Whether these may be the addresses of one other host."""
    return not (mac[0] & 1 or ip in (0, s.ip) or ip >> 29 == 7 or _is_broadcast(ip, s))


def in_groups(ip: int, s: Settings) -> bool:
    return ip >> 28 == 14 and s.group >> 28 == 14 and s.group_mask != 0 and ip & s.group_mask == s.group & s.group_mask


def decide(frame: bytes, bad: bool, s: Settings) -> Outcome:
    """Decide what becomes of a frame, `bad` if the MAC says so."""
    if bad:
        return Outcome("rx_bad_mac")
    if not 14 <= len(frame) <= MAX_FRAME:
        return Outcome("drop_length")
    mac = int.from_bytes(frame[:6], "big")
    own, everybody = mac == s.mac, mac == 0xFFFFFFFFFFFF
    low23 = mac & 0x7FFFFF
    grouped = s.group >> 28 == 14 and s.group_mask != 0
    group = grouped and mac >> 23 == 0x01005E << 1 and low23 & s.group_mask == s.group & s.group_mask & 0x7FFFFF
    if mac in (0x0180C2000001, s.mac) and frame[12:16] == b"\x88\x08\0\1" and len(frame) >= 18:
        return Outcome("rx_pause")
    hosts = s.igmp and mac == 0x01005E000001
    if not (own or everybody or group or hosts or s.promiscuous):
        return Outcome("drop_mac")
    kind, packet = frame[12:14], frame[14:]
    if kind == b"\x81\x00":
        if not s.accept_vlan:
            return Outcome("drop_vlan")
        if len(packet) < 4:
            return Outcome("drop_length")
        kind, packet = packet[2:4], packet[4:]
    if kind == b"\x08\x06":
        if len(packet) < 28:
            return Outcome("drop_length")
        form = packet[:6] == bytes.fromhex("000108000604") and packet[6:8] in (b"\0\1", b"\0\2")
        ours = form and everybody and packet[24:28] == s.ip.to_bytes(4, "big")
        return Outcome("cpu" if own or ours else "drop_other")
    if kind != b"\x08\x00":
        return Outcome("cpu" if own else "drop_other")
    header = 4 * (packet[0] & 15) if packet else 0
    if len(packet) < 20 or packet[0] >> 4 != 4 or header < 20:
        return Outcome("drop_length")
    (total,) = struct.unpack(">H", packet[2:4])
    if not header <= total <= len(packet):
        return Outcome("drop_length")
    if checksum(packet[:header]) != 0:
        return Outcome("drop_ip_checksum")
    src, dst = struct.unpack(">II", packet[12:20])
    ip_own, ip_all = dst == s.ip, _is_broadcast(dst, s)
    group_match = group and in_groups(dst, s) and low23 == dst & 0x7FFFFF
    asks = s.igmp and packet[9] == 2 and total >= header + 8 and packet[header] == 0x11
    query = asks and (group_match or (hosts and dst == 0xE0000001))
    if not (query or (own and ip_own) or (everybody and ip_all) or group_match or s.promiscuous):
        return Outcome("drop_ip")
    (fragment,) = struct.unpack(">H", packet[6:8])
    if fragment & 0x3FFF:
        return Outcome("drop_fragment")
    echo = s.answer_ping and packet[9] == 1 and packet[header : header + 2] == b"\x08\0" and own and ip_own
    echo = echo and header == 20 and total >= 28 and is_host(frame[6:12], src, s)
    if query or echo:
        bad_sum = checksum(packet[header:total]) != 0
        return Outcome("drop_udp_checksum" if bad_sum else "igmp_queries" if query else "echo")
    if packet[9] != 17:
        return Outcome("cpu" if own and ip_own else "drop_other")
    udp = packet[header:total]
    if len(udp) < 8:
        return Outcome("drop_length")
    sport, dport, length, check = struct.unpack(">HHHH", udp[:8])
    if not 8 <= length <= len(udp):
        return Outcome("drop_length")
    if check and checksum(_pseudo(packet, udp[:length])) != 0:
        return Outcome("drop_udp_checksum")
    if (dport ^ s.port) & s.port_mask:
        return Outcome("cpu" if s.cpu_ports and (ip_own or ip_all) else "drop_port")
    if length == 8:
        return Outcome("drop_length")
    side = {"src_ip": src, "src_port": sport, "dst_ip": dst, "dst_port": dport, "length": length - 8}
    return Outcome("app", udp[8:length], side)
