"""Packets of many streams to chunks of memory: what every source feeds and every consumer reads.

A chunk holds the payloads of all *heads* over the same stretch of time. A head is one stream of packets with its own
timestamps: what a format's ``timestamp.stream`` fields tell apart (PAPER: ``fid`` and ``xid``), in the order in which
`Plan.heads` lists them. Packet ``number`` of a head has timestamp ``origin + number · step``; chunk ``n`` holds numbers
``n · packets`` to ``(n + 1) · packets − 1`` of every head.

**Placing.** A payload is copied once, from the packet's buffer to its place. Where several packets have the same place,
the first stays and the others are *duplicate*. Packets that cannot be read are *malformed*, counted by reason
(`FAULTS`); those of heads that the plan does not list are *foreign*.

**Closing.** Chunks close in order of time. A chunk closes when every head has sent a packet later than its end plus
``window``, or when any head has sent one later than its end plus ``window + skew``; until then packets for it are
placed in any order. So heads may be apart by ``skew``, and packets of one head out of order by ``window``. What comes
after is *late*. Without any packet for ``linger`` seconds all open chunks close. Places that nothing came for are
zeroed and marked in `Chunk.present` before the chunk is given out; a chunk in which there is nothing at all is not
given out.

**Memory.** A ring of ``chunks``, allocated and touched once. Chunks that the consumer holds or has not fetched keep
their memory: the oldest unreleased chunk is never overwritten. Where no memory is left the newest data is dropped and
counted as *ring full*, the chunk's packets that find memory later are placed again, and the network is never held up.

**Resync.** A packet that is more than two widths of the open chunks ahead or eight behind is not believed: it is
malformed (``jump``). The clock is taken to have moved once, of the heads that sent anything lately (one of the last
1024 datagrams, or 64 a head), more than half sent two or more packets in a row that do not fit the old time and agree
with each other, at least 8 such packets in all. Then all open chunks close, `Chunk.epoch` counts up and placing begins
anew at the earliest of them: at most a few packets of a head are lost, and the next chunk is whole. One head whose
clock is wrong never moves the others. A step back of less than eight widths looks like late or repeated packets, which
networks make too: packets count only if they are more than ``window`` behind their own head, and a quarter of a chunk
of them is needed, at least 32. A step ahead of up to ``outage`` is no resync: the stretch is missing. After ``linger``
seconds of silence the next packet is believed whatever its time.

**Accounting.** ``datagrams = placed + late + duplicate + malformed + foreign`` and ``expected = placed + missing`` hold
in every `Counts`. Datagrams dropped as ring full are, like those that the kernel drops, not among ``datagrams``:
``received = datagrams + ring_full``. A head is expected from its first packet on (one that has not sent yet when a
chunk closes, from the first packet of any head on) to the end of the last closed chunk, or of the stream; missing is
known when a chunk closes. All counters have 64 bits.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ryle.wire.description import Format
from ryle.wire.packets import Packets, compiled

from . import _native
from .accounting import Account

#: Why packets are malformed: `ryle.wire.packets.Reason`, then timestamps off the steps or too far from the others.
FAULTS = ("", "short", "field", "length", "stated_length", "timestamp", "off_step", "jump")
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
    skew : int
        How far the heads' times may be apart, in units of the timestamp.
    outage : int, optional
        Longest silence that counts as missing data rather than as a clock that moved; 1000 chunks if not given.
    origin : int
        Timestamp at which a chunk begins.
    linger : float
        Seconds without packets after which open chunks close; 0: they wait.
    sizes : mapping of str to int
        For formats whose headers say how large a packet is: the values of those fields. Others are malformed.
    by_port : bool
        Whether heads end with a port number: the place of a packet's port in the source's list.
    order : sequence of str, optional
        Axes of the chunk's data, slowest first: "head", "packet" and the payload's, such as
        ``("channel", "packet", "time", "head", "input")``. By default ("head", "packet", bytes as on the wire).
    pointers : bool
        Keep addresses of payloads instead of copying them (see `Chunk.addresses`).
    """

    format: Format
    heads: Sequence[tuple[int, ...]]
    packets: int
    chunks: int = 8
    window: int = 0
    skew: int = 0
    outage: int | None = None
    origin: int = 0
    linger: float = 1.0
    sizes: Mapping[str, int] = field(default_factory=dict)
    by_port: bool = False
    order: Sequence[str] | None = None
    pointers: bool = False

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
        """Chunks that are open at once, at most."""
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
        """Bytes of samples in a packet."""
        sample = self.format.sample
        return int((int(np.prod(self.payload_shape)) * sample.parts * sample.bits + 7) // 8)

    @property
    def packet_bytes(self) -> int:
        """Bytes of the longest valid packet."""
        return self.format.header.bytes + self.payload_bytes + max(self.format.payload.trailer_bytes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `Chunk.data`; a last axis of bytes if the order is the wire's or a sample has several bytes."""
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
            (*entry[:5], fixed[name], fixed[name]) if name in fixed else entry
            for name, entry in zip(names, base[1], strict=True)
        ]
        head_stride, packet_stride, run, loops = self._strides()
        return _native.Plan(
            layout=(base[0], fields, *base[2:]),
            key_fields=[names.index(name) for name in f.timestamp.stream],
            key_port=self.by_port,
            heads=[list(head) for head in self.heads],
            step=self.step,
            origin=self.origin,
            packets=self.packets,
            window=self.window,
            skew=self.skew,
            outage=1000 * self.span if self.outage is None else self.outage,
            slots=self.chunks,
            payload_bytes=self.payload_bytes,
            head_stride=head_stride,
            packet_stride=packet_stride,
            run_bytes=run,
            loops=loops,
            pointers=self.pointers,
            linger=self.linger,
        )


@dataclass(frozen=True, slots=True)
class HeadCounts:
    """What became of each head's packets: ndarrays of int64, shape (head,)."""

    placed: NDArray[np.int64]
    late: NDArray[np.int64]
    duplicate: NDArray[np.int64]
    ring_full: NDArray[np.int64]
    jump: NDArray[np.int64]
    missing: NDArray[np.int64]

    @property
    def expected(self) -> NDArray[np.int64]:
        """Packets that should have come."""
        return self.placed + self.missing


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the packets, and where the ring's chunks are; the module's text says what is counted as what.

    Parameters
    ----------
    received : int
        All packets.
    placed, late, duplicate, malformed, foreign : int
        Those that had memory, by what became of them.
    missing : int
        Expected in the chunks that have closed, and not placed.
    ring_full : int
        Dropped because consumers held all memory.
    faults : dict of str to int
        Malformed packets by reason.
    chunks, resyncs : int
        Chunks given out or ready to be; times that the clock was taken to have moved.
    open, ready, taken, free : int
        Chunks being filled, waiting for a consumer, held by one, unused; together the ring.
    first_loss : float
        Unix time at which the first missing packet was noticed, s; 0 if none.
    """

    received: int
    placed: int
    late: int
    duplicate: int
    malformed: int
    foreign: int
    missing: int
    ring_full: int
    faults: dict[str, int]
    chunks: int
    resyncs: int
    open: int
    ready: int
    taken: int
    free: int
    first_loss: float

    @property
    def datagrams(self) -> int:
        """Packets that there was memory for."""
        return self.received - self.ring_full

    @property
    def expected(self) -> int:
        """Packets that should have come."""
        return self.placed + self.missing

    def account(self, name: str = "assembly", kernel_drops: int | None = None) -> Account:
        """Give the counts as an `Account`."""
        return Account(
            name,
            "packets",
            self.datagrams,
            self.placed,
            self.late,
            self.duplicate,
            self.malformed,
            self.foreign,
            self.expected,
            self.missing,
            kernel_drops,
        )


class Chunk:
    """Payloads of all heads over one stretch of time, to be released after use: ``with chunk: ...`` or `release`.

    Attributes
    ----------
    timestamp : int
        Of the first packet of each head, in the format's unit.
    number : int
        ``(timestamp − origin) / span``.
    epoch : int
        Counts the times that the clock was taken to have moved; timestamps compare within an epoch only.
    data : ndarray of uint8, shape `Plan.shape`
        Payloads in wire order (or the plan's), a read-only view of the ring; zeros where packets are missing. Undefined
        after `release`. Empty in pointer mode.
    present : ndarray of uint8, shape (head, packet)
        1 where the packet arrived.
    addresses : ndarray of uint64, shape (head, packet)
        In pointer mode where each payload lies, 0 if it is missing (`ryle.channelize.payloads.Payloads`); else empty.
    placed : int
        Packets that arrived.
    """

    __slots__ = ("_assembler", "_slot", "addresses", "data", "epoch", "number", "placed", "present", "timestamp")

    def __init__(self, assembler: Assembler, taken: tuple[int, int, int, int, int]) -> None:
        self._slot, self.number, self.epoch, self.timestamp, self.placed = taken
        self._assembler: Assembler | None = assembler
        self.data, self.present, self.addresses = assembler._views[self._slot]

    @property
    def slot(self) -> int:
        """Place in the ring."""
        return self._slot

    @property
    def missing(self) -> int:
        """Packets that did not arrive."""
        return int(self.present.size) - self.placed

    def release(self) -> None:
        """Give the memory back to the ring; the arrays must not be used any more. Doing it twice does nothing."""
        if self._assembler is not None:
            self._assembler.native.release(self._slot)
            self._assembler = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Assembler:
    """Put packets where they belong. Any number of sources' threads feed it, any number of consumers read it.

    Parameters
    ----------
    plan : Plan
        What chunks look like.
    memory : ndarray of uint8, shape (at least `memory_bytes`,), optional
        Memory for the ring that begins on a 4096-byte page: page-locked (`ryle.gpu.Gpu.pinned`) or shared with other
        processes. By default it is allocated here, in huge pages if the system has set some aside.

    Attributes
    ----------
    native : Sink
        What native sources hand packets to; ``native.address`` is the ``ryle::Sink *`` of ``native/net/sink.h``.
    """

    def __init__(self, plan: Plan, memory: NDArray[np.uint8] | None = None) -> None:
        self.plan = plan
        self.native = _native.Assembler(plan.compiled(), memory)
        ring = self.native.memory
        ring.flags.writeable = False
        cells = len(plan.heads) * plan.packets
        nothing = np.empty(0, np.uint8)
        self._views: list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint64]]] = []
        for slot in range(plan.chunks):
            at = slot * self.native.slot_bytes
            size = 8 * cells if plan.pointers else cells * plan.payload_bytes
            body, marks = ring[at : at + size], at + (size + 4095) // 4096 * 4096
            present = ring[marks : marks + cells].reshape(len(plan.heads), plan.packets)
            if plan.pointers:
                self._views.append((nothing, present, body.view(np.uint64).reshape(present.shape)))
            else:
                self._views.append((body.reshape(plan.shape), present, nothing.view(np.uint64)))

    @staticmethod
    def memory_bytes(plan: Plan) -> int:
        """Bytes of memory that a plan's ring takes."""
        return plan.compiled().memory_bytes

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The whole ring, to register with a device (``cuMemHostRegister``); a read-only view."""
        ring = self.native.memory
        ring.flags.writeable = False
        return ring

    @property
    def slot_bytes(self) -> int:
        """Bytes of the ring from one chunk to the next; `Chunk.slot` counts them."""
        return self.native.slot_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of the pages that hold the ring: 2097152 if they are huge."""
        return self.native.page_bytes

    def take(
        self,
        packets: Packets,
        starts: NDArray[np.int64] | None = None,
        lengths: NDArray[np.int64] | None = None,
        *,
        port: int = 0,
    ) -> None:
        """Place packets that Python has, given as to `Parser.parse`; `port` is their port's number."""
        if starts is not None and lengths is not None:
            self.native.take_buffer(np.asarray(packets), starts, lengths, port)
        elif isinstance(packets, np.ndarray):
            self.native.take_rows(packets, port)
        else:
            self.native.take_bytes(list(packets), port)

    def next(self, timeout: float = 1.0) -> Chunk | None:
        """Wait for the next chunk in order of time.

        Parameters
        ----------
        timeout : float
            Seconds.

        Returns
        -------
        Chunk or None
            None if there was none in time, or at the end (`ended`).
        """
        end = time.monotonic() + timeout
        while True:  # in turns, so that Ctrl-C is heard
            left = end - time.monotonic()
            taken = self.native.next(min(max(left, 0.0), 0.1))
            if taken[0] >= 0:
                return Chunk(self, taken)
            if left <= 0.1 or self.ended:
                return None

    def __iter__(self) -> Iterator[Chunk]:
        """Go through all chunks until `finish`; each is released when the next is asked for."""
        while not self.ended:
            if (chunk := self.next()) is not None:
                with chunk:
                    yield chunk

    def flush(self) -> None:
        """Close all open chunks now."""
        self.native.flush()

    def finish(self) -> None:
        """Say that no more packets will come: close all open chunks, and end iteration behind them."""
        self.native.finish()

    def reopen(self) -> None:
        """Take packets again after `finish`, in a new epoch."""
        self.native.reopen()

    @property
    def ended(self) -> bool:
        """Whether `finish` was called and all chunks have been fetched."""
        return self.native.ended()

    def on_give_back(self, function: int, context: int = 0) -> None:
        """Set what is called with buffers of packets that are no longer needed (pointer mode).

        Parameters
        ----------
        function : int
            Address of a C function ``void (void *context, void *const *buffers, size_t count)``. It is called from the
            threads that take packets, with those that were not placed, and from those that release chunks.
        context : int
            Its first argument.
        """
        self.native.on_give_back(function, context)

    def counts(self) -> Counts:
        """Give all counts as they are at one moment."""
        values: dict[str, Any] = self.native.counts()
        values["faults"] = dict(zip(FAULTS[1:], values["faults"][1:], strict=True))
        values["first_loss"] *= 1e-9
        return Counts(**values)

    def head_counts(self) -> HeadCounts:
        """Give each head's counts as they are at one moment."""
        out = np.zeros((len(self.plan.heads), 6), np.int64)
        self.native.head_counts(out)
        return HeadCounts(*np.ascontiguousarray(out.T))
