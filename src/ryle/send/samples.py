"""Samples as packets of any described format: what simulated digitizers send, unless spead2 does it for MeerKAT's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import Endpoint, Observation
from ryle.send.datagrams import DatagramSender, Injector
from ryle.wire.description import Format, Total, terms
from ryle.wire.laid_out import laid_out
from ryle.wire.spectra import headers

_STATUS = "status"  # the field in which saturated samples are counted, in bits 47 to 32


class SampleMaker:
    """Makes packets of samples.

    Parameters
    ----------
    format : Format
        Packets of samples of one input, each all of its heap if the format has heaps.
    heads : sequence of tuple of int
        Values of the fields that tell streams apart (``format.timestamp.stream``), of each input.

    Raises
    ------
    ValueError
        If the format's packets hold anything else.
    """

    def __init__(self, format: Format, heads: Sequence[tuple[int, ...]]) -> None:
        if format.axes != ("time",) or format.timestamp.unit != "samples" or not format.fixed:
            raise ValueError(f"{format.name}: a digitizer sends packets of one input's samples, axis time alone")
        self.format = format
        laid = laid_out(format, (_STATUS,) if _STATUS in format.fields else ())
        if laid.heap is not None:
            raise ValueError(f"{format.name}: a digitizer's heap is one packet")
        self._laid = laid
        self._heads = [dict(zip(format.timestamp.stream, head, strict=True)) for head in heads]
        self._number = format.heap.number if format.heap is not None else None
        #: Bytes of samples of a packet, and of a packet.
        self.payload_bytes = laid.heap_bytes[0] - laid.payload.trailer_bytes[0]
        self.packet_bytes = laid.header.bytes + laid.heap_bytes[0]

    def packets(
        self,
        chunk: SampleChunk,
        saturated: NDArray[np.integer] | None = None,
        shifts: NDArray[np.int64] | None = None,
    ) -> NDArray[np.uint8]:
        """Put headers before samples.

        Parameters
        ----------
        chunk : SampleChunk
            Samples as they are on the wire.
        saturated : ndarray of int, shape (input, packet), optional
            Saturated samples of each packet, for formats with a status word.
        shifts : ndarray of int64, shape (input, packet), optional
            What is wrong with the time stamps of a digitizer that lost count, samples.

        Returns
        -------
        ndarray of uint8, shape (packet, input, bytes)
            Packets as they are sent; those that are not present are made like the others.

        Raises
        ------
        ValueError
            If the chunk's inputs, packet length or timestamp do not fit.
        """
        inputs, packets, size = chunk.data.shape
        step = self.format.timestamp.step
        if (inputs, size, chunk.packet_samples) != (len(self._heads), self.payload_bytes, step):
            raise ValueError(
                f"chunk has {inputs} inputs of {size}-byte packets of {chunk.packet_samples} samples; this sender has "
                f"{len(self._heads)} inputs of {self.payload_bytes}-byte packets of {step} samples"
            )
        if chunk.timestamp % step:
            raise ValueError(f"timestamp {chunk.timestamp} must be a multiple of {step}, a packet's samples")
        right = chunk.timestamp + step * np.arange(packets)
        counters, numbers = self._counted(right)
        out = np.zeros((packets, inputs, self.packet_bytes), np.uint8)
        at = self._laid.header.bytes
        for i, head in enumerate(self._heads):
            if shifts is not None:
                counters, numbers = self._counted(right + shifts[i])
            fields: dict[str, NDArray[np.uint64] | int] = {**head, **counters}
            if self._number is not None:
                fields[self._number] = (numbers * np.uint64(inputs) + np.uint64(i)) & np.uint64(
                    (1 << self._laid.fields[self._number].width) - 1
                )
            if _STATUS in self._laid.fields and saturated is not None:
                fields[_STATUS] = np.minimum(saturated[i], 0xFFFF).astype(np.uint64) << np.uint64(32)
            out[:, i, :at] = headers(self._laid, fields, packets)
            out[:, i, at : at + size] = chunk.data[i]
        return out

    def _counted(self, times: NDArray[np.int64]) -> tuple[dict[str, NDArray[np.uint64] | int], NDArray[np.uint64]]:
        """Say sample counts in the format's fields, and number the packets; a count before 0 is that of a period."""
        counts = times.astype(np.uint64)
        if self.format.period < 1 << 64:
            counts = (times % self.format.period).astype(np.uint64)
        return _said(self._laid, self.format.timestamp.count, counts), counts // np.uint64(self.format.timestamp.step)


def _said(format: Format, total: Total, numbers: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64] | int]:
    """Say numbers as a sum of fields, the greatest factors first."""
    add = total.get("add", 0)
    left = numbers - np.uint64(add) if add > 0 else numbers + np.uint64(-add)
    said: dict[str, NDArray[np.uint64] | int] = {}
    for name, factor in sorted(terms(total).items(), key=lambda term: -term[1]):
        said[name] = np.minimum(left // np.uint64(factor), np.uint64(format.fields[name].high))
        left = left - said[name] * np.uint64(factor)
    return said


class SampleSender:
    """Sends packets of samples: packet n of an input goes to endpoint n modulo the number of its endpoints.

    Parameters
    ----------
    observation : Observation
        Sample rate, network, and ``[simulate]`` with its faults.
    format, heads
        See `SampleMaker`.
    ways : sequence of sequence of Endpoint
        Where packets of each input go, in turn.
    speed : float
        Rate in units of real time; 0 sends as fast as receivers on this host take the packets.
    """

    def __init__(
        self,
        observation: Observation,
        format: Format,
        heads: Sequence[tuple[int, ...]],
        ways: Sequence[Sequence[Endpoint]],
        *,
        speed: float = 1.0,
    ) -> None:
        assert observation.simulate is not None
        self.maker = SampleMaker(format, heads)
        self._rate = float(observation.sample_rate)
        endpoints = list(dict.fromkeys(e for way in ways for e in way))
        self._turns = math.lcm(*map(len, ways))
        self._to = np.array(
            [[endpoints.index(way[turn % len(way)]) for way in ways] for turn in range(self._turns)], np.uint32
        )
        self._streams = np.arange(len(heads), dtype=np.uint32)
        injector = Injector(observation.simulate.faults, format, len(heads))
        self._out = DatagramSender(observation.network, endpoints, injector, speed=speed)

    @property
    def sent(self) -> int:
        """Packets sent so far."""
        return self._out.sent

    @property
    def counts(self) -> dict[str, int]:
        """What became of packets; see `ryle.send.datagrams.Injector.counts`."""
        return self._out.counts

    def send(
        self,
        chunk: SampleChunk,
        saturated: NDArray[np.integer] | None = None,
        stop: Callable[[], bool] = lambda: False,
        shifts: NDArray[np.int64] | None = None,
    ) -> None:
        """Send the packets of a chunk that are present, in time order; blocks for as long as the rate asks."""
        packets = self.maker.packets(chunk, saturated, shifts)
        each = chunk.packet_samples
        turns = (chunk.timestamp // each + np.arange(len(packets))) % self._turns
        there = chunk.present.T.astype(np.bool_)
        self._out.send(
            packets, self._streams, self._to[turns], there, chunk.timestamp / self._rate, each / self._rate, stop
        )

    def close(self) -> None:
        """Send what faults held back, and close."""
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
