"""Packets of F-engines, others' or rows of Ryle's: from the network or a capture to blocks for the X-engine.

Everything about time, loss and order is `ryle.net.assembly`'s. What is added here is which streams an observation has,
and where in a chunk each input, channel and spectrum lies.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, PacketChunk, PacketOrder, SpectraChunk
from ryle.config import Endpoint, Observation
from ryle.config.observation import SPARE_CHUNKS
from ryle.net.accounting import Account
from ryle.net.assembly import Assembler, Plan
from ryle.net.pcap import PcapFile
from ryle.net.receiving import make_source
from ryle.net.rows import RowMap
from ryle.net.sockets import kernel_drops, receive_socket
from ryle.net.sources import Source, ThreadReport
from ryle.stream.block import Block
from ryle.stream.entrance import Entrance, block_of
from ryle.wire.spectra import SpectraLayout


class PacketMap:
    """Which packets an observation's X-engines get, and where their samples go.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets``.
    substreams : sequence of int
        Which shares of the band, contiguous.
    """

    def __init__(self, observation: Observation, substreams: Sequence[int]) -> None:
        o, layout = observation, observation.packets
        assert layout is not None
        self.layout: SpectraLayout = layout
        self.first_channel = substreams[0] * o.substream_channels
        self.channels = len(substreams) * o.substream_channels
        self.senders = layout.senders(o.wire_inputs)
        self._inputs = o.wire_inputs
        self._order: PacketOrder | None = None
        self._conjugated = np.array([s.conjugate for s in o.streams])
        stream = layout.format.timestamp.stream
        self.heads: list[tuple[int, ...]] = []
        for sender, channel in product(self.senders.tolist(), range(0, self.channels, layout.channels)):
            fields = layout.header(0, sender * layout.inputs, self.first_channel + channel)
            low = {field.name: field.low for field in layout.format.header.field}
            self.heads.append(tuple((low | fields)[name] for name in stream))
        if len(set(self.heads)) < len(self.heads):
            raise ValueError(
                f"{layout.format.name}: timestamp.stream = {stream} does not tell the packets of different inputs and "
                "channels apart; add the fields that place them"
            )

    def plan(self, observation: Observation) -> Plan:
        """Plan chunks of whole batches."""
        substreams = self.channels // observation.substream_channels
        spectra, skew = observation.chunk_spectra(substreams), observation.skew_chunks(substreams)
        return Plan(
            self.layout.format,
            self.heads,
            packets=spectra // self.layout.spectra,
            chunks=skew + SPARE_CHUNKS,
            window=spectra,
            skew=skew * spectra,
            linger=0.0,
        )

    def given(self, block: Block) -> PacketChunk:
        """View a block of packets as the X-engine takes it; it must not be released before that was used."""
        present = block.planes["present"]
        if self._order is None:
            self._order = self.order(present.shape[1])
        rows = block.data.reshape(present.size, -1)
        return PacketChunk(block.start // BLOCK, rows, present.reshape(-1), self._order)

    def order(self, packets: int) -> PacketOrder:
        """Say where samples lie in the rows [sender][channel group][packet] of a chunk."""
        groups = self.channels // self.layout.channels
        return self.layout.order(
            packets * self.layout.spectra,
            self.channels,
            self._inputs,
            self._conjugated,
            (1, packets, packets * groups),
        )


def packet_map(observation: Observation, substreams: Sequence[int]) -> PacketMap | RowMap:
    """Say which packets some substreams' X-engines get, of whichever kind the observation's F-engines send."""
    return PacketMap(observation, substreams) if observation.packets is not None else RowMap(observation, substreams)


class PacketEntrance(Entrance):
    """Packets of some substreams as blocks for an X-engine.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets`` or ``fengine.sends = "rows"``.
    substreams : sequence of int
        Which shares of the band; each has its own endpoint.
    source : callable, optional
        Makes what feeds the assembler, from it; what ``receive`` says if absent.
    waits : bool
        Stop reading sockets while the X-engine is behind, so that a sender of this host waits; else the newest data is
        lost then, as it must be where time does not wait.
    """

    def __init__(
        self,
        observation: Observation,
        substreams: Sequence[int],
        source: Callable[[Assembler], Source] | None = None,
        *,
        waits: bool = False,
        name: str = "packets",
    ) -> None:
        self.map = packet_map(observation, substreams)
        self.first_channel = self.map.first_channel
        self.plan = self.map.plan(observation)
        assembler = Assembler(self.plan)
        network = observation.network
        endpoints = [observation.spectra_endpoint(s) for s in substreams]
        interface, buffer, largest = network.interface, network.receive_buffer, self.plan.packet_bytes + 1
        made: Source
        if source is not None:
            made = source(assembler)
        elif waits:
            made = HeldSource(assembler, endpoints, interface, buffer, largest)
        else:
            made = make_source(observation, "x", assembler, endpoints, index=substreams[0], largest=largest)
        super().__init__(name, assembler, made)

    def chunk(self, block: Block) -> PacketChunk | SpectraChunk:
        """Give a block as the X-engine takes it."""
        return self.map.given(block)


class HeldSource:
    """Feeds an assembler from UDP sockets, and leaves packets in the sockets while the assembler has no memory.

    What `ryle.net.sources.UdpSource` is for an array, this is for a simulation at full speed (`ryle.net.pacing`).
    """

    _BATCH = 64

    def __init__(
        self, assembler: Assembler, endpoints: Sequence[Endpoint], interface: str, buffer: int, largest: int
    ) -> None:
        self._assembler, self._largest = assembler, largest
        self._sockets = [receive_socket(e, interface, buffer) for e in endpoints]
        for s in self._sockets:
            s.setblocking(False)
        self._drops: int | None = None
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="held-source", daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the end; whether it came. Raises RuntimeError if receiving failed."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self._drops is None:
            self._drops = kernel_drops(self._sockets)
        for s in self._sockets:
            s.close()
        if self._failure is not None:
            raise RuntimeError(f"receiving failed: {self._failure}") from self._failure
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether it receives."""
        return self._thread.is_alive()

    def reports(self) -> list[ThreadReport]:
        """Say nothing of threads: this one is Python's."""
        return []

    @property
    def kernel_drops(self) -> int | None:
        """Packets that the kernel dropped; None if that cannot be seen."""
        return kernel_drops(self._sockets) if self._drops is None else self._drops

    def _run(self) -> None:
        try:
            self._receive()
        except BaseException as error:
            self._failure = error

    def _receive(self) -> None:
        poll = select.poll()
        for s in self._sockets:
            poll.register(s.fileno(), select.POLLIN)
        by_number = {s.fileno(): (port, s) for port, s in enumerate(self._sockets)}
        memory = np.empty(self._BATCH * self._largest, np.uint8)
        starts = np.arange(self._BATCH) * self._largest
        rooms = [memoryview(memory.data)[a : a + self._largest] for a in starts.tolist()]
        while not self._stop.is_set():
            for number, _ in poll.poll(20):
                port, s = by_number[number]
                self._take(port, s, memory, starts, rooms)

    def _take(
        self, port: int, s: socket.socket, memory: NDArray[np.uint8], starts: NDArray[np.int64], rooms: list[memoryview]
    ) -> None:
        while self._assembler.counts().free < 2:
            if self._stop.wait(0.001):
                return
        lengths = np.zeros(self._BATCH, np.int64)
        count = 0
        while count < self._BATCH:
            try:
                lengths[count] = s.recv_into(rooms[count])
            except BlockingIOError:
                break
            count += 1
        self._assembler.take(memory, starts[:count], lengths[:count], port=port)


class PacketCapture:
    """Chunks of the whole band out of a capture of others' packets; iterating can be done once.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets`` or ``fengine.sends = "rows"``.
    path : path
        pcap or pcapng file. Addresses and ports do not matter.
    """

    def __init__(self, observation: Observation, path: str | os.PathLike[str]) -> None:
        self.map = packet_map(observation, range(observation.substreams))
        self.plan = self.map.plan(observation)
        self.assembler = Assembler(self.plan)
        self.file = PcapFile(path)

    def __iter__(self) -> Iterator[PacketChunk | SpectraChunk]:
        most = len(self.plan.heads) * self.plan.packets  # so many packets are no more than a chunk
        for batch in self.file.batches():
            for first in range(0, len(batch.payload), most):
                self.assembler.take(batch.payload[first : first + most])
                yield from self._ready()
        self.assembler.finish()
        yield from self._ready()

    def _ready(self) -> Iterator[PacketChunk | SpectraChunk]:
        while (chunk := self.assembler.next(0.0)) is not None:
            with chunk:
                yield self.map.given(block_of(chunk, self.plan))

    def account(self) -> Account:
        """Say what became of every packet so far."""
        return self.assembler.counts().account("capture")
