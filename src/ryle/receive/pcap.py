"""Packet captures: UDP datagrams out of pcap and pcapng files.

References: the pcap and pcapng Internet-Drafts (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng) and the tcpdump.org
list of link-layer header types. The file is mapped and datagrams are views of it; nothing is copied. Where consecutive
records have the same layout, as in any capture of one instrument, they are read as one strided array.
"""

from __future__ import annotations

import ipaddress
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from socket import IPPROTO_UDP
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Link-layer header types (``LINKTYPE_`` values and the BSD spellings of raw IP) that can be read.
NULL, ETHERNET, RAW, LOOP, SLL, IPV4, IPV6, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276
_RAW = (RAW, 12, 14, IPV4, IPV6)
_VLAN = (0x8100, 0x88A8, 0x9100)
_ETHERTYPE_4, _ETHERTYPE_6 = 0x0800, 0x86DD
_FAMILY_6 = (10, 24, 28, 30)  # AF_INET6 of Linux, NetBSD/OpenBSD, FreeBSD, macOS
_MOST = 4096  # datagrams in a batch
_END = 1 << 62  # ns either side of 1970; times beyond become these, so that sums with them are still int64
_FINEST = (1 << 64) - 1  # ticks a second; with more, all the ticks of a time stamp are less than a second

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Datagram(NamedTuple):
    """One UDP datagram: capture time in ns since 1970 (Unix time), destination, and payload, a view of the file."""

    time: int
    address: Address
    port: int
    payload: memoryview


@dataclass(slots=True)
class Batch:
    """Consecutive UDP datagrams of equal length.

    Parameters
    ----------
    time : ndarray of int64, shape (datagram,)
        Capture time in ns since 1970 (Unix time).
    address : ndarray of uint8, shape (datagram, 4 or 16)
        Destination IP address, network order.
    port : ndarray of uint16, shape (datagram,)
        Destination port.
    payload : ndarray of uint8, shape (datagram, bytes)
        Payloads: a strided, read-only view of the mapped file.
    """

    time: NDArray[np.int64]
    address: NDArray[np.uint8]
    port: NDArray[np.uint16]
    payload: NDArray[np.uint8]


@dataclass(slots=True)
class CaptureAccount:
    """What became of the records: ``records = datagrams + fragments + truncated + other + malformed``.

    Parameters
    ----------
    records : int
        Packets in the capture.
    datagrams : int
        Whole UDP datagrams given out.
    fragments : int
        IP fragments, dropped.
    truncated : int
        UDP datagrams of which the capture kept only a part (its snapshot length), dropped.
    other : int
        Not UDP over IP, or of a link type that is not known.
    malformed : int
        Headers that contradict themselves.
    cut : int
        1 if the file ends within a record or a record's length makes no sense; what follows is lost.
    """

    records: int = 0
    datagrams: int = 0
    fragments: int = 0
    truncated: int = 0
    other: int = 0
    malformed: int = 0
    cut: int = 0


class _Record(NamedTuple):
    start: int  # of the record in the file
    size: int  # of the whole record
    packet: int  # where the packet's bytes start
    captured: int
    alike: tuple[int, int]  # bytes of the record header, from and to, that like records share
    link: int
    clock: tuple[int, int, int]  # ticks a second, offset in s; 1: high word first (pcapng), 0: seconds and fraction


class _Found(NamedTuple):
    address: int  # offsets from the packet's start
    address_bytes: int
    udp: int
    length: int  # of the payload
    alike: list[int]  # bytes of the packet that like packets share


class _Layout(NamedTuple):
    found: _Found
    columns: NDArray[np.intp]  # bytes of a record that tell its layout, and what they hold
    pattern: NDArray[np.uint8]


class PcapFile:
    """UDP datagrams of a pcap or pcapng file in file order. Iterating gives `Datagram`; `batches` is the fast way.

    Parameters
    ----------
    path : path
        The capture.

    Attributes
    ----------
    account : CaptureAccount
        What the last pass over the file met.
    bytes_total, bytes_done : int
        Size of the file and how far the last pass has come.

    Raises
    ------
    ValueError
        If the file is no capture.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        with open(path, "rb") as file:
            self.bytes_total = os.fstat(file.fileno()).st_size
            if self.bytes_total < 24:
                raise ValueError(f"{self.name} has {self.bytes_total} bytes; a pcap or pcapng file has at least 24")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)
        self._view = memoryview(self._map)
        #: The whole file.
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.account = CaptureAccount()
        self.bytes_done = 0
        self._order = "<"
        self._interfaces: list[tuple[int, tuple[int, int, int]]] = []
        magic = bytes(self._view[:4])
        self._next_generation = magic == b"\x0a\x0d\x0d\x0a"
        if not self._next_generation:
            kinds = {0xA1B2C3D4: 1_000_000, 0xA1B23C4D: 1_000_000_000}
            for order in "<>":
                if (number := struct.unpack(order + "I", magic)[0]) in kinds:
                    self._order = order
                    link = struct.unpack_from(order + "I", self._view, 20)[0] & 0x0FFFFFFF  # the top bits tell of FCS
                    self._interfaces = [(link, (kinds[number], 0, 0))]
                    break
            else:
                raise ValueError(f"{self.name} starts with {magic.hex()}: neither a pcap nor a pcapng file")

    def __iter__(self) -> Iterator[Datagram]:
        for batch in self.batches():
            packed, known = b"", ipaddress.ip_address(0)  # most captures have few destinations
            for i in range(len(batch.time)):
                if (raw := batch.address[i].tobytes()) != packed:
                    packed, known = raw, ipaddress.ip_address(raw)
                yield Datagram(int(batch.time[i]), known, int(batch.port[i]), batch.payload[i].data)

    def batches(self) -> Iterator[Batch]:
        """Give the datagrams as runs of equal layout, up to 4096 at a time, from the start of the file."""
        self.account = CaptureAccount()
        position = 0 if self._next_generation else 24
        freed = 0
        layouts: dict[tuple[int, int, int], _Layout] = {}
        while True:
            record = self._pcapng_record(position) if self._next_generation else self._pcap_record(position)
            if record is None:
                self.bytes_done = self.bytes_total
                return
            key = record.size, record.packet - record.start, record.link
            layout = layouts.get(key)
            count = self._run(record, layout) if layout else 0
            if not count and (found := self._dissect(record)):
                if len(layouts) > 4096:
                    layouts.clear()
                layout = layouts[key] = self._layout(record, found)
                count = self._run(record, layout)
            self.account.records += max(count, 1)
            self.account.datagrams += count
            position = record.start + max(count, 1) * record.size
            if layout and count:
                yield self._batch(record, layout.found, count)
            self.bytes_done = position
            page = position // mmap.PAGESIZE * mmap.PAGESIZE
            if page - freed >= 1 << 24 and hasattr(mmap, "MADV_DONTNEED"):
                self._map.madvise(mmap.MADV_DONTNEED, freed, page - freed)
                freed = page

    def _pcap_record(self, position: int) -> _Record | None:
        left = self.bytes_total - position
        if left < 16:
            self.account.cut = int(left > 0)
            return None
        captured = struct.unpack_from(self._order + "I", self._view, position + 8)[0]
        if captured > left - 16:
            self.account.cut = 1
            return None
        link, clock = self._interfaces[0]
        return _Record(position, 16 + captured, position + 16, captured, (8, 12), link, clock)

    def _pcapng_record(self, position: int) -> _Record | None:
        """Pass over blocks up to the next that holds a packet."""
        view = self._view
        while (left := self.bytes_total - position) >= 12:
            if bytes(view[position : position + 4]) == b"\x0a\x0d\x0d\x0a":
                mark = bytes(view[position + 8 : position + 12])
                if mark not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                    break
                self._order, self._interfaces = "<" if mark[0] == 0x4D else ">", []
            kind, size = struct.unpack_from(self._order + "II", view, position)
            if size < 12 or size % 4 or size > left:
                break
            if kind == 1 and size >= 20:
                self._interfaces.append(self._interface(position, size))
            elif kind in (6, 2) and size >= 32:  # enhanced packet; the obsolete packet block differs in one word
                interface = struct.unpack_from(self._order + ("I" if kind == 6 else "H"), view, position + 8)[0]
                captured = struct.unpack_from(self._order + "I", view, position + 20)[0]
                if interface >= len(self._interfaces) or captured > size - 32:
                    break
                link, clock = self._interfaces[interface]
                # Of the obsolete block, bytes 10 and 11 count drops: they may differ, the interface may not.
                alike = (0, 12) if kind == 6 else (0, 10)
                return _Record(position, size, position + 28, captured, alike, link, clock)
            elif kind == 3 and size >= 16 and self._interfaces:  # simple packet: no time
                captured = min(size - 16, struct.unpack_from(self._order + "I", view, position + 8)[0])
                link, _ = self._interfaces[0]
                return _Record(position, size, position + 12, captured, (0, 12), link, (0, 0, 1))
            position += size
        self.account.cut = int(self.bytes_total - position > 0)
        return None

    def _interface(self, position: int, size: int) -> tuple[int, tuple[int, int, int]]:
        """Read an interface description: link type, ticks a second, time offset in s."""
        link = struct.unpack_from(self._order + "H", self._view, position + 8)[0]
        ticks, offset, at, end = 1_000_000, 0, position + 16, position + size - 4
        while at + 4 <= end:
            code, length = struct.unpack_from(self._order + "HH", self._view, at)
            if code == 0 or at + 4 + length > end:
                break
            if code == 9 and length == 1:
                exponent = self._view[at + 4]
                ticks = 2 ** (exponent & 0x7F) if exponent & 0x80 else 10**exponent
            elif code == 14 and length == 8:
                offset = struct.unpack_from(self._order + "q", self._view, at + 4)[0]
            at += 4 + (length + 3) // 4 * 4
        return link, (ticks, offset, 1)

    def _dissect(self, record: _Record) -> _Found | None:
        """Find the UDP payload in a packet, or count why there is none."""
        account = self.account
        p = self._view[record.packet : record.packet + record.captured]
        alike: list[int] = []
        ip = self._network_layer(record.link, p, alike)
        if ip is None or len(p) < ip + 20:
            account.other += 1
            return None
        version = p[ip] >> 4
        if version == 4:
            header, total = (p[ip] & 15) * 4, struct.unpack_from("!H", p, ip + 2)[0]
            if header < 20:
                account.malformed += 1
                return None
            if struct.unpack_from("!H", p, ip + 6)[0] & 0x3FFF:
                account.fragments += 1
                return None
            protocol, udp = p[ip + 9], ip + header
            alike += [ip, ip + 2, ip + 3, ip + 6, ip + 7, ip + 9]
            address, address_bytes = ip + 16, 4
            room = total - header if total else record.captured - udp  # 0: left to the network card to fill in
        elif version == 6 and len(p) >= ip + 40:
            total = struct.unpack_from("!H", p, ip + 4)[0]
            protocol, udp = p[ip + 6], ip + 40
            alike += [ip, ip + 4, ip + 5, ip + 6]
            while protocol in (0, 43, 60) and len(p) >= udp + 8:  # hop-by-hop, routing, destination options
                alike += [udp, udp + 1]
                protocol, udp = p[udp], udp + 8 + 8 * p[udp + 1]
            if protocol == 44:
                account.fragments += 1
                return None
            address, address_bytes = ip + 24, 16
            room = ip + 40 + total - udp if total else record.captured - udp
        else:
            account.other += 1
            return None
        if protocol != IPPROTO_UDP:
            account.other += 1
            return None
        if len(p) < udp + 8:
            account.truncated += 1
            return None
        length = struct.unpack_from("!H", p, udp + 4)[0]
        if length < 8 or length > room:
            account.malformed += 1
            return None
        if udp + length > len(p):
            account.truncated += 1
            return None
        alike += [udp + 4, udp + 5]
        return _Found(address, address_bytes, udp, length - 8, alike)

    @staticmethod
    def _network_layer(link: int, p: memoryview, alike: list[int]) -> int | None:
        """Give the offset of the IP header in a packet, noting the bytes that say so; None if it carries no IP."""
        if link in _RAW:
            return 0
        if link in (NULL, LOOP):
            if len(p) < 4:
                return None
            alike += [0, 1, 2, 3]
            little, big = int.from_bytes(p[:4], "little"), int.from_bytes(p[:4], "big")
            families = (2, *_FAMILY_6)  # in the order of the capturing machine, which need not be the file's
            return 4 if little in families or big in families else None
        if link == ETHERNET:
            at = 12
        elif link == SLL:
            at = 14
        elif link == SLL2:
            at = 0
        else:
            return None
        if len(p) < at + 2:
            return None
        kind = p[at] << 8 | p[at + 1]
        alike += [at, at + 1]
        end = 20 if link == SLL2 else at + 2
        while kind in _VLAN and len(p) >= end + 4:
            kind = p[end + 2] << 8 | p[end + 3]
            alike += [end + 2, end + 3]
            end += 4
        return end if kind in (_ETHERTYPE_4, _ETHERTYPE_6) else None

    def _rows(self, start: int, stride: int, count: int, width: int) -> NDArray[np.uint8]:
        """View ``width`` bytes at the same place in each of ``count`` records."""
        return np.ndarray((count, width), np.uint8, buffer=self.bytes, offset=start, strides=(stride, 1))

    def _layout(self, record: _Record, found: _Found) -> _Layout:
        """Note the bytes by which a record like this one is known."""
        head = record.packet - record.start
        alike = {*range(*record.alike), *(head + at for at in found.alike)}
        if self._next_generation and head == 28:
            alike |= set(range(20, 24))
        columns = np.array(sorted(alike))
        return _Layout(found, columns, self.bytes[record.start + columns])

    def _run(self, record: _Record, layout: _Layout) -> int:
        """Count the records from this one on that have its size and this layout."""
        most, count, reach = min(_MOST, (self.bytes_total - record.start) // record.size), 0, 4
        width = int(layout.columns[-1]) + 1
        if width > record.size:
            return 0
        while count < most:  # look further ahead as long as it pays
            n = min(reach, most - count)
            rows = self._rows(record.start + count * record.size, record.size, n, width)
            same = (rows[:, layout.columns] == layout.pattern).all(axis=1)
            if not same.all():
                return count + int(np.argmin(same))
            count, reach = count + n, 8 * reach
        return count

    def _batch(self, record: _Record, found: _Found, count: int) -> Batch:
        stride = record.size
        packet = record.packet
        port = self._rows(packet + found.udp + 2, stride, count, 2)
        return Batch(
            self._times(record, count),
            self._rows(packet + found.address, stride, count, found.address_bytes),
            np.ascontiguousarray(port).view(">u2").reshape(-1).astype(np.uint16),
            self._rows(packet + found.udp + 8, stride, count, found.length),
        )

    def _times(self, record: _Record, count: int) -> NDArray[np.int64]:
        ticks, offset, high_word_first = record.clock
        if not ticks:
            return np.zeros(count, np.int64)
        rows = self._rows(record.start + (12 if high_word_first else 0), record.size, count, 8)
        words = np.ascontiguousarray(rows).view(self._order + "u4").astype(np.int64)
        if not high_word_first:
            return words[:, 0] * 1_000_000_000 + words[:, 1] * (1_000_000_000 // ticks)
        whole, shift = 1_000_000_000 // ticks, offset * 1_000_000_000
        latest = (int(words[:, 0].max()) + 1 << 32) * whole + abs(shift)
        if latest < _END and whole * ticks == 1_000_000_000:
            return (words[:, 0] << 32 | words[:, 1]) * whole + shift
        if ticks > _FINEST:
            return np.full(count, np.clip(shift, -_END, _END), np.int64)
        exact = [(int(h) << 32 | int(low)) * 1_000_000_000 // ticks + shift for h, low in words]
        return np.array([min(max(time, -_END), _END) for time in exact], np.int64)
