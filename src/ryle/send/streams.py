"""Which streams a sender sends: their addresses, the header fields that tell them apart, and who shares a counter.

An array is ``sources`` boards (antennas, F-engines, stations), each of which sends to every destination: a stream is
one source's packets to one destination. Fields of ``timestamp.stream`` that place antennas or inputs count sources,
those that place channels count destinations; fields that place nothing (an X-engine's number, a thread) count
whichever is not counted yet. Streams that no field tells apart share one counter and take turns in it, a burst each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ryle.config.endpoints import Endpoint
from ryle.wire.build import build
from ryle.wire.description import PLACES, Format, Total, terms

#: Payload that packets get where the format leaves their size open, bytes.
USUAL_PAYLOAD = 8192


@dataclass(slots=True)
class SendStream:
    """One stream.

    Parameters
    ----------
    to : Endpoint
        Destination.
    sender : Endpoint or None
        Own address and port; the kernel chooses the port if it is 0, both if None.
    source, destination : int
        Which board, which destination.
    fields : dict of str to int
        Header fields other than the timestamp's.
    header : bytes
        The header with a timestamp of zero.
    identity : int
        Its stream fields, joined: what its payload is known by. See `identity`.
    turn, turns : int
        Streams with the same identity share a counter; which burst of how many is this one's.
    """

    to: Endpoint
    sender: Endpoint | None
    source: int
    destination: int
    fields: dict[str, int] = field(default_factory=dict)
    header: bytes = b""
    identity: int = 0
    turn: int = 0
    turns: int = 1


def identity(format: Format, header: Mapping[str, int]) -> int:
    """Values of the stream fields of a header, joined: the first in the highest bits, modulo 2^64."""
    joined = 0
    for name in format.timestamp.stream:
        joined = joined << format.fields[name].width | int(header[name])
    return joined & (1 << 64) - 1


def sizes(format: Format, given: Mapping[str, int], size: int | None) -> tuple[dict[str, int], int, int]:
    """Settle the fields that give the payload's shape.

    Parameters
    ----------
    format : Format
        Description.
    given : mapping of str to int
        Fields that are set.
    size : int, optional
        Bytes that a packet (a UDP payload) is to have. If absent, the one possible size, or what 8192 bytes of samples
        need.

    Returns
    -------
    fields : dict of str to int
        Values of the fields that give sizes of axes.
    payload, trailer : int
        Bytes of the samples and of what follows them.

    Raises
    ------
    ValueError
        If no packet has this size.
    """
    shape, sample = format.payload.size, format.sample
    fields = {s: given[s] for s in shape.values() if isinstance(s, str) and s in given}
    open_fields = [s for a in format.payload.order if isinstance(s := shape[a], str) and s not in fields]
    bits = sample.bits * sample.parts
    for s in shape.values():
        bits *= s if isinstance(s, int) else fields.get(s, 1)
    trailers = format.payload.trailer_bytes
    for trailer in trailers if size is not None else trailers[:1]:
        room = 8 * ((size - format.header.bytes - trailer) if size is not None else USUAL_PAYLOAD)
        chosen = _fill(format, open_fields, max(1, room // bits), exact=size is not None)
        total = bits
        for value in chosen.values():
            total *= value
        payload = (total + 7) // 8
        if size is None or 8 * payload == room:
            return fields | chosen, payload, trailer
    fixed = not open_fields
    least = (bits + 7) // 8
    possible = [format.header.bytes + least + t for t in trailers]
    below = max(1, ((size or 0) - format.header.bytes - trailers[0]) // least)
    near = [format.header.bytes + trailers[0] + least * n for n in (below, below + 1)]
    remedy = (
        f"packets have {' or '.join(map(str, possible))} bytes" + (", with the fields that are set" if fields else "")
        if fixed
        else f"the nearest have {near[0]} and {near[1]}"
    )
    raise ValueError(f"no {format.name} packet has {size} bytes; {remedy}")


def _fill(format: Format, names: Sequence[str], budget: int, exact: bool) -> dict[str, int]:
    """Find values for open sizes with a product of at most `budget`: powers of two, and the first takes the rest.

    If it is to be `exact`, the powers of two divide the budget.
    """
    chosen: dict[str, int] = {}
    for left in range(len(names), 0, -1):
        name = names[left - 1]
        field = format.fields[name]
        value = budget if left == 1 else 1 << (budget.bit_length() - 1) // left
        if exact and left > 1:
            value = min(value, budget & -budget)
        chosen[name] = max(1, field.low, min(value, field.high))
        budget = max(1, budget // chosen[name])
    return chosen


def part_bytes(format: Format, size: int | None) -> int:
    """Settle how much of a heap's payload its packets hold.

    Parameters
    ----------
    format : Format
        Description with heaps of several packets, laid out.
    size : int, optional
        Bytes that a packet (a UDP payload) is to have. If absent, 8192 bytes of the heap and the header.

    Raises
    ------
    ValueError
        If heaps are not cut so; says what is near.
    """
    assert format.heap is not None
    part = USUAL_PAYLOAD if size is None else size - format.header.bytes
    if part >= format.heap_bytes[0]:
        return -(-format.heap_bytes[0] // 8) * 8
    unit = math.lcm(8, format.heap.unit)
    if part < unit or part % unit:
        below = format.header.bytes + max(1, part // unit) * unit
        raise ValueError(
            f"no {format.name} packet has {size} bytes: they hold multiples of {unit} bytes of a heap behind "
            f"{format.header.bytes} of header; the nearest have {below} and {below + unit}"
        )
    return part


def streams(
    format: Format,
    to: Sequence[Endpoint],
    sender: Sequence[Endpoint] = (),
    sources: int = 1,
    given: Mapping[str, int] | None = None,
    size: int | None = None,
    copies: int = 1,
) -> tuple[list[SendStream], int, int]:
    """Lay out the streams of an array.

    Parameters
    ----------
    format : Format
        Description.
    to, sender : sequence of Endpoint
        Destinations; own addresses, that of source ``k`` being the ``k``-th, over and over.
    sources : int
        Boards, each of which sends to every destination.
    given : mapping of str to int, optional
        Header fields: of stream fields the first value, of others the value.
    size : int, optional
        See `sizes`.
    copies : int
        How many streams are to share the work of one, taking turns in its counter: for more threads than streams.

    Returns
    -------
    streams : list of SendStream
        Sources taking turns, then destinations.
    payload, trailer : int
        Bytes of a packet's samples, and of what follows; all of a heap's payload, and 0, if packets are parts of heaps.

    Raises
    ------
    ValueError
        If a field is unknown or cannot say a number that is needed.
    """
    given = dict(given or {})
    if unknown := sorted(set(given) - set(format.fields)):
        raise ValueError(f"{format.name} has no field {', '.join(unknown)}; there are {', '.join(format.fields)}")
    if clash := sorted(set(given) & set(terms(format.timestamp.count))):
        raise ValueError(f"{', '.join(clash)} counts time; say where it begins with --start")
    for name, value in given.items():
        if not format.fields[name].low <= value <= format.fields[name].high:
            low, high = format.fields[name].low, format.fields[name].high
            raise ValueError(f"{name} = {value}: allowed are {low} to {high}")
    if format.heap is None:
        shape, payload, trailer = sizes(format, given, size)
    else:
        if own := sorted(set(given) & {*terms(format.heap.offset), *terms(format.heap.bytes), format.heap.number}):
            raise ValueError(f"{', '.join(own)}: the sender says which part of which heap a packet is; leave it out")
        shape, payload, trailer = {}, format.heap_bytes[0], 0
    base = {name: f.low for name, f in format.fields.items()} | given | shape
    _state_length(format, base, given, format.header.bytes + payload + trailer)
    counted = _Counted(format, base)
    found = [
        SendStream(to[d], sender[s % len(sender)] if sender else None, s, d, counted.fields(s, d, sources, len(to)))
        for s in range(sources)
        for d in range(len(to))
        for _ in range(copies)
    ]
    groups: dict[int, list[SendStream]] = {}
    time = set(terms(format.timestamp.count))
    for stream in found:
        stream.identity = identity(format, stream.fields)
        fields = {name: 0 if name in time else value for name, value in stream.fields.items()}
        stream.header = build(format, fields, b"")[: format.header.bytes]
        stream.fields = {name: value for name, value in stream.fields.items() if name not in time}
        groups.setdefault(stream.identity, []).append(stream)
    for group in groups.values():
        for turn, stream in enumerate(group):
            stream.turn, stream.turns = turn, len(group)
    return found, payload, trailer


def _state_length(format: Format, base: dict[str, int], given: Mapping[str, int], size: int) -> None:
    """Set the fields in which the header says how long the packet is."""
    length = format.validity.length
    if length is None:
        return
    rest = size - length.get("add", 0)
    factors = terms(length)
    free = [n for n in factors if n not in given and format.fields[n].low != format.fields[n].high]
    rest -= sum(base[n] * factor for n, factor in factors.items() if n not in free)
    base |= _decompose(format, {n: factors[n] for n in free}, rest, f"packets of {size} B")


def _decompose(format: Format, factors: Mapping[str, int], number: int, what: str) -> dict[str, int]:
    """Say a number as a sum of fields times factors, the largest factor first."""
    values = {}
    for name, factor in sorted(factors.items(), key=lambda term: -term[1]):
        values[name] = min(number // factor, format.fields[name].high) if number > 0 else 0
        number -= values[name] * factor
    if number:
        limits = ", ".join(f"{n} goes to {format.fields[n].high}" for n in factors)
        raise ValueError(f"{what}: {number} too many for the header{f' ({limits})' if limits else ''}; take fewer")
    return values


class _Counted:
    """Values of the stream fields by source and destination."""

    def __init__(self, format: Format, base: dict[str, int]) -> None:
        self._format, self._base = format, base
        placed: set[str] = set()
        #: Sums that count sources and destinations, with what one step adds to them.
        self._sources: list[tuple[Total, int]] = []
        self._destinations: list[tuple[Total, int]] = []
        stream = set(format.timestamp.stream)
        # Where both are placed, an input's number is the finer one: it comes after the antenna's and has its way.
        for place, total in sorted(format.placement.items(), key=lambda item: PLACES.index(item[0])):
            own = {name: factor for name, factor in terms(total).items() if name in stream}
            if own:
                size = format.payload.size.get(place, 1)
                step = base[size] if isinstance(size, str) else size
                (self._destinations if place == "channel" else self._sources).append((own, step * total.get("over", 1)))
                placed |= set(own)
        if free := [name for name in format.timestamp.stream if name not in placed]:
            own, factor = {}, 1
            for name in reversed(free):
                own[name] = factor
                factor *= format.fields[name].high + 1
            (self._destinations if self._sources else self._sources).append((own, 1))

    def fields(self, source: int, destination: int, sources: int, destinations: int) -> dict[str, int]:
        """Give all fields of a stream."""
        if not self._destinations:  # one number counts both
            source = source * destinations + destination
        elif not self._sources:
            destination += source * destinations
        values = dict(self._base)
        for sums, index, what in (
            (self._sources, source, "source"),
            (self._destinations, destination, "destination"),
        ):
            for factors, step in sums:
                first = sum(self._base[name] * factor for name, factor in factors.items())
                values |= _decompose(self._format, factors, first + index * step, f"{what} {index}")
        return values
