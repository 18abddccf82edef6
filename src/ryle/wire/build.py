"""Packets of any described format, made: one with its header and samples, or all of a heap's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, rows_from_parts
from ryle.wire.description import Format, Total, terms
from ryle.wire.tables import ITEM_BITS


def build(format: Format, fields: Mapping[str, int], samples: NDArray[Any] | bytes) -> bytes:
    """Make a packet: the inverse of `Parser.parse` and `Parser.decode`.

    Parameters
    ----------
    format : Format
        Description.
    fields : mapping of str to int
        Header fields. Those left out are their one allowed value, the sizes of `samples`, what is true of the heap
        that the packet is all of, or else the least allowed; items that are optional are left out of the packet too.
    samples : bytes or ndarray, shape (axes...) or (axes..., 2)
        The payload as it is sent, or samples as `Parser.decode` gives them for one packet: integers or floating point.

    Raises
    ------
    ValueError
        If a field is unknown or does not fit, or samples have another shape or values without a code.
    """
    format.usable()
    values = {f.name: f.low for f in format.header.field}
    if unknown := sorted(set(fields) - set(values)):
        raise ValueError(f"{format.name} has no field {', '.join(unknown)}; there are {', '.join(values)}")
    if not isinstance(samples, bytes):
        for axis, length in zip(format.axes, samples.shape, strict=False):
            size = format.payload.size[axis]
            if isinstance(size, str):
                values[size] = length
    given = {name: int(value) for name, value in fields.items()}
    values |= given
    payload = samples if isinstance(samples, bytes) else _encode(format, values, samples)
    if format.heap is None or not isinstance(samples, bytes):
        payload += bytes(format.payload.trailer_bytes[0])
    if format.heap is not None:
        for total in (format.heap.length, format.heap.bytes):
            if total is not None:
                _say(format, total, len(payload), given, values)
    return _header(format, values, given) + payload


def build_heap(
    format: Format, fields: Mapping[str, int], samples: NDArray[Any] | bytes, packet_bytes: int = 8192
) -> list[bytes]:
    """Make the packets of a heap.

    Parameters
    ----------
    format : Format
        Description with heaps.
    fields, samples
        As for `build`; bytes are the payload of the whole heap.
    packet_bytes : int
        Bytes of the payload that a packet holds.

    Raises
    ------
    ValueError
        As `build` does, or if the format has no heaps.
    """
    if format.heap is None:
        raise ValueError(f"{format.name} has no heaps: each of its packets stands for itself")
    whole = samples if isinstance(samples, bytes) else _encode(format, {}, samples)
    if not isinstance(samples, bytes):
        whole += bytes(format.payload.trailer_bytes[0])
    made = []
    for at in range(0, len(whole), packet_bytes):
        values = dict(fields)
        if format.heap.length is not None:
            _say(format, format.heap.length, len(whole), fields, values)
        _say(format, format.heap.offset, at, fields, values)
        made.append(build(format, values, whole[at : at + packet_bytes]))
    return made


def _say(format: Format, total: Total, number: int, given: Mapping[str, int], values: dict[str, int]) -> None:
    """Set those fields of a sum that are not given, so that it is a number; the greatest factors first."""
    factors = terms(total)
    left = number - total.get("add", 0) - sum(given[name] * factors[name] for name in factors if name in given)
    for name, factor in sorted(factors.items(), key=lambda term: -term[1]):
        if name not in given:
            values[name] = min(max(0, left // factor), (1 << format.fields[name].width) - 1)
            left -= values[name] * factor


def _header(format: Format, values: Mapping[str, int], given: Mapping[str, int]) -> bytes:
    """Make a header; of optional items those that have a given field."""
    items = {
        key: fields for key, fields in format.items.items() if any(f.name in given or not f.optional for f in fields)
    }
    counted = {} if format.header.items is None else {format.header.items: given.get(format.header.items, len(items))}
    start = bytearray(format.header.bytes)
    words = dict.fromkeys(items, 0)
    for field in format.header.field:
        value = counted.get(field.name, values[field.name])
        if not 0 <= value < 1 << field.width:
            raise ValueError(f"{field.name} = {value}: allowed are 0 to {(1 << field.width) - 1}")
        if field.item is not None:
            if field.item in words:
                words[field.item] |= value << field.shift
            continue
        place = slice(field.byte, field.byte + field.bytes)
        endian = field.endian or format.header.endian
        word = int.from_bytes(start[place], endian) | value << field.shift
        start[place] = word.to_bytes(field.bytes, endian)
    return bytes(start) + b"".join((key << ITEM_BITS | word).to_bytes(8, "big") for key, word in words.items())


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
    if sample.bits > 16:
        return _encode_wide(format, wire)
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


def _encode_wide(format: Format, wire: NDArray[Any]) -> bytes:
    """Make the payload of samples of 32 or 64 bits."""
    sample = format.sample
    order = ">" if sample.bit_order == "msb" else "<"
    with np.errstate(over="ignore", invalid="ignore"):
        codes = wire.astype(f"{order}{'f' if sample.code == 'float' else 'i'}{sample.bits // 8}")
    if not np.array_equal(codes, wire, equal_nan=codes.dtype.kind == "f"):
        raise ValueError(f"samples have values that {sample.bits}-bit {sample.code} does not have; quantize them first")
    return codes.tobytes()
