"""F-heaps by UDP: spectra of one antenna and one substream, split so that a packet holds whole channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import spead2.send
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.send.descriptors import Descriptors, spectra_items
from ryle.send.heaps import HeapSender, HeapStream
from ryle.send.pacing import LocalQueues
from ryle.wire import spead


def packet_bytes(observation: Observation) -> int:
    """Payload of one packet of an F-heap: `packet_channels` whole channels."""
    o = observation
    return o.packet_channels * o.fengine.spectra_per_heap * o.pols * o.value_bytes


class SpectraSender(HeapSender):
    """Sends the spectra of some antennas to every substream, as MeerKAT's F-engines do.

    A heap of which every spectrum is invalid is withheld; one of which some are carries `feng_valid`.

    Parameters
    ----------
    observation : Observation
        Sizes and endpoints.
    antennas : sequence of int, optional
        Antennas that this sender speaks for; all if absent.
    rate : float, optional
        Bytes a second on the wire, all antennas and substreams together; 0 sends as fast as receivers on this
        host take the packets (`ryle.send.pacing`). ``fengine.pace`` times real time if absent.
    """

    def __init__(
        self, observation: Observation, antennas: Sequence[int] | None = None, *, rate: float | None = None
    ) -> None:
        super().__init__()
        o = self._observation = observation
        self.antennas = list(range(len(o.antennas)) if antennas is None else antennas)
        self._n_antennas = len(o.antennas)
        self._pols, self._value_bytes = o.pols, o.value_bytes
        self._spectra = o.fengine.spectra_per_heap
        self._channels, self._sub_channels, self._substreams = o.fengine.channels, o.substream_channels, o.substreams
        self._step = o.step
        self._network = o.network
        self._endpoints = [o.spectra_endpoint(s) for s in range(o.substreams)]
        self._heap_bytes = o.spectra_heap_bytes
        self._packet = packet_bytes(o)
        packets = len(self.antennas) * o.substreams * o.groups * float(o.sample_rate) / (o.step * self._spectra)
        self._heaps = -1
        #: Heaps sent, of them with `feng_valid`, and withheld because nothing in them was valid; packets sent.
        self.sent = self.flagged = self.withheld = self.packets = 0
        self._groups = o.groups
        self.rate = o.fengine.pace * packets * (self._packet + spead.preamble(4)) if rate is None else rate

    @property
    def rate(self) -> float:
        """Bytes a second that are offered; 0 if not paced."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self.close()
        # spead2 fills packets as far as it may, so heaps with one item more need packets larger by one pointer.
        self._plain = self._open(self._endpoints, self._network, self._packet + spead.preamble(4), rate)
        self._tailed = self._open(self._endpoints, self._network, self._packet + spead.preamble(5), rate)
        self._rate = rate
        self._queues = None if rate else LocalQueues(self._endpoints)

    def _prepare(self, heaps: int) -> None:
        """Build the heaps of `heaps` heap lengths once; sending changes what they refer to."""
        antennas, value = len(self.antennas), (self._pols, self._value_bytes)
        self._payload = np.zeros((antennas, heaps, self._channels, self._spectra, *value), np.uint8)
        self._valid = np.zeros((antennas, heaps, self._pols, self._spectra // 8), np.uint8)
        self._timestamps = np.zeros(heaps, ">u8")
        ids = np.array(self.antennas, ">u8")
        first_channels = (self._sub_channels * np.arange(self._substreams)).astype(">u8")
        self._plain_heaps, self._tailed_heaps = [], []
        for h in range(heaps):
            for s in range(self._substreams):
                for a in range(antennas):
                    channels = slice(s * self._sub_channels, (s + 1) * self._sub_channels)
                    items = [
                        spead.immediate(spead.TIMESTAMP, self._timestamps[h, ...]),
                        spead.immediate(spead.FENG_ID, ids[a, ...]),
                        spead.immediate(spead.FREQUENCY, first_channels[s, ...]),
                        spead.array(spead.FENG_RAW, self._payload[a, h, channels]),
                    ]
                    self._plain_heaps.append(spead2.send.HeapReference(spead.heap(items), substream_index=s))
                    items.append(spead.array(spead.FENG_VALID, self._valid[a, h]))
                    self._tailed_heaps.append(spead2.send.HeapReference(spead.heap(items), substream_index=s))
        self._heaps = heaps

    def send(self, heaps: NDArray[np.int8 | np.uint8], valid: NDArray[np.bool_], first_spectrum: int) -> None:
        """Send some heap lengths of spectra to all substreams; blocks for as long as the rate asks.

        The arrays may be used again when this returns.

        Parameters
        ----------
        heaps : ndarray, shape (antenna, heap, channel, spectrum, pol, 2) int8, or without the last axis uint8 if 4 bit
            Quantized spectra, every channel of the band.
        valid : ndarray of bool, shape (input, spectrum)
            Which spectra are valid.
        first_spectrum : int
            Index since sync of the first spectrum, a multiple of the spectra per heap.

        Raises
        ------
        ValueError
            If shapes or the first spectrum do not fit the observation.
        """
        antennas, count = len(self.antennas), heaps.shape[1]
        shape = (antennas, count, self._channels, self._spectra, self._pols) + (2,) * (self._value_bytes == 2)
        if heaps.shape != shape or heaps.dtype.itemsize != 1:
            raise ValueError(f"heaps are {heaps.dtype} {heaps.shape}; this sender takes bytes of shape {shape}")
        if valid.shape != (antennas * self._pols, count * self._spectra):
            raise ValueError(f"valid has shape {valid.shape}, not {(antennas * self._pols, count * self._spectra)}")
        if first_spectrum % self._spectra:
            raise ValueError(f"first_spectrum {first_spectrum} must be a multiple of {self._spectra}, the heap length")
        if count != self._heaps:
            self._prepare(count)
        self._payload.reshape(shape)[...] = heaps.view(np.uint8)
        first_heap = first_spectrum // self._spectra
        self._timestamps[...] = self._step * self._spectra * (first_heap + np.arange(count))
        by_heap = valid.reshape(antennas, self._pols, count, self._spectra).transpose(0, 2, 1, 3)
        self._valid[...] = np.packbits(by_heap, axis=-1, bitorder="little")
        whole = np.asarray(by_heap.all(axis=(2, 3)))
        some = np.asarray(by_heap.any(axis=(2, 3)))
        per_time = self._substreams * antennas
        if whole.all():
            self._send(self._plain, self._plain_heaps, range(count * per_time), first_heap)
            return
        for h in range(count):  # in time order, so that heaps with and without a tail stay together
            pick = [h * per_time + i for i in range(per_time)]
            self._send(self._plain, self._plain_heaps, [i for i in pick if whole[i % antennas, h]], first_heap)
            tailed = [i for i in pick if some[i % antennas, h] and not whole[i % antennas, h]]
            self._send(self._tailed, self._tailed_heaps, tailed, first_heap)
            self.flagged += len(tailed)
            self.packets += len(tailed)
            self.withheld += self._substreams * int((~some[:, h]).sum())

    def _send(
        self,
        stream: HeapStream,
        heaps: list[spead2.send.HeapReference],
        which: Sequence[int],
        first_heap: int,
    ) -> None:
        antennas = len(self.antennas)
        for i in which:  # heap IDs: antenna + k · antennas, k counting heap lengths since sync
            heaps[i].cnt = (
                self.antennas[i % antennas] + (first_heap + i // (antennas * self._substreams)) * self._n_antennas
            )
        if which:
            chosen = [heaps[i] for i in which]
            runs = [chosen] if self._queues is None else self._queues.portions(chosen, self._heap_bytes, 1)
            for run in runs:
                stream.send_heaps(run)
        self.sent += len(which)
        self.packets += len(which) * self._groups

    def describe(self) -> None:
        """Send SPEAD descriptors from now on, every 5 s."""
        self._opened.append(Descriptors(self._observation, self._endpoints, spectra_items(self._observation)))

    def end(self) -> None:
        """Send a stop heap of every antenna to every substream."""
        for s in range(self._substreams):
            for antenna in self.antennas:
                self._plain.send_heap(spead.end_heap(spead.FENG_ID, antenna), substream_index=s)
