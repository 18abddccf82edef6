"""Digitizer heaps out of a packet capture, as fast as the file can be read.

What `ryle.net.digitizer` does with packets from the network is done here with runs of equal packets of a mapped file:
their SPEAD headers are read as one array, their payloads copied once, into the chunks. All that `PcapFile` reads is
read: pcap and pcapng, any clock, VLANs, IPv6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..chunk import SampleChunk
from ..config import Observation
from ..wire import spead
from .accounting import Account
from .chunks import Span
from .pcap import Batch, PcapFile

_MAGIC = np.array([0x53, 4, 2, 6], np.uint8)
_DESCRIPTOR = 5
_CONFIRM = 8  # heaps in a row that must agree before a jump in time is believed


class Window:
    """Which chunks are open: the rules of ``native/net/window.h``, for many heaps at a time.

    Parameters
    ----------
    chunks : int
        Chunks open at once.
    """

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        #: Newest chunk opened, numbered on after a sender's clock went back; -1 before the first.
        self.newest = -1
        self._offset = 0
        self._candidate = 0
        self._run = 0
        self._epochs: list[tuple[int, int]] = []

    def admit(self, chunks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Admit heaps in their order.

        Parameters
        ----------
        chunks : ndarray of int64, shape (heap,)
            Chunk since sync of each.

        Returns
        -------
        ids : ndarray of int64, shape (heap,)
            Number of the chunk, which goes on rising when time goes back.
        late, implausible : ndarray of bool, shape (heap,)
            Heaps of chunks that are closed, and of times that cannot be.
        """
        if self.newest < 0 and len(chunks):
            self.newest = int(chunks[0])
        ids = chunks + self._offset
        before = np.maximum.accumulate(np.append(self.newest, ids))[:-1]
        ahead = ids - before
        if ((ahead <= 8 * self.chunks) & (ahead >= -9 * self.chunks)).all():
            if len(ids):
                self._run = 0
                self.newest = max(self.newest, int(ids.max()))
            return ids, ids <= before - self.chunks, np.zeros(len(ids), np.bool_)
        late, wild = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        for i, chunk in enumerate(chunks.tolist()):
            ids[i], late[i], wild[i] = self._admit_one(chunk)
        return ids, late, wild

    def _admit_one(self, chunk: int) -> tuple[int, bool, bool]:
        ahead = chunk + self._offset - self.newest
        if ahead > 8 * self.chunks or ahead < -9 * self.chunks:
            self._run = self._run + 1 if abs(chunk - self._candidate) < self.chunks else 1
            self._candidate = chunk
            if self._run < _CONFIRM:
                return chunk + self._offset, ahead < 0, ahead > 0
            if ahead < 0:
                self._offset = self.newest + 2 * self.chunks - chunk
                self._epochs.append((self.newest + self.chunks + 1, self._offset))
        self._run = 0
        number = chunk + self._offset
        late = number <= self.newest - self.chunks
        self.newest = max(self.newest, number)
        return number, late, False

    def chunk(self, number: int) -> tuple[int, int]:
        """How often time had gone back, and chunk since sync, of a number that `admit` gave."""
        passed = [offset for first, offset in self._epochs if number >= first]
        return len(passed), number - (passed[-1] if passed else 0)


@dataclass(slots=True)
class _Open:
    data: NDArray[np.uint8]  # (input · packet, bytes)
    present: NDArray[np.uint8]  # (input · packet,)


class DigitizerCapture:
    """Sample chunks of all antennas from a capture of digitizer packets, in time order.

    Streams are known by their digitiser ID, whatever address they were sent to. Iterating can be done once; the end of
    the file gives out what is assembled.

    Parameters
    ----------
    observation : Observation
        Sizes and stream numbers.
    path : path
        The capture.
    chunk_packets : int, optional
        Packets of one input in a chunk; about one batch of spectra if absent. Chunks begin at multiples of it.
    window : int
        Chunks open at once: a packet may come this many chunks late, less one.

    Attributes
    ----------
    file : PcapFile
        The capture, with its own account of what was no datagram.
    saturated : int
        Saturated samples that the digitizers reported in the packets placed.
    streams_seen : set of int
        Digitiser IDs met so far that no input has.

    Raises
    ------
    ValueError
        If the file is no capture.
    """

    def __init__(
        self,
        observation: Observation,
        path: str | os.PathLike[str],
        *,
        chunk_packets: int | None = None,
        window: int = 4,
    ) -> None:
        o = observation
        self.file = PcapFile(path)
        self.packet_samples = o.digitizer.heap_samples
        batch = round(o.batch_spectra * o.step / self.packet_samples)
        self.chunk_packets = max(1, batch) if chunk_packets is None else chunk_packets
        self._heap_bytes = o.digitizer_heap_bytes
        streams = np.array([s.stream for s in o.streams], np.int64)
        self._row_order = np.argsort(streams)
        self._streams = streams[self._row_order]
        self._ports = {e.port for e in o.digitizer_endpoints(range(len(o.antennas)))}
        self._window = Window(window)
        self._open: dict[int, _Open] = {}
        self._span = Span()
        self._placed = self._late = self._duplicate = self._malformed = self._foreign = 0
        self.saturated = 0
        self.streams_seen: set[int] = set()

    def __iter__(self) -> Iterator[SampleChunk]:
        for batch in self.file.batches():
            self._read(batch)
            closed = self._window.newest - self._window.chunks
            for number in sorted(n for n in self._open if n <= closed):
                yield self._close(number)
        for number in sorted(self._open):
            yield self._close(number)

    def _close(self, number: int) -> SampleChunk:
        chunk = self._open.pop(number)
        epoch, since_sync = self._window.chunk(number)
        first = since_sync * self.chunk_packets
        present = chunk.present.reshape(-1, self.chunk_packets)
        columns = np.flatnonzero(present.any(axis=0))
        self._span.extend(epoch, first + int(columns[0]), first + int(columns[-1]))
        data = chunk.data.reshape(len(self._streams), self.chunk_packets, self._heap_bytes)
        return SampleChunk(first * self.packet_samples, data, present, self.packet_samples)

    # -- packets ----------------------------------------------------------------------------------------------------

    def _read(self, batch: Batch) -> None:
        """Sort the datagrams of a batch by their SPEAD headers and place each kind."""
        payload = batch.payload
        size = payload.shape[1]
        left = np.arange(len(payload))
        if size < 8:
            return self._not_spead(batch, left)
        speaking = (payload[:, :4] == _MAGIC).all(axis=1)
        if not speaking.all():
            self._not_spead(batch, left[~speaking])
            left = left[speaking]
        while len(left):
            like = payload[left[0]]
            items = int(like[6]) << 8 | int(like[7])
            end = 8 + 8 * items
            rows = slice(None) if len(left) == len(payload) else left
            alike = (payload[rows, 6:8] == like[6:8]).all(axis=1)
            if end > size:
                self._malformed += int(alike.sum())
                left = left[~alike]
                continue
            pointers = np.ascontiguousarray(payload[rows, 8:end]).view(">u8").astype(np.int64)
            identity = pointers >> 48
            alike &= (identity == identity[0]).all(axis=1)
            self._place(payload, left[alike], identity[0] & 0xFFFF, pointers[alike] & (1 << 48) - 1, end)
            left = left[~alike]

    def _not_spead(self, batch: Batch, rows: NDArray[np.intp]) -> None:
        """Count datagrams without SPEAD's magic: broken ones, if they were sent to digitizer ports."""
        ours = int(np.isin(batch.port[rows], list(self._ports)).sum())
        self._malformed += ours
        self._foreign += len(rows) - ours

    def _place(
        self,
        payload: NDArray[np.uint8],
        rows: NDArray[np.intp],
        identity: NDArray[np.int64],
        values: NDArray[np.int64],
        start: int,
    ) -> None:
        """Place datagrams with the same items, payloads of which begin at byte `start`."""
        column: dict[int, int] = {}
        for i, item in enumerate(identity.tolist()):
            if item >> 15:
                column.setdefault(item & 0x7FFF, i)
        # First of all the lengths: a damaged item count makes items of samples.
        length = values[:, column[spead.PAYLOAD_LENGTH]] if spead.PAYLOAD_LENGTH in column else np.full(len(rows), -1)
        whole = length == payload.shape[1] - start
        if not whole.all():
            self._malformed += int((~whole).sum())
            rows, values = rows[whole], values[whole]
        if np.isin(identity & 0x7FFF, (spead.STREAM_CONTROL, _DESCRIPTOR)).any():
            self._foreign += len(rows)
            return
        if spead.DIGITISER_ID not in column:
            self._malformed += len(rows)
            return
        stream = values[:, column[spead.DIGITISER_ID]]
        at = np.minimum(np.searchsorted(self._streams, stream), len(self._streams) - 1)
        known = self._streams[at] == stream
        if not known.all():
            self._foreign += int((~known).sum())
            if len(self.streams_seen) < 64:
                self.streams_seen.update(np.unique(stream[~known])[:64].tolist())
            rows, values, at = rows[known], values[known], at[known]
        size = self._heap_bytes
        needed = (spead.TIMESTAMP, spead.HEAP_LENGTH, spead.PAYLOAD_OFFSET, spead.PAYLOAD_LENGTH)
        if any(item not in column for item in needed) or payload.shape[1] - start != size:
            self._malformed += len(rows)
            return
        timestamp = values[:, column[spead.TIMESTAMP]]
        sound = (
            (timestamp % self.packet_samples == 0)
            & (values[:, column[spead.HEAP_LENGTH]] == size)
            & (values[:, column[spead.PAYLOAD_OFFSET]] == 0)
            & (values[:, column[spead.PAYLOAD_LENGTH]] == size)
        )
        if not sound.all():
            self._malformed += int((~sound).sum())
            rows, values, at, timestamp = rows[sound], values[sound], at[sound], timestamp[sound]
        packet = timestamp // self.packet_samples
        numbers, late, wild = self._window.admit(packet // self.chunk_packets)
        self._late += int(late.sum())
        self._malformed += int(wild.sum())
        slots = self._row_order[at] * self.chunk_packets + packet % self.chunk_packets
        saturated = values[:, column[spead.STATUS]] >> 32 & 0xFFFF if spead.STATUS in column else np.zeros_like(slots)
        for number in np.unique(numbers[~late & ~wild]):
            here = np.flatnonzero((numbers == number) & ~late & ~wild)
            self._copy(int(number), slots[here], payload, rows[here], start, saturated[here])

    def _copy(
        self,
        number: int,
        slots: NDArray[np.int64],
        payload: NDArray[np.uint8],
        rows: NDArray[np.intp],
        start: int,
        saturated: NDArray[np.int64],
    ) -> None:
        """Copy payloads into one chunk, the first of those for the same slot."""
        chunk = self._open.get(number)
        if chunk is None:
            slots_all = len(self._streams) * self.chunk_packets
            chunk = _Open(np.empty((slots_all, self._heap_bytes), np.uint8), np.zeros(slots_all, np.uint8))
            self._open[number] = chunk
        first = np.unique(slots, return_index=True)[1]
        first = np.sort(first[chunk.present[slots[first]] == 0])
        self._duplicate += len(slots) - len(first)
        self._placed += len(first)
        self.saturated += int(saturated[first].sum())
        chunk.present[slots[first]] = 1
        for slot, row in zip(slots[first].tolist(), rows[first].tolist(), strict=True):
            chunk.data[slot] = payload[row, start:]

    # -- accounting -------------------------------------------------------------------------------------------------

    def account(self) -> Account:
        """Say what became of every datagram so far; chunks that were not yet taken are not yet expected."""
        counts = self._placed, self._late, self._duplicate, self._malformed, self._foreign
        waiting = sum(int(chunk.present.sum()) for chunk in self._open.values())
        placed = self._placed - waiting
        expected = self._span.slots * len(self._streams)
        return Account(
            "capture",
            datagrams=sum(counts) - waiting,
            placed=placed,
            late=self._late,
            duplicate=self._duplicate,
            malformed=self._malformed,
            foreign=self._foreign,
            expected=expected,
            missing=expected - placed,
        )
