"""Packets of any described format: header fields, validity, time and place of many at once, and samples.

`ryle.wire.build` makes such packets.

Timestamps are unwrapped: a counter of period P stands for the number congruent to it modulo P that is nearest to the
timestamp of the valid packet before it (in the order of parsing; exactly P/2 away counts as earlier), so late packets
and gaps of up to half a period keep their place. The first packet stands for itself; `Parser.start_at` says where to
begin instead. A 64-bit counter never wraps; counts of 2^63 and above make a packet invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, parts_from_rows
from ryle.wire import _native
from ryle.wire.description import PLACES, Format, Total, terms
from ryle.wire.verdicts import ABSENT, Fields, Reason, summed

__all__ = ["ABSENT", "Fields", "Packets", "Parser", "Reason", "compiled"]

Packets = Sequence[bytes] | NDArray[np.uint8]
_CODES = ("twos_complement", "offset_binary", "symmetric", "unsigned", "float")


def compiled(format: Format) -> _native.Layout:
    """Turn a description into what native code reads (``native/wire/layout_binding.h``)."""
    format.usable()
    index = {name: i for i, name in enumerate(format.fields)}
    items = {key: i for i, key in enumerate(format.items)}
    header, sample, payload, heap = format.header, format.sample, format.payload, format.heap

    def total(given: Total | None) -> _native.Sum:
        given = given or {}
        return [(index[k], v) for k, v in terms(given).items()], given.get("add", 0), given.get("over", 1)

    sizes = [payload.size[axis] for axis in payload.order]
    length = format.validity.length
    return (
        header.bytes,
        [
            (
                *(f.byte, f.bytes, f.shift, f.width, (f.endian or header.endian) == "big", f.low, f.high),
                -1 if f.item is None else items[f.item],
                f.default if f.default is not None else 0 if f.control else ABSENT,
            )
            for f in header.field
        ],
        -1 if header.items is None else index[header.items],
        [
            (key, any(f.control for f in fields), next((f.stop for f in fields if f.stop is not None), ABSENT))
            for key, fields in format.items.items()
        ],
        list(payload.trailer_bytes),
        [(0, index[size]) if isinstance(size, str) else (size, -1) for size in sizes],
        []
        if heap is None
        else [
            (
                [] if heap.length is None else [total(heap.length)],
                *(total(heap.offset), total(heap.bytes), heap.unit, heap.packets == "one"),
            )
        ],
        sample.bits,
        sample.parts,
        _CODES.index(sample.code),
        sample.bit_order == "msb",
        [] if length is None else [total(length)],
        total(format.timestamp.count),
        format.period if format.period <= 1 << 63 else 0,
        [total(format.placement[place]) for place in PLACES if place in format.placement],
    )


class Parser:
    """Take packets of one format apart, natively.

    Parameters
    ----------
    format : Format
        Description; compiled here, once.
    """

    def __init__(self, format: Format) -> None:
        self.format = format
        sample = format.sample
        self._places = [place for place in PLACES if place in format.placement]
        self._header = np.dtype([(name, np.uint64) for name in format.fields])
        self._native = _native.PacketParser(compiled(format))
        narrow = sample.bits <= 8 if sample.code in ("twos_complement", "offset_binary") else sample.bits <= 7
        self._dtype: np.dtype[Any] = np.dtype(np.int8 if narrow else np.int16)
        if sample.bits > 16:
            order = ">" if sample.bit_order == "msb" else "<"
            self._dtype = np.dtype(f"{order}{'f' if sample.code == 'float' else 'i'}{sample.bits // 8}")

    def start_at(self, timestamp: int | None) -> None:
        """Unwrap the next packet's counter around this timestamp; None: take the next packet's counter as it is."""
        if timestamp is None:
            self._native.forget()
        else:
            self._native.set_reference(timestamp)

    def parse(
        self, packets: Packets, starts: NDArray[np.int64] | None = None, lengths: NDArray[np.int64] | None = None
    ) -> Fields:
        """Read the headers of many packets.

        Parameters
        ----------
        packets : sequence of bytes, or ndarray of uint8
            Packets (UDP payloads): one by one; as rows of an array of shape (packet, bytes), whose rows may lie apart;
            or one buffer of shape (bytes,) with `starts` and `lengths`.
        starts, lengths : ndarray of int64, shape (packet,)
            Where each packet lies in the buffer.

        Raises
        ------
        ValueError
            If the packets are given in none of these ways.
        IndexError
            If a packet reaches beyond the buffer.
        """
        in_buffer = isinstance(packets, np.ndarray) and packets.ndim == 1
        if in_buffer != (starts is not None and lengths is not None):
            raise ValueError(
                "give both starts and lengths with a one-dimensional buffer, and neither with anything else"
            )
        n = len(starts) if starts is not None else len(packets)
        values = np.zeros((n, len(self.format.header.field)), np.uint64)
        reasons = np.zeros(n, np.uint8)
        details, timestamps = np.zeros((n, 5), np.int64), np.zeros(n, np.int64)
        places = np.zeros((n, len(self._places)), np.int64)
        out = values, reasons, details, timestamps, places
        if not isinstance(packets, np.ndarray):
            self._native.parse_bytes(list(packets), *out)
        elif starts is not None and lengths is not None:
            self._native.parse_buffer(packets, starts, lengths, *out)
        else:
            self._native.parse_rows(packets, *out)
        place = {name: np.ascontiguousarray(places[:, i]) for i, name in enumerate(self._places)}
        return Fields(
            header=values.view(self._header).reshape(n),
            valid=reasons == 0,
            reason=reasons,
            timestamp=timestamps,
            antenna=place.get("antenna", np.full(n, -1)),
            input=place.get("input", np.full(n, -1)),
            channel=place.get("channel", np.full(n, -1)),
            payload=details[:, 2],
            bytes=details[:, 3],
            offset=details[:, 4],
            _details=details,
            _format=self.format,
        )

    def shape(self, header: Any = None) -> tuple[int, ...]:
        """Sizes of the axes of decoded samples, in canonical order; `header` is needed if it holds some of them."""
        size = self.format.payload.size
        return tuple(int(header[s]) if isinstance(s := size[axis], str) else s for axis in self.format.axes)

    def decode(self, packets: Packets, *, integers: bool = False) -> NDArray[Any]:
        """Decode the samples of valid packets.

        Parameters
        ----------
        packets : sequence of bytes, or ndarray of uint8, shape (packet, bytes)
            Whole packets, header included, of one shape. Those that hold parts of heaps are put together: the packets
            of one heap after those of the other, in any order within a heap (see `heaps`).
        integers : bool
            Give numbers as sent, instead of floating point.

        Returns
        -------
        ndarray, shape (packet or heap, axes...) or (packet or heap, axes..., 2)
            The axes are `Format.axes`, a subsequence of `ryle.wire.tables.AXES`. complex64, or float32 for real
            samples, of twice the width if samples have more than 16 bits and are not float32; with `integers` int8, or
            what the code needs, complex samples with (re, im) on a last axis.

        Raises
        ------
        ValueError
            If a packet is not valid, of another shape than the first, or a heap is not complete.
        """
        format = self.format
        shape = self._sizes_in(packets)
        parts = format.sample.parts
        count = int(np.prod(shape)) * parts
        if format.heap is not None:
            flat = self.values(self.heaps(packets), count)
        elif format.sample.bits > 16:
            rows = [self._native_payload(i, bytes(packet)) for i, packet in enumerate(packets)]
            flat = self.values(np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1), count)
        else:
            flat = np.empty((len(packets), count), self._dtype)
            if isinstance(packets, np.ndarray):
                self._native.decode_rows(packets, flat)
            else:
                self._native.decode_bytes(list(packets), flat)
        if format.sample.arranged == "rows":
            flat = parts_from_rows(flat.reshape(len(flat), -1, 2 * BLOCK))
        wire = flat.reshape(len(flat), *(shape[format.axes.index(axis)] for axis in format.payload.order), parts)
        order = [1 + format.payload.order.index(axis) for axis in format.axes]
        canonical = wire.transpose(0, *order, wire.ndim - 1)
        if format.sample.first == "imag":
            canonical = canonical[..., ::-1]
        if integers:
            native = self._dtype.newbyteorder("=")
            return np.ascontiguousarray(canonical if parts == 2 else canonical[..., 0], native)
        single = self._dtype.itemsize <= 2 or self._dtype.str[1:] == "f4"
        values = np.ascontiguousarray(canonical, np.float32 if single else np.float64)
        return values.view(np.complex64 if single else np.complex128)[..., 0] if parts == 2 else values[..., 0]

    def heaps(self, packets: Packets) -> NDArray[np.uint8]:
        """Put the payloads of heaps together.

        Parameters
        ----------
        packets : sequence of bytes, or ndarray of uint8, shape (packet, bytes)
            Valid packets, those of one heap after those of the other.

        Returns
        -------
        ndarray of uint8, shape (heap, bytes)
            What stands behind the samples in some heaps (`Format.heap_bytes`) is 0 in the others.

        Raises
        ------
        ValueError
            If a packet is not valid, or a heap is not complete.
        """
        heap = self.format.heap
        if heap is None:
            raise ValueError(f"{self.format.name} has no heaps: its packets stand for themselves")
        fields = Parser(self.format).parse(packets)
        whole: list[NDArray[np.uint8]] = []
        left = 0
        for i in range(len(packets)):
            if not fields.valid[i]:
                raise ValueError(f"packet {i} is not a valid {self.format.name} packet: {fields.explain(i)}")
            if not left:
                header = {name: int(fields.header[name][i]) for name in self.format.fields}
                left = self.format.heap_bytes[0] if heap.length is None else summed(heap.length, header)
                whole.append(np.zeros(max(self.format.heap_bytes), np.uint8))
                came = np.zeros(left, np.bool_)
            part = slice(int(fields.offset[i]), int(fields.offset[i] + fields.bytes[i]))
            if part.stop > len(came) or came[part].any():
                raise ValueError(f"packet {i} is of another heap than those before it, which lacks {left} bytes")
            came[part] = True
            left -= part.stop - part.start
            at = int(fields.payload[i])
            whole[-1][part] = np.frombuffer(bytes(packets[i])[at : at + part.stop - part.start], np.uint8)
        if left:
            raise ValueError(f"the last heap lacks {left} bytes")
        return np.array(whole).reshape(len(whole), max(self.format.heap_bytes))

    def _native_payload(self, number: int, packet: bytes) -> bytes:
        fields = Parser(self.format).parse([packet])
        if not fields.valid[0]:
            raise ValueError(f"packet {number} is not a valid {self.format.name} packet: {fields.explain(0)}")
        at = int(fields.payload[0])
        return packet[at : at + int(fields.bytes[0])]

    def values(self, payloads: NDArray[np.uint8], count: int) -> NDArray[Any]:
        """Give the first `count` numbers of payloads, shape (payload, bytes), in their order: (payload, count)."""
        used = np.ascontiguousarray(payloads[:, : (count * self.format.sample.bits + 7) // 8])
        if self.format.sample.bits > 16:
            return used.view(self._dtype)
        flat = np.empty((len(used), count), self._dtype)
        self._native.decode_payloads(used, flat)
        return flat

    def _sizes_in(self, packets: Packets) -> tuple[int, ...]:
        if self.format.fixed:
            return self.shape()
        if not len(packets):
            return tuple(s if isinstance(s := self.format.payload.size[axis], int) else 0 for axis in self.format.axes)
        first = Parser(self.format).parse([bytes(packets[0])])  # its own parser: decoding must not move the clock
        if not first.valid[0]:
            raise ValueError(f"packet 0 is not a valid {self.format.name} packet: {first.explain(0)}")
        return self.shape(first.header[0])
