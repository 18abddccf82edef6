"""Whether the way to an address holds packets until they are due: a queueing discipline that obeys SO_TXTIME."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator

from ryle.config.endpoints import Endpoint

#: Disciplines that send a packet at the time that is written on it.
KEEPERS = ("fq", "etf")
_GET_QDISC, _DUMP, _DONE, _ERROR, _KIND = 38, 0x301, 3, 2, 1
_ROOT = 0xFFFFFFFF
_SIOCGIFADDR = 0x8915


def keeper(to: Endpoint) -> str:
    """Name of the discipline that holds packets to `to` until they are due; empty if none does."""
    index = _interface_to(to)
    if index is None:
        return ""
    try:
        kinds = [(parent, kind) for i, parent, kind in _disciplines() if i == index]
    except OSError:
        return ""
    root = next((kind for parent, kind in kinds if parent == _ROOT), "")
    leaves = {kind for parent, kind in kinds if parent != _ROOT}
    if root == "mq" and len(leaves) == 1:  # one discipline for each queue of the card
        root = leaves.pop()
    return root if root in KEEPERS else ""


def _interface_to(to: Endpoint) -> int | None:
    """Index of the interface through which packets to an address leave."""
    address = ipaddress.ip_address(to.host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        try:
            s.connect((to.host, to.port))
        except OSError:
            return None
        own = ipaddress.ip_address(s.getsockname()[0].split("%")[0])
        for index, name in socket.if_nameindex():
            if own in _addresses(s, name):
                return index
    return None


def _addresses(s: socket.socket, name: str) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    with contextlib.suppress(OSError):
        answer = fcntl.ioctl(s.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        yield ipaddress.IPv4Address(answer[20:24])
    with contextlib.suppress(OSError), open("/proc/net/if_inet6") as table:
        for line in table:
            packed, *_, known = line.split()
            if known == name:
                yield ipaddress.IPv6Address(bytes.fromhex(packed))


def _disciplines() -> Iterator[tuple[int, int, str]]:
    """Interface, parent and kind of every queueing discipline, from the kernel (netlink)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(1)
        s.send(struct.pack("=IHHII", 36, _GET_QDISC, _DUMP, 1, 0) + bytes(20))
        while True:
            data = s.recv(1 << 18)
            at = 0
            while at + 16 <= len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                if kind in (_DONE, _ERROR) or length < 16:
                    return
                index, _, parent = struct.unpack_from("=iII", data, at + 20)
                part, end = at + 36, at + length
                while part + 4 <= end:
                    size, what = struct.unpack_from("=HH", data, part)
                    if size < 4:
                        break
                    if what == _KIND:
                        yield index, parent, data[part + 4 : part + size].split(b"\0")[0].decode()
                    part += (size + 3) // 4 * 4
                at += (length + 3) // 4 * 4
