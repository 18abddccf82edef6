"""What F-engines find out about their inputs, on its way to the file: counted, sent, collected, recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import Observation
from ryle.products.observed import input_labels
from ryle.receive.statistics import StatisticsMap
from ryle.send.statistics import StatisticsSender
from ryle.stream.block import Block
from ryle.stream.ring import Reader
from ryle.stream.step import EachBlock
from ryle.wire.samples import count_levels
from ryle.wire.statistics import NUMBERS, histogram_levels

if TYPE_CHECKING:  # it brings pyuvdata
    from ryle.products.uvh5 import UVH5Writer

#: What the file calls `ryle.wire.statistics.NUMBERS`.
_RECORDS = dict(zip(NUMBERS, ("adc_samples", "adc_power", "spectra_values", "spectra_saturated"), strict=True))


#: Packets that are counted at once, each of another input, and seconds of signal until the next are: of chunks that are
#: short some are left out, and of long ones more are counted, up to so many packets of an input.
_AT_ONCE, _APART, _MOST = 4, 0.005, 8


class AdcHistogram:
    """How often each ADC value occurs, from some packets of an input and chunk: enough to see levels and clipping.

    Of many inputs some are looked at in a chunk, in turn, the more the longer it is; of chunks that are short, some.

    Attributes
    ----------
    levels : ndarray of int64, shape (level,)
        ADC values; the outermost stand for all beyond them too.
    counts : ndarray of int64, shape (input, level)
        Occurrences, real and imaginary parts alike.
    position : int
        Sample count up to which it has looked.
    """

    def __init__(self, observation: Observation, inputs: int) -> None:
        self._bits = observation.channelized_bits
        self.levels = histogram_levels(self._bits)
        self.counts = np.zeros((inputs, len(self.levels)), np.int64)
        self.position = 0
        self._apart = max(1, round(_APART * float(observation.sample_rate)))

    def add(self, chunk: SampleChunk) -> None:
        """Count packets that are present, over the whole chunk, of each input whose turn it is.

        Whose turn it is, and whether anybody's, follows from the chunk's time alone: parts of an observation add up.
        """
        # One chunk in each stretch is looked at; of chunks that are longer than a stretch, each.
        stretch = max(self._apart, chunk.samples)
        turn = chunk.timestamp // stretch
        if turn == (chunk.timestamp - chunk.samples) // stretch:
            return
        self.position = chunk.end
        scale = 1 << max(0, self._bits - 10) if self._bits < 32 else 1
        packets = _AT_ONCE * max(1, chunk.samples // self._apart)
        many, each = min(packets, chunk.inputs), min(max(packets // chunk.inputs, 1), _MOST)
        first = turn * many % chunk.inputs
        for i in (np.arange(first, first + many) % chunk.inputs).tolist():
            there = np.flatnonzero(chunk.present[i])
            for packet in there[:: max(1, -(-len(there) // each))].tolist():
                data = chunk.data[i, packet]
                count_levels(data, self._bits, 0, data.size * 8 // self._bits, self.counts[i], scale)


class SendStatistics(EachBlock):
    """Totals of an F-engine's inputs to packets of what came to them since the last.

    Parameters
    ----------
    source : Reader
        Of blocks: totals of shape (input, level + 4), ``start`` the interval that they go up to.
    sender : StatisticsSender
        Sends them.
    """

    def __init__(self, source: Reader, sender: StatisticsSender) -> None:
        super().__init__("statistics", source)
        self._sender = sender
        self._told: NDArray[np.int64] | int = 0

    def use(self, block: Block) -> None:
        """Send what is new."""
        with block:
            totals = block.data
            new, self._told = totals - self._told, totals
            self._sender.send(block.start, new[:, : -len(NUMBERS)], new[:, -len(NUMBERS) :])

    def close(self) -> None:
        """Close the sender's socket."""
        self._sender.close()


class CollectStatistics(EachBlock):
    """Packets of statistics to totals of the whole observation.

    Parameters
    ----------
    source : Reader
        Of blocks of packets.
    map : StatisticsMap
        What they are.
    """

    def __init__(self, source: Reader, map: StatisticsMap) -> None:
        super().__init__("statistics", source)
        self._map = map
        self._totals: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # replaced, as others read it

    def use(self, block: Block) -> None:
        """Add a block."""
        with block:
            if block.planes["present"].any():
                found = self._map.given(block)
                counts, numbers = (0, 0) if self._totals is None else self._totals
                self._totals = counts + found.counts, numbers + found.numbers

    def record(self, writer: UVH5Writer, observation: Observation, missing: int) -> None:
        """Put everything so far into the file, also that there was nothing. From any thread.

        Parameters
        ----------
        writer : UVH5Writer
            An open file.
        observation : Observation
            What is observed.
        missing : int
            Packets that did not come.
        """
        totals = self._totals
        if totals is None:
            note = f"no statistics of inputs came to {observation.statistics} (network.statistics)"
            writer.record("adc_missing", note)
            return
        record_statistics(writer, observation, *totals)
        if missing:
            writer.record("adc_missing", f"{missing} packets of statistics of inputs did not come")


def record_statistics(
    writer: UVH5Writer, observation: Observation, counts: NDArray[np.int64], numbers: NDArray[np.int64]
) -> None:
    """Put statistics of all inputs into a file.

    Parameters
    ----------
    writer : UVH5Writer
        An open file.
    observation : Observation
        What is observed.
    counts : ndarray of int64, shape (input, level)
        How often each ADC value occurred.
    numbers : ndarray of int64, shape (input, 4)
        `ryle.wire.statistics.NUMBERS` of each input.
    """
    writer.record("adc_levels", histogram_levels(observation.channelized_bits))
    writer.record("adc_histogram", counts)
    writer.record("adc_labels", input_labels(observation))
    for i, name in enumerate(NUMBERS):
        writer.record(_RECORDS[name], numbers[:, i])
