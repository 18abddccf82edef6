"""Spectra between GPUs: each has made all channels of some antennas, and is to have some channels of all antennas.

What goes from one GPU to another is a slab: its rows of one antenna and one block of 64 spectra are one stretch of
memory here and there (`ryle.channelize.Rows`), so that a copy engine moves it at the links' own rate, and puts it where
the kernel that sums reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ryle.channelize import Rows
from ryle.channelize.cuda_work import Own
from ryle.chunk import BLOCK
from ryle.config import Observation
from ryle.correlate.spread import shares
from ryle.gpu import DeviceArray, Gpu, Stream
from ryle.stream.block import Block, Event, Place, Together
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import Step

#: Batches of exchanged spectra: one that is copied, one that is summed, one between them.
_BLOCKS = 3


class Slabs:
    """What goes where, of a batch of spectra.

    Parameters
    ----------
    observation : Observation
        Of which antennas and channels are spread.
    parts : int
        Over how many GPUs.
    spectra : int
        Of a batch.
    """

    def __init__(self, observation: Observation, parts: int, spectra: int) -> None:
        self.antennas = shares(len(observation.antennas), parts)
        self.channels = shares(observation.fengine.channels, parts)
        self.layout = Rows(observation.pols)
        self._blocks, self._row = spectra // BLOCK, observation.pols * 2 * BLOCK  # bytes of a channel of an antenna
        self._pols, self._all = observation.pols, len(observation.antennas)

    def shape(self, part: int) -> tuple[int, ...]:
        """Shape of what a GPU has in the end: (block, antenna, channel, polarization, 128)."""
        return self._blocks, self._all, len(self.channels[part]), self._pols, 2 * BLOCK

    def nbytes(self, source: int, to: int) -> int:
        """Bytes that go from one GPU to another."""
        return self._blocks * len(self.antennas[source]) * len(self.channels[to]) * self._row

    def own(self, part: int, out: DeviceArray) -> Own:
        """Say where a GPU's own slab lies in what it has in the end."""
        antennas, channels, row = self.antennas[part], self.channels[part], self._row
        begin = antennas.start * len(channels) * row
        return Own(
            out.view((out.nbytes - begin,), np.int8, begin),
            channels.start,
            channels.stop,
            self._all * len(channels) * row,
            len(channels) * row,
        )

    def move(self, source: int, spectra: DeviceArray, to: int, out: DeviceArray, stream: Stream) -> None:
        """Enqueue the copy of a slab.

        Parameters
        ----------
        source, to : int
            Which GPUs.
        spectra : DeviceArray of int8, shape (block, antenna of the source, channel, polarization, 128)
            What was made.
        out : DeviceArray of int8, as `shape` says
            Where its slab goes.
        stream : Stream
            Where.
        """
        antennas, channels = self.antennas[source], self.channels[to]
        every = sum(map(len, self.channels)) * self._row
        there = spectra.view((self._blocks, len(antennas), every), np.int8)
        here = out.view((self._blocks, self._all, len(channels) * self._row), np.int8)
        here.take_box(
            (0, antennas.start, 0),
            there,
            (0, 0, channels.start * self._row),
            (self._blocks, len(antennas), len(channels) * self._row),
            stream,
        )


class Rooms:
    """Memory for exchanged batches: each GPU's channelizer writes its own slab to its place, the rest is copied there.

    All that take and give rooms are steps of one thread (`ryle.stream.chain`).

    Parameters
    ----------
    gpus : sequence of Gpu
        Where spectra are; one may be there more than once.
    slabs : Slabs
        What goes where.

    Attributes
    ----------
    slabs
        The same.
    out : Ring
        Of blocks whose data is a list, an array on each GPU, and whose ``ready`` is of as many events.
    """

    def __init__(self, gpus: Sequence[Gpu], slabs: Slabs) -> None:
        self.slabs = slabs

        def make() -> Block:
            return Block([gpu.empty(slabs.shape(i), np.int8) for i, gpu in enumerate(gpus)], place=Place("gpu"))

        self.out = Ring("exchanged", make, _BLOCKS, device_writer=True)
        self._open: dict[int, tuple[Block, list[Event]]] = {}  # by first spectrum: room, and who still reads it

    def place(self, part: int, start: int, stream: Stream) -> Own:
        """Say where a GPU's own slab of a batch goes; its stream writes there when nobody reads any more."""
        room, readers = self._of(start)
        for event in readers:
            stream.wait(event)
        return self.slabs.own(part, room.data[part])

    def any_place(self, part: int) -> Own:
        """Give a place of which nobody needs what is there, to rehearse."""
        room = self.out.room()
        assert room is not None
        self.out.unused(room)
        return self.slabs.own(part, room.data[part])

    def take(self, start: int) -> tuple[Block, list[Event]]:
        """Give the room of a batch, to be filled and `put`, and what still reads it."""
        found = self._of(start)
        del self._open[start]
        return found

    def _of(self, start: int) -> tuple[Block, list[Event]]:
        if start not in self._open:
            room = self.out.room()
            assert room is not None
            self._open[start] = room, list(room.after)
            room.after.clear()
        return self._open[start]


class Exchange(Step):
    """Batches of spectra, all channels of some antennas on each GPU, to some channels of all antennas on each.

    Each GPU fetches the others' slabs, one after the other and each beginning with the next one's, on a stream of its
    own. Its own slab is there already.

    Parameters
    ----------
    gpus : sequence of Gpu
        Where spectra are; one may be there more than once.
    rooms : Rooms
        Where they go.
    sources : sequence of Reader
        Of spectra on each GPU, as rows, of the same batches in the same order.

    Attributes
    ----------
    rooms, slabs
        What goes where.
    streams : list of Stream
        Where each GPU's copies are enqueued.
    out : Ring
        Of the rooms.
    """

    enqueues = True
    has_room = True  # channelizers have written their own slabs there

    def __init__(self, gpus: Sequence[Gpu], rooms: Rooms, sources: Sequence[Reader]) -> None:
        self.rooms, self.slabs, self.out = rooms, rooms.slabs, rooms.out
        self.streams = [gpu.stream() for gpu in gpus]
        for gpu in gpus:
            for other in gpus:
                gpu.reach(other)
        super().__init__("exchange", [self.out])
        self.sources = list(sources)

    def run(self) -> None:
        """Exchange batch by batch."""
        while self.turn(None):
            pass

    def turn(self, timeout: float | None) -> bool:
        """Exchange a batch, if all GPUs have made it in time."""
        if timeout is not None and not all(source.waiting or source.ended for source in self.sources):
            return False
        blocks = [block for source in self.sources if (block := source.get(timeout)) is not None]
        if not blocks:
            return False
        if len(blocks) < len(self.sources) or len({(b.epoch, b.start) for b in blocks}) > 1:
            raise RuntimeError(f"GPUs have made different batches: {[(b.epoch, b.start) for b in blocks]}")
        self._exchange(blocks)
        return True

    def _exchange(self, blocks: Sequence[Block]) -> None:
        first, count = blocks[0], len(self.streams)
        room, readers = self.rooms.take(first.start)
        ready: list[Event] = []
        for to, stream in enumerate(self.streams):
            for event in readers:
                stream.wait(event)
            for source in ((to + i) % count for i in range(1, count + 1)):  # itself last
                block = blocks[source]
                if block.ready is not None:
                    stream.wait(block.ready)
                if source != to:
                    self.slabs.move(source, block.data, to, room.data[to], stream)
            ready.append(stream.record())
        room.ready = Together(tuple(ready))
        room.epoch, room.start, room.span = first.epoch, first.start, first.span
        room.planes["valid"] = np.concatenate([block.planes["valid"] for block in blocks])
        for block in blocks:
            block.release(room.ready)
        self.out.put(room)
