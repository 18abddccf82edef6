"""Ethernet frames around UDP payloads: written whole, and as templates whose fields count."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from typing import NamedTuple

from ryle.wire.description import Format

HEADERS = 14 + 20 + 8  # bytes of Ethernet, IPv4 and UDP before the payload, without VLAN tags


class Stamp(NamedTuple):
    """Bytes of a frame that count: packet i carries start + step · (i // every % modulo); see `counting`.

    Parameters
    ----------
    at : int
        First byte of the number in the frame.
    size : int
        How many.
    big_endian : bool
        Whether the highest byte comes first.
    start, step, every, modulo : int
        What is counted; modulo 0 counts on without end.
    """

    at: int
    size: int
    big_endian: bool
    start: int
    step: int
    every: int
    modulo: int


def _mac(text: str) -> bytes:
    octets = bytes.fromhex(text.replace(":", ""))
    if len(octets) != 6:
        raise ValueError(f"{text!r} is no Ethernet address; write six bytes, such as 02:00:00:00:00:01")
    return octets


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass(frozen=True, slots=True)
class Path:
    """From whom to whom frames go.

    Parameters
    ----------
    source_mac, target_mac : str
        Ethernet addresses. `target_mac` empty: the multicast address of a multicast `target`, else broadcast.
    source, target : str
        IPv4 addresses.
    source_port, target_port : int
        UDP ports.
    vlan : int, optional
        VLAN, 0 to 4095; untagged if absent.
    """

    source_mac: str = "02:00:00:00:00:01"
    target_mac: str = ""
    source: str = "10.0.0.1"
    target: str = "10.0.0.2"
    source_port: int = 17000
    target_port: int = 17100
    vlan: int | None = None

    def headers(self, payload_bytes: int) -> bytes:
        """Ethernet, IPv4 and UDP headers of a frame with this much payload; the UDP checksum is left out (0).

        Raises
        ------
        ValueError
            If an address is none, or the payload is too long for a datagram.
        """
        if not 0 <= payload_bytes <= 65507:
            raise ValueError(f"a datagram holds at most 65507 bytes, not {payload_bytes}")
        source, target = ipaddress.IPv4Address(self.source), ipaddress.IPv4Address(self.target)
        if self.target_mac:
            to = _mac(self.target_mac)
        elif target.is_multicast:
            to = b"\x01\x00\x5e" + struct.pack(">I", int(target) & 0x7FFFFF)[1:]
        else:
            to = b"\xff" * 6
        tag = b"" if self.vlan is None else struct.pack(">HH", 0x8100, self.vlan)
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 28 + payload_bytes, 0, 0x4000, 64, 17, 0, source.packed, target.packed
        )
        ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
        udp = struct.pack(">HHHH", self.source_port, self.target_port, 8 + payload_bytes, 0)
        return to + _mac(self.source_mac) + tag + b"\x08\x00" + ip + udp

    def frame(self, payload: bytes) -> bytes:
        """Write a whole frame; short ones are padded to 60 bytes, as a network would."""
        return (self.headers(len(payload)) + payload).ljust(60, b"\0")


def counting(
    format: Format, field: str, *, at: int = HEADERS, start: int = 0, step: int = 1, every: int = 1, modulo: int = 0
) -> Stamp:
    """Let a header field count: packet i carries start + step · (i // every % modulo).

    Parameters
    ----------
    format : Format
        Whose field it is.
    field : str
        Its name; it must fill whole bytes.
    at : int
        Where the UDP payload begins in the frame.
    modulo : int
        0: counts on without end.

    Raises
    ------
    ValueError
        If the field does not fill whole bytes.
    """
    f = format.fields[field]
    if f.shift or f.width != 8 * f.bytes:
        raise ValueError(f"field {field} of {format.name} does not fill whole bytes; let another one count")
    return Stamp(at + f.byte, f.bytes, (f.endian or format.header.endian) == "big", start, step, every, modulo)
