"""Digitizer heaps by UDP: one heap is one packet, which an input sends to its endpoints in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import spead2
import spead2.recv
import spead2.send
from numpy.typing import NDArray

from ..chunk import SampleChunk
from ..config import Observation
from ..wire import spead
from ._native import DigitizerPlace
from .accounting import Account
from .chunks import ChunkReceiver, Span
from .descriptors import Descriptors, digitizer_items
from .pacing import LocalQueues
from .sockets import Sender

_PREAMBLE = spead.preamble(4)  # timestamp, digitiser_id, status, adc_samples


class DigitizerSender(Sender):
    """Sends samples as MeerKAT's digitizers do: packet n of an input goes to endpoint n modulo their number.

    Parameters
    ----------
    observation : Observation
        Sizes, stream numbers and endpoints.
    antennas : sequence of int, optional
        Antennas that this sender stands for; all if absent.
    speed : float
        Rate in units of real time; 0 sends as fast as receivers on this host take the packets (`ryle.net.pacing`).
    """

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int] | None = None,
        *,
        speed: float = 1.0,
    ) -> None:
        super().__init__()
        self.antennas = list(range(len(observation.antennas)) if antennas is None else antennas)
        o = self._observation = observation
        self._heap_bytes = o.digitizer_heap_bytes
        self._heap_samples = o.digitizer.heap_samples
        inputs = [a * o.pols + p for a in self.antennas for p in range(o.pols)]
        self._streams = [o.streams[i].stream for i in inputs]
        packet = self._heap_bytes + _PREAMBLE
        real_time = len(self._streams) * float(o.sample_rate) / self._heap_samples * packet
        #: Bytes a second that are offered, all inputs together; 0 if not paced.
        self.rate = speed * real_time
        endpoints = o.digitizer_endpoints(self.antennas)
        self._queues = None if self.rate else LocalQueues(endpoints)
        self._endpoints = endpoints
        self._out = self._open(endpoints, o.network, packet, self.rate)
        # Substreams of the stream that each input's packets take in turn.
        self._ways = [[endpoints.index(e) for e in o.input_endpoints(i)] for i in inputs]
        self._turns = math.lcm(*map(len, self._ways))
        self._turn = self._packets = -1
        #: Packets sent so far.
        self.sent = 0

    def _prepare(self, packets: int) -> None:
        """Build the heaps of a chunk of `packets` packets once; sending changes what they refer to."""
        self._turn = -1
        inputs = len(self._streams)
        self._payload = np.zeros((inputs, packets, self._heap_bytes), np.uint8)
        self._timestamps = np.zeros(packets, ">u8")
        self._status = np.zeros((inputs, packets), ">u8")
        ids = np.array(self._streams, ">u8")
        self._built = []
        for packet in range(packets):
            for i in range(inputs):
                items = [
                    spead.immediate(spead.TIMESTAMP, self._timestamps[packet, ...]),
                    spead.immediate(spead.DIGITISER_ID, ids[i, ...]),
                    spead.immediate(spead.STATUS, self._status[i, packet, ...]),
                    spead.array(spead.ADC_SAMPLES, self._payload[i, packet]),
                ]
                self._built.append(spead.heap(items))
        self._packets = packets

    def _direct(self, turn: int) -> None:
        """Say where the heaps of a chunk go whose first packet is number `turn` of its input."""
        self._heaps = []
        for at, heap in enumerate(self._built):
            packet, i = divmod(at, len(self._streams))
            ways = self._ways[i]
            self._heaps.append(spead2.send.HeapReference(heap, substream_index=ways[(turn + packet) % len(ways)]))
        self._all = spead2.send.HeapReferenceList(self._heaps)
        self._turn = turn

    def send(self, chunk: SampleChunk, saturated: NDArray[np.integer] | None = None) -> None:
        """Send the packets of `chunk` that are present, in time order; blocks for as long as the rate asks.

        The chunk's arrays may be used again when this returns.

        Parameters
        ----------
        chunk : SampleChunk
            Samples of this sender's inputs.
        saturated : ndarray of int, shape (input, packet), optional
            Saturated samples of each packet, at most 65535, for the status word.

        Raises
        ------
        ValueError
            If the chunk's shape, packet length or timestamp do not fit the observation.
        """
        inputs, packets, size = chunk.data.shape
        if (inputs, size, chunk.packet_samples) != (len(self._streams), self._heap_bytes, self._heap_samples):
            raise ValueError(
                f"chunk has {inputs} inputs of {size}-byte packets of {chunk.packet_samples} samples; this sender has "
                f"{len(self._streams)} inputs of {self._heap_bytes}-byte packets of {self._heap_samples} samples"
            )
        if chunk.timestamp % self._heap_samples:
            raise ValueError(f"timestamp {chunk.timestamp} must be a multiple of {self._heap_samples}, the heap length")
        if packets != self._packets:
            self._prepare(packets)
        if (turn := chunk.timestamp // self._heap_samples % self._turns) != self._turn:
            self._direct(turn)
        self._payload[...] = chunk.data
        self._timestamps[...] = chunk.timestamp + self._heap_samples * np.arange(packets)
        self._status[...] = 0 if saturated is None else np.minimum(saturated, 0xFFFF).astype(np.uint64) << np.uint64(32)
        if self._queues is None and chunk.present.all():
            self._out.send_heaps(self._all)
            self.sent += len(self._heaps)
            return
        heaps = [self._heaps[i] for i in np.flatnonzero(chunk.present.T)]
        runs = [heaps] if self._queues is None else self._queues.portions(heaps, self._heap_bytes, len(self.antennas))
        for run in runs:
            if run:
                self._out.send_heaps(run)
        self.sent += len(heaps)

    def describe(self) -> None:
        """Send SPEAD descriptors from now on, every 5 s."""
        self._opened.append(Descriptors(self._observation, self._endpoints, digitizer_items(self._observation)))

    def end(self) -> None:
        """Send a stop heap for every input."""
        for i, stream in enumerate(self._streams):
            self._out.send_heap(spead.end_heap(spead.DIGITISER_ID, stream), substream_index=self._ways[i][0])


class DigitizerReceiver(ChunkReceiver[SampleChunk]):
    """Receives the samples of some antennas as chunks in time order.

    A chunk in which nothing arrived is not yielded, but its packets count as missing. Time goes back only if every
    sender restarts with earlier timestamps.

    Parameters
    ----------
    observation : Observation
        Sizes, stream numbers and endpoints.
    antennas : sequence of int, optional
        Antennas to receive; all if absent. Inputs of the chunks follow this order.
    chunk_packets : int, optional
        Packets of one input in a chunk; about one batch of spectra if absent. Chunks begin at multiples of it.
    window : int, optional
        Chunks open at once: a packet may come this many chunks late, less one.
    spare : int, optional
        Chunks that may be held without being copied.
    end_after : int, optional
        End by itself when this many inputs have sent stop heaps; never if absent.

    Raises
    ------
    OSError
        If an endpoint cannot be opened.
    """

    _items = (
        spead.HEAP_LENGTH,
        spead.PAYLOAD_OFFSET,
        spead.PAYLOAD_LENGTH,
        spead.STREAM_CONTROL,
        spead.TIMESTAMP,
        spead.DIGITISER_ID,
        spead.STATUS,
    )

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int] | None = None,
        *,
        chunk_packets: int | None = None,
        window: int = 4,
        spare: int = 4,
        end_after: int | None = None,
        name: str = "digitizer",
    ) -> None:
        o = observation
        self.antennas = list(range(len(o.antennas)) if antennas is None else antennas)
        self.packet_samples = o.digitizer.heap_samples
        batch = round(o.batch_spectra * o.step / self.packet_samples)
        self.chunk_packets = max(1, batch) if chunk_packets is None else chunk_packets
        streams = [o.streams[a * o.pols + p].stream for a in self.antennas for p in range(o.pols)]
        self._inputs = len(streams)
        shape = (self._inputs, self.chunk_packets, o.digitizer_heap_bytes)
        self._span = Span()
        self._placed = 0
        super().__init__(
            name,
            o.digitizer_endpoints(self.antennas),
            interface=o.network.interface,
            buffer_size=o.network.receive_buffer,
            max_packet=o.digitizer_heap_bytes + 512,
            place=DigitizerPlace(streams, self.packet_samples, o.digitizer_heap_bytes, self.chunk_packets, window),
            make_chunk=lambda: spead2.recv.Chunk(
                data=np.full(shape, 0xA5, np.uint8), present=np.zeros(shape[:2], np.uint8)
            ),
            window=window,
            spare=spare,
            stream_config=spead2.recv.StreamConfig(stop_on_stop_item=False),
            end_after=end_after,
        )

    def _take(self, chunk: spead2.recv.Chunk) -> SampleChunk | None:
        present = np.array(chunk.present)
        columns = np.flatnonzero(present.any(axis=0))
        if not columns.size:
            self._stream.add_free_chunk(chunk)
            return None
        epoch, number = self._place.chunk(chunk.chunk_id)
        first = number * self.chunk_packets
        self._span.extend(epoch, first + int(columns[0]), first + int(columns[-1]))
        self._placed += int(present.sum())
        data = self._lend(chunk)
        return SampleChunk(first * self.packet_samples, data, present, self.packet_samples)

    @property
    def saturated(self) -> int:
        """Saturated samples that the digitizers reported in the packets received."""
        return int(self._place.saturated)

    def account(self) -> Account:
        """Say what became of every packet so far; packets in chunks that were not yet taken are left out."""
        p = self._place
        undecoded = self.undecoded_packets
        late, duplicate, foreign, malformed = p.late, p.duplicate, p.foreign, p.malformed
        datagrams = self._placed + late + duplicate + foreign + malformed
        if self._closed:  # spead2's own count; until then it runs ahead of ours by what is in open chunks
            datagrams = self._stream.stats.packets
            malformed += datagrams - p.heaps  # empty ones, and parts of heaps that should have been one packet
            unseen = p.placed - self._placed
            if self._ended:  # refused by spead2 after place(): an item that points beyond the heap
                malformed += unseen
            else:  # in chunks that nobody took
                datagrams -= unseen
        expected = self._span.slots * self._inputs
        return Account(
            self.name,
            datagrams=None if undecoded is None else datagrams + undecoded,
            placed=self._placed,
            late=late,
            duplicate=duplicate,
            malformed=None if undecoded is None else malformed + undecoded,
            foreign=foreign,
            expected=expected,
            missing=expected - self._placed,
            kernel_drops=self.dropped_by_kernel,
        )
