"""Packets of any described format: header fields, validity, time and place of many at once; samples; and the way back.

Timestamps are unwrapped: a counter of period P stands for the number congruent to it modulo P that is nearest to the
timestamp of the valid packet before it (in the order of parsing; exactly P/2 away counts as earlier), so late packets
and gaps of up to half a period keep their place. The first packet stands for itself; `Parser.start_at` says where to
begin instead. A 64-bit counter never wraps; counts of 2^63 and above make a packet invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, parts_from_rows, rows_from_parts

from . import _native
from .description import PLACES, Format, Total

Packets = Sequence[bytes] | NDArray[np.uint8]
_CODES = ("twos_complement", "offset_binary", "symmetric", "unsigned")


class Reason(IntEnum):
    """Why a packet is not valid."""

    VALID = 0
    SHORT = 1  # shorter than the header
    FIELD = 2  # a field has a value that the format does not allow
    LENGTH = 3  # not as long as its samples need
    STATED_LENGTH = 4  # not as long as its header says
    TIMESTAMP = 5  # the count does not fit 63 bits


@dataclass(frozen=True, slots=True)
class Fields:
    """What the headers of many packets say.

    Parameters
    ----------
    header : structured ndarray of uint64, shape (packet,)
        Every header field by name, as it stands in the packet; zeros if the packet is shorter than the header.
    valid : ndarray of bool, shape (packet,)
        Whether the packet is of the format.
    reason : ndarray of uint8, shape (packet,)
        `Reason` for which it is not.
    timestamp : ndarray of int64, shape (packet,)
        Unwrapped count in the format's unit; 0 for invalid packets.
    antenna, input, channel : ndarray of int64, shape (packet,)
        First of the packet; -1 for invalid packets and where the format does not say.
    """

    header: NDArray[Any]
    valid: NDArray[np.bool_]
    reason: NDArray[np.uint8]
    timestamp: NDArray[np.int64]
    antenna: NDArray[np.int64]
    input: NDArray[np.int64]
    channel: NDArray[np.int64]
    _details: NDArray[np.int64]
    _format: Format

    def __len__(self) -> int:
        return len(self.reason)

    def explain(self, packet: int) -> str:
        """Say what is wrong with a packet; nothing if it is valid."""
        field_index, expected = (int(x) for x in self._details[packet])
        match Reason(int(self.reason[packet])):
            case Reason.VALID:
                return ""
            case Reason.SHORT:
                return f"shorter than the header of {expected} bytes"
            case Reason.FIELD:
                field = self._format.header.field[field_index]
                value = int(self.header[field.name][packet])
                allowed = f"must be {field.low}" if field.low == field.high else f"must be {field.low} to {field.high}"
                return f"{field.name} = {value} (0x{value:x}), {allowed}"
            case Reason.LENGTH if expected < 0:
                return "an axis is empty or too large: " + ", ".join(
                    f"{size} = {int(self.header[size][packet])}"
                    for size in self._format.payload.size.values()
                    if isinstance(size, str)
                )
            case Reason.LENGTH:
                return f"must be {expected} bytes long"
            case Reason.STATED_LENGTH:
                return f"the header says {expected} bytes"
            case Reason.TIMESTAMP:
                return "the timestamp does not fit 63 bits"


def compiled(format: Format) -> _native.Layout:
    """Turn a description into what native code reads (``native/wire/layout_binding.h``)."""
    index = {name: i for i, name in enumerate(format.fields)}
    sample, payload = format.sample, format.payload

    def total(given: Total) -> tuple[list[tuple[int, int]], int]:
        return [(index[k], v) for k, v in given.items() if k != "add"], given.get("add", 0)

    sizes = [payload.size[axis] for axis in payload.order]
    length = format.validity.length
    return (
        format.header.bytes,
        [
            (f.byte, f.bytes, f.shift, f.width, (f.endian or format.header.endian) == "big", f.low, f.high)
            for f in format.header.field
        ],
        list(payload.trailer_bytes),
        [(0, index[size]) if isinstance(size, str) else (size, -1) for size in sizes],
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
        self._dtype: type[np.int8] | type[np.int16] = np.int8 if narrow else np.int16

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
        details, timestamps = np.zeros((n, 2), np.int64), np.zeros(n, np.int64)
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
            Whole packets, header included, of one shape.
        integers : bool
            Give integers, as sent, instead of floating point.

        Returns
        -------
        ndarray, shape (packet, axes...) or (packet, axes..., 2)
            The axes are `Format.axes`, a subsequence of (channel, time, antenna, input, pol, element). complex64, or
            float32 for real samples; with `integers` int8, or int16 if the code needs it, complex samples with (re, im)
            on a last axis.

        Raises
        ------
        ValueError
            If a packet is not valid, or of another shape than the first.
        """
        format = self.format
        n = len(packets)
        shape = self._sizes_in(packets)
        parts = format.sample.parts
        flat: NDArray[Any] = np.empty((n, int(np.prod(shape)) * parts), self._dtype)
        if isinstance(packets, np.ndarray):
            self._native.decode_rows(packets, flat)
        else:
            self._native.decode_bytes(list(packets), flat)
        if format.sample.arranged == "rows":
            flat = parts_from_rows(flat.reshape(n, -1, 2 * BLOCK))
        wire = flat.reshape(n, *(shape[format.axes.index(axis)] for axis in format.payload.order), parts)
        order = [1 + format.payload.order.index(axis) for axis in format.axes]
        canonical = wire.transpose(0, *order, wire.ndim - 1)
        if format.sample.first == "imag":
            canonical = canonical[..., ::-1]
        if integers:
            return np.ascontiguousarray(canonical if parts == 2 else canonical[..., 0])
        values = np.ascontiguousarray(canonical, np.float32)
        return values.view(np.complex64)[..., 0] if parts == 2 else values[..., 0]

    def _sizes_in(self, packets: Packets) -> tuple[int, ...]:
        if self.format.fixed:
            return self.shape()
        if not len(packets):
            return tuple(s if isinstance(s := self.format.payload.size[axis], int) else 0 for axis in self.format.axes)
        first = Parser(self.format).parse([bytes(packets[0])])  # its own parser: decoding must not move the clock
        if not first.valid[0]:
            raise ValueError(f"packet 0 is not a valid {self.format.name} packet: {first.explain(0)}")
        return self.shape(first.header[0])


def build(format: Format, fields: Mapping[str, int], samples: NDArray[Any] | bytes) -> bytes:
    """Make a packet: the inverse of `Parser.parse` and `Parser.decode`.

    Parameters
    ----------
    format : Format
        Description.
    fields : mapping of str to int
        Header fields. Those left out are their one allowed value, the sizes of `samples`, or else the least allowed.
    samples : bytes or ndarray, shape (axes...) or (axes..., 2)
        The payload as it is sent, or samples as `Parser.decode` gives them for one packet: integers or floating point.

    Raises
    ------
    ValueError
        If a field is unknown or does not fit, or samples have another shape or values without a code.
    """
    values = {f.name: f.low for f in format.header.field}
    if unknown := sorted(set(fields) - set(values)):
        raise ValueError(f"{format.name} has no field {', '.join(unknown)}; there are {', '.join(values)}")
    if not isinstance(samples, bytes):
        for axis, length in zip(format.axes, samples.shape, strict=False):
            size = format.payload.size[axis]
            if isinstance(size, str):
                values[size] = length
    values |= {name: int(value) for name, value in fields.items()}
    header = bytearray(format.header.bytes)
    for field in format.header.field:
        value = values[field.name]
        if not 0 <= value < 1 << field.width:
            raise ValueError(f"{field.name} = {value}: allowed are 0 to {(1 << field.width) - 1}")
        place = slice(field.byte, field.byte + field.bytes)
        endian = field.endian or format.header.endian
        word = int.from_bytes(header[place], endian) | value << field.shift
        header[place] = word.to_bytes(field.bytes, endian)
    payload = samples if isinstance(samples, bytes) else _encode(format, values, samples)
    return bytes(header) + payload + bytes(format.payload.trailer_bytes[0])


def _encode(format: Format, values: Mapping[str, int], samples: NDArray[Any]) -> bytes:
    sample, size = format.sample, format.payload.size
    shape = tuple(values[s] if isinstance(s := size[axis], str) else s for axis in format.axes)
    array = np.asarray(samples)
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
    elif not sample.complex:
        array = array[..., None]
    if array.shape != (*shape, sample.parts):
        kind = "complex values, or integers with (re, im) last" if sample.complex else "real values"
        raise ValueError(f"samples of shape {samples.shape} do not fit: need {shape} of {kind}, axes {format.axes}")
    if sample.first == "imag":
        array = array[..., ::-1]
    wire = array.transpose(*(format.axes.index(axis) for axis in format.payload.order), array.ndim - 1).reshape(-1)
    if sample.arranged == "rows":
        wire = rows_from_parts(wire.reshape(-1, BLOCK, 2)).reshape(-1)
    numbers = wire.astype(np.int64)
    half, most = 1 << (sample.bits - 1), (1 << sample.bits) - 1
    offset = {"twos_complement": half, "offset_binary": half, "symmetric": most, "unsigned": 0}[sample.code]
    doubled = numbers + offset
    codes = doubled >> 1 if sample.code == "symmetric" else doubled
    whole = np.array_equal(numbers, wire) and not (sample.code == "symmetric" and np.any(doubled & 1))
    if not whole or np.any(codes < 0) or np.any(codes > most):
        raise ValueError(f"samples have values that {sample.bits}-bit {sample.code} does not have; quantize them first")
    if sample.code == "twos_complement":
        codes ^= half
    significance = np.arange(sample.bits)
    bits = (codes[:, None] >> (significance[::-1] if sample.bit_order == "msb" else significance)) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="big" if sample.bit_order == "msb" else "little").tobytes()
