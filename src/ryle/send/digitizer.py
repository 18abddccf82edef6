"""Digitizer heaps by UDP: one heap is one packet, which an input sends to its endpoints in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import spead2.send
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import Observation
from ryle.send.descriptors import Descriptors, digitizer_items
from ryle.send.heaps import HeapSender
from ryle.send.pacing import LocalQueues
from ryle.wire import spead

_PREAMBLE = spead.preamble(4)  # timestamp, digitiser_id, status, adc_samples


class DigitizerSender(HeapSender):
    """Sends samples as MeerKAT's digitizers do: packet n of an input goes to endpoint n modulo their number.

    Parameters
    ----------
    observation : Observation
        Sizes, stream numbers and endpoints.
    antennas : sequence of int, optional
        Antennas that this sender stands for; all if absent.
    speed : float
        Rate in units of real time; 0 sends as fast as receivers on this host take the packets (`ryle.send.pacing`).
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
