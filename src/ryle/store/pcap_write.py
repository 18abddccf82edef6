"""Packet captures written: UDP datagrams as Ethernet frames, in a pcap file with nanosecond times.

References: draft-ietf-opsawg-pcap; RFC 768 (UDP), 791 (IPv4), 8200 (IPv6), 1112 and 2464 (multicast on Ethernet).
"""

from __future__ import annotations

import ipaddress
import os
import struct
from socket import IPPROTO_UDP
from typing import BinaryIO, Self

import numpy as np

from ryle.receive.pcap import ETHERNET


class PcapWriter:
    """Write UDP datagrams to a pcap file as Ethernet frames with nanosecond times.

    Parameters
    ----------
    file : path or binary file
        Where to write. A file that was opened here is closed by `close` or on leaving the ``with`` block.
    """

    def __init__(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        self._owned = isinstance(file, (str, os.PathLike))
        self._file: BinaryIO = open(file, "wb") if isinstance(file, (str, os.PathLike)) else file
        self._file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, ETHERNET))
        self._heads: dict[tuple[str, int, str, int, int], tuple[bytes, int]] = {}

    def write(
        self,
        time: int,
        payload: bytes | bytearray | memoryview,
        address: str,
        port: int,
        source: str = "",
        source_port: int = 50000,
    ) -> None:
        """Write one datagram.

        Parameters
        ----------
        time : int
            Nanoseconds since 1970 (Unix time).
        payload : bytes-like
            At most 65507 bytes (IPv6: 65527).
        address, port : str, int
            Destination; a multicast address gets its Ethernet group address.
        source, source_port : str, int
            Sender; by default an address of the ranges kept for documentation.

        Raises
        ------
        ValueError
            If the payload is too long or the addresses are of different kinds.
        """
        body = memoryview(payload).cast("B")
        key = (address, port, source, source_port, len(body))
        if key not in self._heads:
            if len(self._heads) > 65536:
                self._heads.clear()
            self._heads[key] = _headers(*key)
        head, partial_sum = self._heads[key]
        if partial_sum >= 0:  # IPv6 demands a UDP checksum
            head = head[:-2] + struct.pack("!H", _checksum(body, partial_sum) or 0xFFFF)
        size = len(head) + len(body)
        self._file.write(struct.pack("<IIII", time // 1_000_000_000, time % 1_000_000_000, size, size) + head)
        self._file.write(body)

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._owned:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def headers(address: str, port: int) -> bytes:
    """Ethernet, IP and UDP headers of an empty datagram to an address, as `PcapWriter` writes them."""
    return _headers(address, port, "", 50000, 0)[0]


def _headers(address: str, port: int, source: str, source_port: int, size: int) -> tuple[bytes, int]:
    """Ethernet, IP and UDP headers, and for IPv6 the one's-complement sum of all but the payload, else -1."""
    to = ipaddress.ip_address(address)
    sender = ipaddress.ip_address(source or ("192.0.2.1" if to.version == 4 else "2001:db8::1"))
    if to.version != sender.version:
        raise ValueError(f"datagram from {sender} to {to}: both must be IPv4 or both IPv6")
    limit = 65507 if to.version == 4 else 65527
    if size > limit:
        raise ValueError(f"UDP payload of {size} bytes: at most {limit} fit")
    low = to.packed
    if to.is_multicast:
        group = b"\x01\x00\x5e" + bytes([low[1] & 0x7F, *low[2:]]) if to.version == 4 else b"\x33\x33" + low[12:]
    else:
        group = b"\x02\x00" + low[-4:]
    mac = group + b"\x02\x00" + sender.packed[-4:]
    udp = struct.pack("!HHHH", source_port, port, size + 8, 0)
    if to.version == 4:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, size + 28, 0, 0x4000, 64, IPPROTO_UDP, 0) + sender.packed + low
        ip = ip[:10] + struct.pack("!H", _checksum(ip, 0)) + ip[12:]
        return mac + b"\x08\x00" + ip + udp, -1
    ip = struct.pack("!IHBB", 6 << 28, size + 8, IPPROTO_UDP, 64) + sender.packed + low
    pseudo = sender.packed + low + struct.pack("!IHH", size + 8, 0, IPPROTO_UDP) + udp
    return mac + b"\x86\xdd" + ip + udp, int(np.frombuffer(pseudo, ">u2").sum(dtype=np.int64))


def _checksum(data: bytes | memoryview, start: int) -> int:
    """Internet checksum (RFC 1071) of `data`, added to a sum begun elsewhere."""
    even = len(data) // 2 * 2
    total = start + int(np.frombuffer(data[:even], ">u2").sum(dtype=np.int64)) if even else start
    if len(data) % 2:
        total += data[-1] << 8
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
