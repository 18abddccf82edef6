"""Packets of many streams to chunks of memory: what every source feeds and every consumer reads.

A chunk holds the payloads of all *heads* over the same stretch of time. A head is one stream of packets with its own
timestamps: what a format's ``timestamp.stream`` fields tell apart (PAPER: ``fid`` and ``xid``), in the order in which
`Plan.heads` lists them. Packet ``number`` of a head has timestamp ``origin + number · step``; chunk ``n`` holds numbers
``n · packets`` to ``(n + 1) · packets − 1`` of every head. Such a *cell* is one packet, or a heap of several
(`Plan.parts`), which are then what is counted; parts that are optional are expected only if they come.

**Placing.** A payload is copied once, from the packet's buffer to its place. Where several packets have the same place,
the first stays and the others are *duplicate*. Packets that cannot be read are *malformed*, counted by reason
(`FAULTS`); those of heads that the plan does not list are *foreign*.

**Clocks.** Each head has a clock, the newest number at which it is believed to be. The clock follows a packet that is
ahead of it by no more than ``window``, a chunk, or 8 packets, whichever is most; one farther ahead, only when 8 packets
in a row agree. The first packet of a head in an epoch, or after it was given up, is believed within the chunks that
``window + skew`` keep open. The assembler reads no clock of its own: packets carry times of arrival, and sources say
what time it is when nothing comes (`Assembler.idle`); it does not matter how often. Without times nobody falls silent.
How long a stretch of timestamps takes to arrive is known if the plan says at what ``rate`` they count.

**Phases.** Timestamps off the steps are malformed (``off_step``), unless streams may begin at any time
(`Plan.any_phase`): then a head's first packet says by how much its own are off, and others are malformed. It has moved
when 8 packets in a row agree on it, or one of a head that is not live; places up to its newest are then late.

**Closing.** Chunks close in order of time. A chunk closes when it is full: every packet of it has been placed, optional
parts too, so that nothing more could be; what comes for it again is *duplicate*, whenever. Else it closes when the
clocks of all *live* heads are later than its end by ``window``, or those of more than half of the live heads that were
heard, by ``window + skew``: never by the newest alone, and not by half. Heads are live that were heard within the last
``silence`` seconds, at first all of them, and of a time in which nobody was heard for as long, those that were live
before it; one that sends 8 packets in a row of another time is not. With a ``rate`` a head that was not heard for as
long as ``window + skew`` take to arrive (10 ms at least) has no say in that half, so that others are held no longer
than what they were held for. What comes for a chunk that closed without it is *late*. Without any packet for ``linger``
seconds all open chunks close, and the next packet is believed whatever its time. Places that nothing came for are
zeroed and marked in `Chunk.present` before the chunk is given out.

**Senders** are looked at only if the plan says so (`Plan.senders`): packets from elsewhere are foreign.

**Early packets**, of chunks that ``window + skew`` do not keep open yet, are placed up to ``outage`` ahead if there is
memory that the chunks before them do not need; else they are dropped, ring full. They cost no other head a packet.

**Void chunks.** Within an epoch no chunk is left out: one that nothing came for, or that found no memory, is given out
in its turn, marked missing, and lies in memory that all void chunks share and nobody writes. After more void chunks in
a row than ``outage`` lasts a new epoch begins instead.

**Memory.** A ring of ``chunks``, allocated and touched once, and a void one. Chunks that the consumer holds or has not
fetched keep their memory: the oldest unreleased chunk is never overwritten. Where no memory is left the newest data is
dropped and counted as *ring full*, the chunk's packets that find memory later are placed again, and the network is
never held up. A plan that *waits* holds the thread up instead that brings the packet, once the copies for which it has
found places are made. The oldest chunk closes if a packet waits, no memory is free, and a consumer that asks finds
nothing ready: so nobody waits for ever. With ``skew=None`` that, and all heads having passed it, is all that closes a
chunk: streams may lag as far as memory reaches.

**Resync.** A packet beyond the chunks that may have memory, or eight widths of the open chunks behind, is not believed:
it is malformed (``jump``). The clock is taken to have moved once, of the live heads that sent anything lately (one of
the last 1024 datagrams, or 64 a head), more sent two or more packets in a row that do not fit the old time and agree
with each other, at least 8 such packets in all, than did not. Then all open chunks close, `Chunk.epoch` counts up and
placing begins anew at the earliest of them. A tie keeps the clock, one head never moves the others, and a lone stream
needs 8 packets in a row. With a ``rate`` a head has left its time only after nothing of it came for as long as two
packets take (10 ms at least), or after 64 in a row, so that forged packets between its own move nobody. A step back of
less than eight widths looks like late or repeated packets, which networks make too: packets count only if they are more
than ``window`` behind their own head and follow one another upwards, 8 in a row of each head. A step ahead of up to
``outage`` is no resync: the stretch is missing; but with a ``rate``, if it is longer than ``window + skew`` and less
than half of it passed in the meantime, counters leapt over it: a new epoch begins behind it, and it is missing to
nobody.

**A jump costs no packet.** What does not belong to the open time is kept, in memory that is free, until it is known
whether the clock has moved there; then it is placed, and until then counted as what it would be (``jump``, *late* or
*duplicate*). One other time is kept at once, the newest; the open chunks get its memory when they need it. In pointer
mode, and of streams that may begin at any time, nothing is kept.

**Accounting.** ``datagrams = placed + late + duplicate + malformed + foreign`` and ``expected = placed + missing`` hold
in every `Counts`. Datagrams dropped as ring full are, like those that the kernel drops, not among ``datagrams``:
``received = datagrams + ring_full``. A head is expected from its first packet on (one that has not sent yet when a
chunk closes, from the first packet of any head on) to the end of the last closed chunk, or of the stream; missing is
known when a chunk closes. A gap between epochs is missing to nobody. All counters have 64 bits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ryle.receive import _native
from ryle.receive.assembly_plan import PORT, Part, Placing, Plan, grid, heap_parts
from ryle.stream.account import Account
from ryle.wire.packets import Packets, Reason

__all__ = [
    "FAULTS",
    "PORT",
    "Assembler",
    "Chunk",
    "Counts",
    "HeadCounts",
    "Part",
    "Placing",
    "Plan",
    "grid",
    "heap_parts",
]

#: Why packets are malformed: `ryle.wire.packets.Reason`, then timestamps off the steps or too far from the others, and
#: packets that are no part of the plan's heaps.
FAULTS = (*(reason.name.lower() for reason in Reason), "off_step", "jump", "part")


_Views = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]


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
    lacking : str
        The field that the last packet without an item (fault "item") lacked; empty if there was none.
    part : (int, int), optional
        Offset and length of the last packet that is no part of the plan's heaps (fault "part"), bytes.
    chunks, voids, resyncs : int
        Chunks given out or ready to be: those with something in them, and void ones; times that a new epoch began.
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
    lacking: str
    part: tuple[int, int] | None
    chunks: int
    voids: int
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
            self.ring_full,
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
        Counts up when the clock is taken to have moved and after long gaps; no number is left out within an epoch.
    data : ndarray of uint8, shape `Plan.shape`
        Payloads in wire order (or the plan's), a read-only view of the ring; zeros where packets are missing. Undefined
        after `release`. Empty in pointer mode.
    present : ndarray of uint8, shape `Plan.marks_shape`
        1 where the packet arrived: (head, packet), or (head, packet, part) if a cell has several parts.
    notes : ndarray of uint64, shape (head, packet, note)
        Header fields `Plan.notes` of the first packet that was placed in each cell; 0 where none was.
    addresses : ndarray of uint64, shape `Plan.marks_shape`
        In pointer mode where each payload lies, 0 if it is missing (`ryle.channelize.payloads.Payloads`); else empty.
    placed : int
        Packets that arrived.
    """

    __slots__ = (
        "_assembler",
        "_handle",
        "_slot",
        "addresses",
        "data",
        "epoch",
        "notes",
        "number",
        "placed",
        "present",
        "timestamp",
    )

    def __init__(self, assembler: Assembler, taken: tuple[int, int, int, int, int, int]) -> None:
        self._handle, self._slot, self.number, self.epoch, self.timestamp, self.placed = taken
        self._assembler: Assembler | None = assembler
        self.data, self.present, self.notes, self.addresses = assembler._views[self._slot]

    @property
    def slot(self) -> int:
        """Place in the ring; ``Plan.chunks``, behind all others, if the chunk is void."""
        return self._slot

    @property
    def void(self) -> bool:
        """Whether nothing came, or nothing found memory: all zeros, which it shares with all other void chunks."""
        return self.placed == 0

    @property
    def missing(self) -> int:
        """Packets that did not arrive."""
        return int(self.present.size) - self.placed

    def release(self) -> None:
        """Give the memory back to the ring; the arrays must not be used any more. Doing it twice does nothing."""
        if self._assembler is not None:
            self._assembler.native.release(self._handle)
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
        What native sources hand packets to; ``native.address`` is the ``ryle::Sink *`` of ``native/receive/sink.h``.
    """

    def __init__(self, plan: Plan, memory: NDArray[np.uint8] | None = None) -> None:
        self.plan = plan
        compiled = plan.compiled()
        self.native = _native.Assembler(compiled, memory)
        ring = self.native.memory
        ring.flags.writeable = False
        self._views = [self._view(ring[slot * self.native.slot_bytes :], compiled) for slot in range(plan.chunks + 1)]

    def _view(self, slot: NDArray[np.uint8], compiled: _native.Plan) -> _Views:
        plan, marks, notes = self.plan, compiled.marks_at, compiled.notes_at
        count = int(np.prod(plan.marks_shape))
        present = slot[marks : marks + count].reshape(plan.marks_shape)
        noted = (len(plan.heads), plan.packets, len(plan.notes))
        kept = slot[notes : notes + 8 * int(np.prod(noted))].view(np.uint64).reshape(noted)
        nothing = np.empty(0, np.uint8)
        if plan.pointers:
            return nothing, present, kept, slot[: 8 * count].view(np.uint64).reshape(plan.marks_shape)
        return slot[: compiled.data_bytes].reshape(plan.shape), present, kept, nothing.view(np.uint64)

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
        times: NDArray[np.int64] | int = 0,
    ) -> None:
        """Place packets that Python has.

        Parameters
        ----------
        packets, starts, lengths
            As for `Parser.parse`.
        port : int
            Their port's number.
        times : ndarray of int64, shape (packet,), or int
            When each arrived, or all did, ns since 1970; 0: unknown.
        """
        if starts is not None and lengths is not None:
            count = len(starts)
        else:
            packets = packets if isinstance(packets, np.ndarray) else list(packets)
            count = len(packets)
        when = None if isinstance(times, int) and times == 0 else np.ascontiguousarray(np.broadcast_to(times, count))
        if starts is not None and lengths is not None:
            self.native.take_buffer(np.asarray(packets), starts, lengths, port, when)
        elif isinstance(packets, np.ndarray):
            self.native.take_rows(packets, port, when)
        else:
            self.native.take_bytes(list(packets), port, when)

    def idle(self, now: int) -> None:
        """Say that nothing comes, at this time, ns since 1970; sources do, and it is how silence is noticed."""
        self.native.idle(now)

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

    def stop_waiting(self) -> None:
        """Drop, from now on, what finds no memory (`Plan.waits`): sources whose threads wait can end."""
        self.native.stop_waiting()

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
        faults = zip(FAULTS, values["faults"], strict=True)
        values["faults"] = {fault: n for fault, n in faults if fault not in ("valid", "control", "stop")}
        values["first_loss"] *= 1e-9
        lacking = values["lacking"]
        values["lacking"] = "" if lacking < 0 else self.plan.format.header.field[lacking].name
        offset, nbytes = values.pop("part_offset"), values.pop("part_bytes")
        values["part"] = None if offset < 0 else (offset, nbytes)
        return Counts(**values)

    def head_counts(self) -> HeadCounts:
        """Give each head's counts as they are at one moment."""
        out = np.zeros((len(self.plan.heads), 6), np.int64)
        self.native.head_counts(out)
        return HeadCounts(*np.ascontiguousarray(out.T))
