"""Ethernet and IPv4 addresses as the core's registers hold them, and as people write them."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TypeVar

from ryle.fpga.transport import FpgaError

T = TypeVar("T")


def mac_number(text: str) -> int:
    """Read 02:00:00:00:00:01."""
    parts = text.replace("-", ":").split(":")
    try:
        octets = [int(p, 16) for p in parts]
        if len(octets) == 6 and all(0 <= o < 256 for o in octets):
            return int.from_bytes(octets, "big")
    except ValueError:
        pass
    raise FpgaError(f"{text!r} is no MAC address: write 02:00:00:00:00:01")


def station_mac(text: str) -> int:
    """Read the MAC address of one station: of no group, and not 0."""
    number = mac_number(text)
    if number >> 40 & 1:
        raise FpgaError(f"{text} is the MAC address of a group: one station's has an even first byte, such as 02")
    if not number:
        raise FpgaError(f"{text} is nobody's MAC address: write 02:00:00:00:00:01")
    return number


def check_station(*, ip: int, netmask: int, gateway: int) -> None:
    """See whether a station can have these addresses; 0 is one that is not set yet.

    Raises
    ------
    FpgaError
        If not; says which cannot be, and why.
    """
    host = ~netmask & 0xFFFFFFFF
    if host & (host + 1):
        raise FpgaError(f"{ip_text(netmask)} is no netmask: its ones come first, as in 255.255.240.0")
    for name, number in (("address", ip), ("gateway", gateway)):
        each = ipaddress.IPv4Address(number)
        if number and (each.is_multicast or each.is_loopback or each.is_reserved or number >> 24 == 0):
            raise FpgaError(f"{each} cannot be a station's {name}: it is a group, or of a range that no host has")
        if number and host > 1 and (number ^ ip) & netmask == 0 and number & host in (0, host):
            kind = "broadcast address" if number & host else "address of the network itself"
            raise FpgaError(f"{each} cannot be a station's {name}: with netmask {ip_text(netmask)} it is the {kind}")
    if ip and gateway and (ip ^ gateway) & netmask:
        raise FpgaError(
            f"the gateway {ip_text(gateway)} is not in the subnet of {ip_text(ip)} with netmask {ip_text(netmask)}: "
            "give one that is, or 0.0.0.0 for none"
        )
    if ip and ip == gateway:
        raise FpgaError(f"{ip_text(ip)} cannot be its own gateway")


def mac_text(number: int) -> str:
    """Write a MAC address."""
    return ":".join(f"{o:02x}" for o in number.to_bytes(6, "big"))


def ip_number(text: str) -> int:
    """Read 10.0.0.1."""
    return int(parsed(ipaddress.IPv4Address, text, "an address, such as 10.0.0.1"))


def ip_text(number: int) -> str:
    """Write an IPv4 address."""
    return str(ipaddress.IPv4Address(number))


def parsed(kind: Callable[[str], T], text: str, what: str) -> T:
    """Make something of a text; FpgaError, if it cannot be, says that it is not `what`."""
    try:
        return kind(text)
    except ValueError:
        raise FpgaError(f"{text!r} is not {what}") from None
