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
