"""The entrance of an engine: packets from a source, put in their places by an assembler, read as blocks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ryle.config import Endpoint, Observation
from ryle.config.observation import Engine
from ryle.receive.assembly import Assembler, Chunk, Plan
from ryle.receive.receiving import make_source
from ryle.receive.sources import Source
from ryle.stream.account import Account
from ryle.stream.block import HOST, Block, Place
from ryle.stream.ring import Readable

if TYPE_CHECKING:
    from ryle.receive.dpdk.pools import GpuMemory

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


def block_of(chunk: Chunk, plan: Plan, unit: int = 1, place: Place = HOST) -> Block:
    """View a chunk of packets as a block, with the planes ``present`` and ``notes``; see `Entrance`."""
    return Block(
        chunk.addresses if plan.pointers else chunk.data,
        {"present": chunk.present, "notes": chunk.notes},
        place,
        chunk.epoch,
        chunk.timestamp * unit,
        plan.span * unit,
    )


class Entrance(Readable):
    """A ring that an assembler writes. It drops the newest data if its readers are too slow, or holds the source up.

    Parameters
    ----------
    name : str
        Of what comes in, for people and accounts.
    assembler : Assembler
        Puts packets where they belong; its chunks become blocks with the planes ``present`` and ``notes``.
    source : Source
        Feeds the assembler.
    unit : int
        What a unit of the format's timestamps is in units of the blocks' time.
    place : Place
        Where the assembler's memory lies.
    only : (int, int), optional
        Times between which a block must have something for readers to get it; from the first block behind them on,
        nothing more is received.
    """

    def __init__(
        self,
        name: str,
        assembler: Assembler,
        source: Source,
        *,
        unit: int = 1,
        place: Place = HOST,
        only: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(name)
        self.assembler, self.source = assembler, source
        self._unit, self._place, self._only, self._passed = unit, place, only, False
        self._chunks: dict[int, Chunk] = {}
        self._fetching = False
        self._stopping = threading.Lock()
        self._started = self._stopped = False
        #: What to do about packets that are malformed because their senders leave an item out, or cut heaps otherwise;
        #: empty if none are.
        self.advice = ""
        self._told: set[str] = set()  # kinds of advice that were given

    def start(self) -> None:
        """Begin to receive; what came before is dropped."""
        self.source.start()
        self._started = True

    def stop(self) -> None:
        """Receive no more; what has come is still read. From any thread, repeatedly."""
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            self.source.stop()
            self.assembler.stop_waiting()  # a thread that waits for memory can end
            try:
                self.source.join()
            finally:
                self.assembler.finish()

    def abort(self) -> None:
        """Wake everybody who waits here, with `Aborted`, and receive no more."""
        super().abort()
        self.assembler.stop_waiting()  # nobody may be left who gives memory back
        self.stop()

    def close(self) -> None:
        """Receive no more; sockets are closed when nobody has the source any more."""
        self.stop()

    @property
    def running(self) -> bool:
        """Whether packets are still received; a source of files ends by itself."""
        return not self._stopped and self.source.running

    @property
    def pending(self) -> int:
        """Chunks that are complete and that no reader has taken yet."""
        return self.assembler.counts().ready + self.fill

    def assembled(self, block: Block) -> Chunk:
        """Give the chunk that a block is, as long as the block is held."""
        return self._chunks[id(block)]

    @property
    def discarded(self) -> int:
        """Packets that came before the start, as far as that is known; they are not in the account."""
        return sum(report.discarded for report in self.source.reports())

    def account(self) -> Account:
        """Say what became of every packet so far."""
        return self.assembler.counts().account(self.name, self.source.kernel_drops)

    def _fetch(self, timeout: float) -> None:
        if self._fetching:  # another reader does, for all
            self._changed.wait(timeout)
            return
        self._fetching = True
        self._changed.release()
        try:
            chunk = self.assembler.next(timeout)
            self._advise()
            if self._passed:
                self.stop()
            if chunk is None and self._started and not self.source.running:
                self.stop()  # a file has been read; or receiving failed, which is raised here
            ended = chunk is None and self.assembler.ended
        finally:
            self._changed.acquire()
            self._fetching = False
        if chunk is not None:
            block = block_of(chunk, self.assembler.plan, self._unit, self._place)
            self._chunks[id(block)] = chunk
            if self._wanted(block):
                self._spread(block)
            else:
                self._free(block)
        elif ended:
            self._ended = True
            self._changed.notify_all()

    def _wanted(self, block: Block) -> bool:
        if self._only is None:
            return True
        low, high = self._only
        self._passed |= block.start >= high
        return not self._passed and block.end > low

    def _advise(self) -> None:
        """Say once of each kind, on standard error too, what senders have to do about packets that are malformed."""
        counts, plan = self.assembler.counts(), self.assembler.plan
        if counts.lacking:
            field = plan.format.fields[counts.lacking]
            remedy = f": {field.remedy}" if field.remedy else "; correct the sender, or describe its packets"
            self._tell("item", f"without item 0x{field.item or 0:04x}, {field.name}{remedy}")
        if counts.part is not None and plan.cut:
            offset, nbytes = counts.part
            self._tell("part", f"that hold other parts of heaps: {nbytes} B from byte {offset} on; {plan.cut}")
        if counts.faults["heap"] and plan.cut:
            self._tell("heap", f"that belong to heaps of another length; {plan.cut}")

    def _tell(self, fault: str, what: str) -> None:
        if fault in self._told:
            return
        self._told.add(fault)
        many = self.assembler.counts().faults[fault]
        told = f"{'a packet is' if many == 1 else 'packets are'} malformed {what}"
        self.advice = f"{self.advice}; {told}" if self.advice else told
        print(f"{self.name}: {told}", file=sys.stderr, flush=True)

    def _free(self, block: Block) -> None:
        with self._changed:
            chunk = self._chunks.pop(id(block))
        chunk.release()  # thousands of buffers may go back to where they came from


class Map(Protocol[T_co]):
    """Which packets an engine gets, and what a block of them is to it."""

    @property
    def plan(self) -> Plan:
        """What the assembler's chunks look like."""

    @property
    def unit(self) -> int:
        """What a unit of the packets' timestamps is in units of the blocks' time."""

    def given(self, block: Block) -> T_co:
        """View a block as the engine takes it; it must not be released before that was used."""


def largest_packet(plan: Plan) -> int:
    """Say how long a packet may be that is received for a plan: its headers may have items that nobody asked for."""
    return max(9216, plan.packet_bytes + 512)


class MappedEntrance(Entrance, Generic[T]):
    """Packets of a map, from a source, as blocks.

    Parameters
    ----------
    observation : Observation
        Says how engines receive.
    engine : "f", "x", "catcher" or "fx"
        What kind of engine it is.
    map : Map
        Which packets, and where they go.
    endpoints : sequence of Endpoint
        Where they are sent to.
    index : int
        Which engine of its kind.
    source : callable, optional
        Makes what feeds the assembler; what the observation says if absent.
    name : str
        For accounts.
    memory : callable, optional
        Gives so many bytes for the ring, page-locked where a GPU copies from it; ordinary memory if absent.
    gpu : GpuMemory, optional
        What reads payloads where they come to, if the map's plan keeps their addresses.
    only : (int, int), optional
        As of `Entrance`.

    Raises
    ------
    OSError, ValueError
        If it cannot receive; says what to do.
    """

    def __init__(
        self,
        observation: Observation,
        engine: Engine,
        map: Map[T],
        endpoints: Sequence[Endpoint],
        *,
        index: int = 0,
        source: Callable[[Assembler], Source] | None = None,
        name: str,
        memory: Callable[[int], NDArray[np.uint8]] | None = None,
        gpu: GpuMemory | None = None,
        only: tuple[int, int] | None = None,
    ) -> None:
        self.map = map
        senders = [(s.network, s.port) for s in observation.receive(engine, index).senders]
        plan = replace(map.plan, senders=senders) if senders else map.plan
        assembler = Assembler(plan, None if memory is None else memory(Assembler.memory_bytes(plan)))
        if source is not None:
            made = source(assembler)
        else:
            largest = largest_packet(plan)
            made = make_source(observation, engine, assembler, endpoints, index=index, largest=largest, gpu=gpu)
        super().__init__(name, assembler, made, unit=map.unit, only=only)

    def chunk(self, block: Block) -> T:
        """View a block as the engine takes it."""
        return self.map.given(block)
