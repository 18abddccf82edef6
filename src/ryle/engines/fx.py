"""F and X in one process: samples of all antennas in, a file of integrations of the whole band out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ryle.channelize import Blocks
from ryle.chunk import BLOCK, SampleChunk, SpectraChunk, valid_words
from ryle.config import Observation
from ryle.correlate.reading import DeviceSpectra, SpreadSpectra
from ryle.engines.beginning import WholeBand
from ryle.engines.chunk_recordings import Room
from ryle.engines.f import f_steps
from ryle.engines.planning import Samples, SomeInputs
from ryle.engines.statistics import record_statistics
from ryle.engines.steering import Steering
from ryle.engines.totals import InputTotals
from ryle.engines.write_file import WriteFile
from ryle.engines.x import Correlate, XEngine, wanted
from ryle.receive.windows import window_shape
from ryle.stream.block import Block, Together
from ryle.stream.ring import Readable, Ring
from ryle.stream.step import Step
from ryle.wire.levels import Levels
from ryle.wire.statistics import NUMBERS

if TYPE_CHECKING:
    from ryle.gpu import Gpu
    from ryle.products.uvh5 import UVH5Writer

#: Blocks between two steps: one that is read, one that waits, one that is written.
_BLOCKS = 3


#: Reads samples of several bands, which take turns, each into the memory that it asks for or into its own.
ReadChunks = Callable[[Room], Iterable[tuple[int, SampleChunk]]]


class ReadSamples(Step):
    """Samples that come in no packets, of several bands: recordings, or a simulator's.

    Parameters
    ----------
    chunks : callable
        Asked for band and samples of it, in turns, with where to get memory.
    rings : sequence of Ring
        One a band.
    allocate : callable, optional
        Gives so many bytes of memory that is used again and again, as GPUs copy what is page-locked by themselves;
        samples lie in fresh memory each time if absent.
    """

    def __init__(
        self,
        chunks: ReadChunks,
        rings: Sequence[Ring],
        allocate: Callable[[int], NDArray[np.uint8]] | None = None,
    ) -> None:
        super().__init__("read", rings)
        self._chunks, self._stop, self._allocate = chunks, threading.Event(), allocate
        self._memory: dict[int, NDArray[np.uint8]] = {}  # by block
        self._taken: list[Block] = []  # whose memory has been given, and which has not been put yet
        #: End of the last samples, and how many have been read, of all inputs.
        self.position = self.samples = 0

    def stop(self) -> None:
        """Read no more, once all bands have come as far. From any thread."""
        self._stop.set()

    def run(self) -> None:
        """Read to the end."""
        for band, chunk in self._chunks(self._room):
            if band == 0 and self._stop.is_set():
                for block in self._taken:
                    self.outputs[band].unused(block)
                return
            block = self._taken.pop() if self._taken else self._block(band)
            block.data, block.start, block.span = chunk, chunk.timestamp, chunk.samples
            self.outputs[band].put(block)
            self.position = chunk.end
            self.samples += chunk.inputs * chunk.samples

    def _block(self, band: int) -> Block:
        block = self.outputs[band].room()
        assert block is not None
        return block

    def _room(self, shape: tuple[int, int, int]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Give memory for samples of the first band, and for what says which of them are there."""
        inputs, packets, size = shape
        if self._allocate is None:
            return np.empty(shape, np.uint8), np.empty((inputs, packets), np.uint8)
        block, cells = self._block(0), inputs * packets
        memory = self._memory.get(id(block))
        if memory is None or memory.size < cells * (size + 1):
            memory = self._memory[id(block)] = self._allocate(cells * (size + 1))
        self._taken.append(block)
        return memory[: cells * size].reshape(shape), memory[cells * size :][:cells].reshape(inputs, packets)


def read_ring() -> Ring:
    """Make a ring for samples that `ReadSamples` reads."""
    return Ring("samples", lambda: Block(None), _BLOCKS)


class AsRead:
    """What blocks of `ReadSamples` are: samples in memory of their own, which nobody has to hold.

    Parameters
    ----------
    levels : Levels, optional
        What decodes them, if the channelizer does not take them as they are.
    """

    lent = in_place = False

    def __init__(self, levels: Levels | None = None) -> None:
        self._levels = levels

    def given(self, block: Block) -> SampleChunk:
        """Give the samples."""
        chunk: SampleChunk = block.data
        if self._levels is None:
            return chunk
        return SampleChunk(chunk.timestamp, self._levels.decode(chunk.data), chunk.present, chunk.packet_samples)

    def saturated(self, block: Block) -> int:
        """Count what recordings report as saturated: they do not."""
        return 0


class CorrelateBlocks(Correlate):
    """Spectra of this process to integrations."""

    def use(self, block: Block) -> None:
        """Add a block of spectra, unless nothing in it is valid."""
        if block.planes["valid"].any():
            super().use(block)
        else:
            block.release()


def fx_steps(
    observation: Observation,
    source: Readable,
    samples: Samples,
    open_file: Callable[[], UVH5Writer],
    gpus: Sequence[Gpu],
    steering: Steering | None = None,
    *,
    joins: bool = False,
) -> list[Step]:
    """Make the steps between samples and file: channelize, correlate, write.

    Parameters
    ----------
    observation : Observation
        Of one band.
    source : Readable
        Where blocks of samples come from.
    samples : Samples
        What the blocks are.
    open_file : callable
        Opens the file, when there is something to write.
    gpus : sequence of Gpu
        What it is spread over: antennas where they are channelized, channels where they are correlated; none: a CPU.
    steering : Steering, optional
        See `FEngine`.
    joins : bool
        Begin as a correlator that joined an array which was already sending: with the first whole integration.
    """
    o = observation
    parts, steps, spectra = spectra_steps(o, source, samples, gpus, steering)
    x = XEngine(o, 0, o.fengine.channels, groups=1, whole_first=joins, gpus=gpus)
    sums = Ring("integrations", lambda: Block(x.room()), _BLOCKS)

    def record(writer: UVH5Writer) -> None:
        totals = np.concatenate([part.totals() for part in parts])
        record_statistics(writer, o, totals[:, : -len(NUMBERS)], totals[:, -len(NUMBERS) :])

    return [
        *steps,
        CorrelateBlocks(spectra.reader(), x, spectra_of, sums),
        WriteFile(
            sums.reader(),
            wanted(o),
            open_file,
            o.file_spectra,
            at_end=record,
            beginning=WholeBand(o.file_spectra) if joins else None,
        ),
    ]


def spectra_of(block: Block) -> SpectraChunk:
    """View a block of spectra, which lie on the host, on a GPU, or on several, as a correlator takes them."""
    words = np.ascontiguousarray(valid_words(block.planes["valid"]).T[np.newaxis])  # one channel group
    first = block.start // BLOCK
    if isinstance(block.ready, Together):
        return SpreadSpectra(first, block.data, words, block.ready.events)
    if block.place.kind == "gpu":
        return DeviceSpectra(first, block.data, words, block.ready)
    return SpectraChunk(first, block.data, words)


def spectra_steps(
    observation: Observation,
    source: Readable,
    samples: Samples,
    gpus: Sequence[Gpu],
    steering: Steering | None = None,
) -> tuple[list[InputTotals], list[Step], Ring]:
    """Make the steps to spectra as they are correlated, which stay on the GPUs.

    Parameters
    ----------
    observation, source, samples, gpus, steering
        As of `fx_steps`.

    Returns
    -------
    totals : list of InputTotals
        What is counted, by each GPU's inputs.
    steps : list of Step
        In the order of the signal path.
    out : Ring
        Of blocks that `spectra_of` views.
    """
    o, antennas = observation, range(len(observation.antennas))
    if not gpus or o.xengine.backend != "cuda":
        gpu, reader = gpus[0] if gpus else None, source.reader()
        totals, steps, spectra = f_steps(o, antennas, Blocks(), reader, samples, gpu, steering=steering)
        return [totals], steps, spectra
    from ryle.engines.f_gpu import gpu_f_steps

    if len(gpus) == 1:
        reader = source.reader()
        steps, totals, made = gpu_f_steps(gpus[0], o, antennas, Blocks(), reader, samples, steering=steering)
        return [totals], steps, made.out
    from ryle.engines.exchange import Exchange, Rooms, Slabs

    slabs = Slabs(o, len(gpus), window_shape(o).batch)
    rooms, whole = Rooms(gpus, slabs), steering or Steering(o, antennas)
    steps, parts, rings = [], [], []
    for number, (gpu, some) in enumerate(zip(gpus, slabs.antennas, strict=True)):
        inputs = slice(some.start * o.pols, some.stop * o.pols)
        reader, of_some = source.reader(), SomeInputs(samples, inputs)
        part = whole.part(some)
        share = rooms, number
        more, totals, made = gpu_f_steps(gpu, o, some, slabs.layout, reader, of_some, steering=part, share=share)
        steps += more
        parts.append(totals)
        rings.append(made.out)
    exchange = Exchange(gpus, rooms, [ring.reader() for ring in rings])
    return parts, [*steps, exchange], exchange.out
