"""What an assembler's chunks look like, how long they wait for packets (`ryle.receive.assembly` says what follows)."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ryle.receive import _native
from ryle.wire.description import Format
from ryle.wire.packets import compiled

#: The name, among a head's fields, of the port that a packet came to (its number in the source's list).
PORT = "port"


def grid(format: Format, **values: int | Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """List all combinations of the fields that tell a format's streams apart, the first field the slowest.

    Parameters
    ----------
    format : Format
        Packet format.
    **values : int or iterable of int
        Values of each field of ``format.timestamp.stream``, such as ``fid=range(16), xid=3``; and of `PORT`, if ports
        tell streams apart.

    Raises
    ------
    ValueError
        If a field is missing or is not one of these.
    """
    names = [*format.timestamp.stream, *([PORT] if PORT in values else [])]
    if set(values) != set(names):
        raise ValueError(f"{format.name}: give values of {', '.join(names) or 'nothing'}, not of {', '.join(values)}")
    lists = [[v] if isinstance(v := values[name], int) else list(v) for name in names]
    return tuple(itertools.product(*lists))


@dataclass(frozen=True, slots=True)
class Part:
    """One packet of a heap of several.

    Parameters
    ----------
    offset : int
        Byte of the heap's payload at which its samples begin.
    bytes : int
        Of samples; a packet with this offset and another length is malformed.
    place : int
        Byte of the cell at which they are put.
    optional : bool
        Whether nobody misses it: it is counted if it comes.
    """

    offset: int
    bytes: int
    place: int
    optional: bool = False


def heap_parts(nbytes: int, packet_bytes: int, place: int = 0) -> tuple[Part, ...]:
    """Cut a heap as senders do: all packets but the last are equally long.

    Parameters
    ----------
    nbytes : int
        Bytes of the heap's payload.
    packet_bytes : int
        Bytes of it in a packet.
    place : int
        Byte of the cell at which the heap begins.
    """
    starts = range(0, nbytes, packet_bytes)
    return tuple(Part(at, min(packet_bytes, nbytes - at), place + at) for at in starts)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where heads lie in a chunk, if not one behind the other.

    Parameters
    ----------
    shape : tuple of int
        Of the chunk's data, in bytes. Bytes that belong to no packet stay zero.
    offsets : sequence of int
        Byte at which each head's first packet begins.
    stride : int
        Bytes from one packet of a head to the next.
    """

    shape: tuple[int, ...]
    offsets: Sequence[int]
    stride: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What chunks look like and how long they wait for packets.

    Parameters
    ----------
    format : Format
        Packet format.
    heads : sequence of tuple of int
        The streams to place, as `grid` gives them. Their order is the order in the chunk.
    packets : int
        Packets of each head in a chunk.
    chunks : int
        Chunks in the ring; at least one more than are open at once (`open_most`). More give consumers more time.
    window : int
        How far packets of one head may be out of order, in units of the timestamp.
    skew : int, optional
        How far the heads' times may be apart, in units of the timestamp; None, with `waits`: as far as memory allows.
    outage : int, optional
        Longest gap that counts as missing data, and is filled with void chunks, rather than as a clock that moved; 1000
        chunks if not given.
    origin : int
        Timestamp at which a chunk begins.
    any_phase : bool
        Whether each head's timestamps may be off the steps by any amount, always the same. Packet ``number`` is then
        the one within the step that begins at ``origin + number · step``; a note of its timestamp says when exactly.
    linger : float
        Seconds without packets, by their times of arrival, after which open chunks close; 0: they wait.
    sizes : mapping of str to int
        For formats whose headers say how large a packet is: the values of those fields. Others are malformed.
    by_port : bool
        Whether heads end with a port number: the place of a packet's port in the source's list.
    order : sequence of str, optional
        Axes of the chunk's data, slowest first: "head", "packet" and the payload's, such as
        ``("channel", "packet", "time", "head", "input")``. By default ("head", "packet", bytes as on the wire).
    pointers : bool
        Keep addresses of payloads instead of copying them (see `Chunk.addresses`).
    parts : sequence of Part, optional
        For heaps of several packets: the packets of one, in order of their offsets; a cell of the chunk is then a heap.
        All but a few at the end are equally long and follow one another.
    notes : sequence of str
        Header fields that are kept for each cell, of the first of its packets that was placed (`Chunk.notes`).
    placing : Placing, optional
        Where heads lie in the chunk; excludes `order`.
    waits : bool
        Let packets wait for memory instead of dropping them: for sources that can be held up.
    senders : "first" or sequence of (str, int), optional
        Who may send: of each head the first address and port that is heard, until nothing came from there for 1 s; or
        any of these addresses or networks ("10.1.0.0/16") and ports (0: any). Packets from elsewhere are foreign,
        whatever is in them; those made in memory come from nowhere and are welcome. By default it does not matter.
    silence : float
        Seconds, by packets' times of arrival, after which a head that sends nothing is waited for no more; 0: never.
    rate : float
        Units of the timestamp in a second of arrival; 0: it is not known, or senders keep no time.
    cut : str
        What says how heaps are cut into packets, for advice.
    """

    format: Format
    heads: Sequence[tuple[int, ...]]
    packets: int
    chunks: int = 8
    window: int = 0
    skew: int | None = 0
    outage: int | None = None
    origin: int = 0
    any_phase: bool = False
    linger: float = 1.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    by_port: bool = False
    order: Sequence[str] | None = None
    pointers: bool = False
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()
    placing: Placing | None = None
    waits: bool = False
    silence: float = 1.0
    rate: float = 0.0
    cut: str = ""
    senders: Literal["first"] | Sequence[tuple[str, int]] | None = None

    @property
    def step(self) -> int:
        """Timestamp from one packet of a head to the next."""
        return self.format.timestamp.step

    @property
    def span(self) -> int:
        """Timestamp from one chunk to the next."""
        return self.packets * self.step

    @property
    def open_most(self) -> int:
        """Chunks that window and skew keep open, at most."""
        if self.skew is None:
            return self.chunks
        slack = self.window + self.skew
        return 1 if not slack else 2 + (slack - 1) // self.span

    @property
    def payload_shape(self) -> tuple[int, ...]:
        """Sizes of the payload's axes in wire order."""
        size = self.format.payload.size
        try:
            return tuple(s if isinstance(s := size[axis], int) else self.sizes[s] for axis in self.format.payload.order)
        except KeyError as error:
            raise ValueError(
                f"{self.format.name}: the size of packets is in their headers; say which with "
                f"sizes={{{error.args[0]!r}: ...}}"
            ) from None

    @property
    def payload_bytes(self) -> int:
        """Bytes of samples of a cell: of a packet, or of a heap of several."""
        if self.parts:
            return max(part.place + part.bytes for part in self.parts)
        sample = self.format.sample
        return int((int(np.prod(self.payload_shape)) * sample.parts * sample.bits + 7) // 8)

    @property
    def packet_bytes(self) -> int:
        """Bytes of the longest valid packet."""
        payload = max((part.bytes for part in self.parts), default=0) or self.payload_bytes
        return self.format.header.bytes + payload + max(self.format.payload.trailer_bytes)

    @property
    def marks_shape(self) -> tuple[int, ...]:
        """Shape of `Chunk.present`: (head, packet), or (head, packet, part) if there are several parts."""
        cells = len(self.heads), self.packets
        return (*cells, len(self.parts)) if len(self.parts) > 1 else cells

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `Chunk.data`; a last axis of bytes if the order is the wire's or a sample has several bytes."""
        if self.placing is not None:
            return self.placing.shape
        if self.order is None:
            return len(self.heads), self.packets, self.payload_bytes
        element = self._element_bytes()
        sizes = self._axis_sizes()
        return (*(sizes[axis] for axis in self.order), *((element,) if element > 1 else ()))

    def _axis_sizes(self) -> dict[str, int]:
        wire: dict[str, int] = dict(zip(self.format.payload.order, self.payload_shape, strict=True))
        return {"head": len(self.heads), "packet": self.packets, **wire}

    def _element_bytes(self) -> int:
        bits = self.format.sample.bits * self.format.sample.parts
        if bits % 8:
            raise ValueError(f"{self.format.name}: samples of {bits} bits cannot be reordered; leave order out")
        return bits // 8

    def _strides(self) -> tuple[int, int, int, list[tuple[int, int, int]]]:
        """Strides of head and packet, bytes that stay together, and the loops over them."""
        if self.order is None:
            return self.packets * self.payload_bytes, self.payload_bytes, self.payload_bytes, []
        sizes, run = self._axis_sizes(), self._element_bytes()
        if sorted(self.order) != sorted(sizes):
            raise ValueError(f"order = {tuple(self.order)} must name each of {', '.join(sizes)} once")
        to, at = {}, run
        for axis in reversed(self.order):
            to[axis] = at
            at *= sizes[axis]
        loops: list[tuple[int, int, int]] = []
        source = run
        for axis in reversed(self.format.payload.order):  # from the fastest: axes that stay together join the run
            if not loops and to[axis] == run and source == run:
                run *= sizes[axis]
            else:
                loops.insert(0, (sizes[axis], source, to[axis]))
            source *= sizes[axis]
        return to["head"], to["packet"], run, loops

    def compiled(self) -> _native.Plan:
        """Give native code's form.

        Raises
        ------
        ValueError
            If the plan cannot be carried out; the message says why.
        """
        f = self.format
        base, names = compiled(f), list(f.fields)
        fixed = {s: self.sizes[s] for s in f.payload.size.values() if isinstance(s, str) and s in self.sizes}
        fields = [
            (*entry[:5], fixed[name], fixed[name], *entry[7:]) if name in fixed else entry
            for name, entry in zip(names, base[1], strict=True)
        ]
        if self.skew is not None and self.skew < 0:
            raise ValueError(f"skew = {self.skew} must not be negative; None means as much as memory allows")
        plan = _native.Plan()
        plan.set_layout((base[0], fields, *base[2:]))
        plan.key_fields = [names.index(name) for name in f.timestamp.stream]
        plan.key_port = self.by_port
        plan.heads = [list(head) for head in self.heads]
        if unknown := set(self.notes) - set(names):
            raise ValueError(f"notes = {', '.join(sorted(unknown))}: {f.name} has the fields {', '.join(names)}")
        plan.notes = [names.index(name) for name in self.notes]
        plan.step, plan.origin, plan.packets = self.step, self.origin, self.packets
        plan.any_phase = self.any_phase
        plan.window, plan.skew = self.window, -1 if self.skew is None else self.skew
        plan.waits, plan.silence, plan.rate = self.waits, self.silence, self.rate
        if self.senders == "first":
            plan.one_sender = True
        else:
            for host, port in self.senders or ():
                network = ipaddress.ip_network(host)
                address, beyond = network.network_address.packed, 128 - network.max_prefixlen
                mapped = b"\xff\xff".rjust(12, b"\0") + address if len(address) == 4 else address
                plan.add_sender(mapped, beyond + network.prefixlen, port)
        plan.outage = 1000 * self.span if self.outage is None else self.outage
        plan.slots, plan.linger, plan.pointers = self.chunks, self.linger, self.pointers
        plan.data_bytes = int(np.prod(self.shape))
        self._place(plan)
        for part in self.parts or (Part(0, self.payload_bytes, 0),):
            plan.add_part(part.offset, part.bytes, part.place, part.optional)
        return plan

    def _place(self, plan: _native.Plan) -> None:
        if self.placing is not None:
            if self.order is not None:
                raise ValueError(f"order = {tuple(self.order)} and placing exclude each other; leave one out")
            plan.offsets, plan.stride = [int(at) for at in self.placing.offsets], self.placing.stride
            plan.run_bytes = self.payload_bytes
            return
        head, plan.stride, plan.run_bytes, loops = self._strides()
        plan.offsets = [head * h for h in range(len(self.heads))]
        for loop in loops:
            plan.add_loop(*loop)
