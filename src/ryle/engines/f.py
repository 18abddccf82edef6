"""The F-engine: digitizer samples of some antennas in, delayed and quantized spectra out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays, DelaySchedule, evaluate_inputs, window_centres
from ryle.array.observed import phase_tracker
from ryle.channelize import ChannelizerConfig, Heaps, Layout, Rows, Spectra, make_channelizer
from ryle.channelize.channelizer import Pipelined, output_shape
from ryle.chunk import BLOCK, SampleChunk, SampleWindow
from ryle.config import Observation
from ryle.engines.budget import BATCHES
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.statistics import AdcHistogram, SendStatistics
from ryle.receive.entrance import MappedEntrance
from ryle.receive.samples import SampleMap
from ryle.receive.windows import SampleBuffer, window_shape
from ryle.send.rows import RowSender
from ryle.send.spectra import SpectraSender
from ryle.send.statistics import StatisticsSender
from ryle.stream.block import Block
from ryle.stream.engine import Engine, Inlet
from ryle.stream.metrics import Registry
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock, Step
from ryle.wire.samples import packed_bytes


class FEngine:
    """Channelizes some antennas and tracks the phase centre with them.

    Delay models are made from geometry and loaded a segment or more ahead of the samples that they apply to.

    Parameters
    ----------
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive antennas; input = position in this sequence · pols + pol.
    layout : Blocks or Heaps
        How the spectra are laid out.
    residuals : ndarray of float64, shape (input,), optional
        Samples by which each input's samples were taken after their time stamps (what a recording's clock offset
        leaves when it is rounded to samples).

    Raises
    ------
    ValueError
        If a delay will exceed ``fengine.max_delay`` before the observation ends; names the antenna.

    Attributes
    ----------
    shape : WindowShape
        Spectra come in batches of ``shape.batch``, aligned to its multiples since sync.
    saturated, values : ndarray of int64, shape (input,)
        Output values that saturated, and all valid ones, so far.
    power, samples : ndarray, shape (input,)
        Sum of squares of the samples that valid spectra advanced over, and their number, so far.
    """

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int],
        layout: Layout,
        residuals: NDArray[np.float64] | None = None,
    ) -> None:
        f, pols = observation.fengine, observation.pols
        inputs = len(antennas) * pols
        self._observation = observation
        self._layout = layout
        self.shape = window_shape(observation)
        self._buffer = SampleBuffer(self.shape)
        first_input = antennas[0] * pols
        self._channelizer = make_channelizer(
            ChannelizerConfig(
                inputs=inputs,
                channels=f.channels,
                taps=f.taps,
                window=f.window,
                w_cutoff=f.w_cutoff,
                bits=observation.channelized_bits,
                complex_input=observation.digitizer.complex,
                output_bits=f.output_bits,
                dither=f.dither,
                seed=f.seed,
                input_offset=first_input,
                threads=f.threads,
                conjugated=tuple(i for i in range(inputs) if observation.streams[first_input + i].conjugate),
            ),
            f.backend,
        )
        self._channelizer.set_gains(observation.gains[first_input : first_input + inputs])
        # A form that offers it works on a batch while the next is collected and copied.
        self._pipelined = self._channelizer if isinstance(self._channelizer, Pipelined) else None
        self._under_way = False
        self._tracker = phase_tracker(observation, antennas)
        if observation.end_sample:
            self._tracker.check_max_delay(0, observation.end_sample)  # before the observation, not in the middle of it
        if self._pipelined is not None:
            self._rehearse(self._pipelined)
        self._schedules = [DelaySchedule() for _ in range(inputs)]
        self._residuals = residuals
        self._loaded = (0, 0)  # samples that the schedules cover
        self._delays(0)  # astrometry that is asked for the first time reads tables for most of a second
        self.saturated = np.zeros(inputs, np.int64)
        self.values = np.zeros(inputs, np.int64)
        self.power = np.zeros(inputs, np.float64)
        self.samples = np.zeros(inputs, np.int64)
        self.adc = AdcHistogram(observation, inputs)
        #: Gives the array that a batch is written to; new memory each time if absent.
        self.take_room: Callable[[], NDArray[Any]] | None = None
        #: Sample count up to which spectra have been given.
        self.position = 0

    def push(self, chunk: SampleChunk) -> Iterator[Spectra]:
        """Add samples; give each batch of spectra that they complete.

        A channelizer that works while samples are collected gives each batch when the next is complete.

        Parameters
        ----------
        chunk : SampleChunk
            In time order; must not be written to before `needed` says that its samples are not needed any more.
        """
        self.adc.add(chunk)
        yield from self._channelize(self._buffer.push(chunk))

    def flush(self) -> Iterator[Spectra]:
        """Give the spectra that the samples so far still contribute to; what they lack counts as missing."""
        yield from self._channelize(self._buffer.flush())
        if self._pipelined is not None and self._under_way:
            self._under_way = False
            yield self._counted(self._pipelined.collect())

    @property
    def needed(self) -> int | None:
        """First sample that spectra to come may read; None if no samples are held."""
        return self._buffer.needed

    @property
    def pipelined(self) -> bool:
        """Whether the channelizer works on a batch while the next is collected, and gives it in memory of its own."""
        return self._pipelined is not None

    def totals(self) -> NDArray[np.int64]:
        """Give what was counted so far, shape (input, level + 4): the histogram, `ryle.wire.statistics.NUMBERS`."""
        numbers = (self.samples, np.rint(self.power).astype(np.int64), self.values, self.saturated)
        return np.concatenate((self.adc.counts, np.stack(numbers, axis=1)), axis=1)

    def room(self) -> NDArray[Any]:
        """Make memory that a batch can be written to."""
        shape, dtype = output_shape(self._channelizer.config, self.shape.batch, self._layout)
        return np.zeros(shape, dtype)

    def _channelize(self, windows: Iterator[tuple[int, SampleWindow]]) -> Iterator[Spectra]:
        for first, window in windows:
            arguments = window, first, self.shape.batch, self._delays(first), self._layout
            if self._pipelined is None:
                out = None if self.take_room is None else self.take_room()
                yield self._counted(self._channelizer.process(*arguments, out=out))
                continue
            self._pipelined.submit(*arguments)
            if self._under_way:
                yield self._counted(self._pipelined.collect())  # of the batch before
            self._under_way = True

    def _rehearse(self, channelizer: Pipelined) -> None:
        """Channelize two batches of nothing, so that kernels are compiled and buffers allocated before samples come."""
        low, high = self.shape.span(0)
        config, size = channelizer.config, self._observation.digitizer.heap_samples
        packets, inputs = -(-high // size) - low // size, config.inputs
        row = packed_bytes(size, config.bits, complex_samples=config.complex_input)
        data, present = np.zeros((inputs, packets, row), np.uint8), np.zeros((inputs, packets), np.uint8)
        nothing = SampleChunk(low // size * size, data, present, size)
        for _ in range(2):
            channelizer.submit(nothing, 0, self.shape.batch, Delays.zero(inputs, self.shape.batch), self._layout)
        for _ in range(2):
            channelizer.collect()

    def _counted(self, spectra: Spectra) -> Spectra:
        self.saturated += spectra.saturated
        self.values += spectra.valid.sum(axis=1, dtype=np.int64) * self._observation.fengine.channels
        self.power += spectra.input_power
        self.samples += spectra.input_samples
        self.position = (spectra.first_spectrum + self.shape.batch) * self.shape.step
        return spectra

    def _delays(self, first: int) -> Delays:
        o = self._observation
        centres = window_centres(first, self.shape.batch, o.fengine.channels, o.fengine.taps, not o.digitizer.complex)
        low, high = int(centres[0]), int(centres[-1]) + 1
        if not (self._loaded[0] <= low and high <= self._loaded[1]):
            ahead = max(2 * (high - low), 2 * self._tracker.segment)
            self._tracker.load(self._schedules, low, high + ahead)
            self._loaded = (low, high + ahead)
            for schedule in self._schedules:
                schedule.prune(low)
        found = evaluate_inputs(self._schedules, centres)
        if self._residuals is None:
            return found
        # A time shift of the samples turns baseband frequencies: at the centre of a real band, fs/4.
        shift = self._residuals[:, np.newaxis]
        fine = found.fine + shift
        step = np.rint(fine)
        turn = 0.0 if o.digitizer.complex else -0.5 * np.pi * shift
        return Delays(found.coarse + step.astype(np.int64), fine - step, found.phase + turn)


class Samples(Protocol):
    """What blocks of samples are."""

    @property
    def lent(self) -> bool:
        """Whether the samples lie in the block's own memory, which must be held while they are needed."""

    def given(self, block: Block) -> SampleChunk:
        """View a block as the F-engine takes it."""

    def saturated(self, block: Block) -> int:
        """Count the saturated samples that are reported of it."""


class Channelize(EachBlock):
    """Samples to spectra. Blocks are held for as long as spectra to come read their samples.

    Parameters
    ----------
    source : Reader
        Of blocks of samples.
    f : FEngine
        What channelizes them.
    samples : Samples
        What the blocks are.
    out : Ring
        Of batches of spectra.
    statistics : Ring, optional
        Of `FEngine.totals` at the end of each interval.
    interval : int
        Samples of an interval.
    """

    def __init__(
        self, source: Reader, f: FEngine, samples: Samples, out: Ring, statistics: Ring | None = None, interval: int = 1
    ) -> None:
        super().__init__("channelize", source, [out] if statistics is None else [out, statistics])
        self.f, self._samples, self._out = f, samples, out
        self._statistics, self._length, self._interval = statistics, interval, -1
        #: Saturated samples that digitizers reported in the packets received.
        self.adc_saturated = 0
        self._held: deque[Block] = deque()
        self._block: Block | None = None
        if not f.pipelined:
            f.take_room = self._room

    def use(self, block: Block) -> None:
        """Channelize what the block completes; give back what no more spectra need."""
        if (now := block.start // self._length) != self._interval:
            self._tell()
            self._interval = now
        if self._samples.lent:
            self._held.append(block)
        self.adc_saturated += self._samples.saturated(block)
        for spectra in self.f.push(self._samples.given(block)):
            self._give(spectra)
        if not self._samples.lent:
            block.release()
        while self._held and (self.f.needed is None or self._held[0].end <= self.f.needed):
            self._held.popleft().release()

    def finish(self) -> None:
        """Channelize what is left."""
        for spectra in self.f.flush():
            self._give(spectra)
        while self._held:
            self._held.popleft().release()
        self._tell()

    def _tell(self) -> None:
        """Give the totals at the end of an interval; if nobody takes them, those of the next have it all."""
        if self._statistics is None or self._interval < 0:
            return
        if (block := self._statistics.room()) is not None:
            block.data, block.start = self.f.totals(), self._interval
            self._statistics.put(block)

    def _room(self) -> NDArray[Any]:
        self._block = self._out.room()
        assert self._block is not None
        room: NDArray[Any] = self._block.data
        return room

    def _give(self, spectra: Spectra) -> None:
        block = self._block if self._block is not None else self._out.room()
        assert block is not None
        self._block = None
        block.data, block.planes["valid"] = spectra.data, spectra.valid
        block.start, block.span = spectra.first_spectrum, spectra.valid.shape[1]
        self._out.put(block)


class SendSpectra(EachBlock):
    """Spectra to packets."""

    def __init__(self, source: Reader, sender: SpectraSender | RowSender) -> None:
        super().__init__("send", source)
        self._sender = sender
        self._unit = BLOCK if isinstance(sender, RowSender) else 1

    def use(self, block: Block) -> None:
        """Send a batch; takes as long as its pace asks."""
        with block:
            self._sender.send(block.data, block.planes["valid"], block.start // self._unit)

    def close(self) -> None:
        """Close the sender's sockets."""
        self._sender.close()


def f_engine(observation: Observation, index: int) -> tuple[Engine, FEngine]:
    """Make F-engine `index`: receive, channelize, send.

    Raises
    ------
    ValueError
        If there is no such F-engine.
    OSError
        If it cannot receive.
    """
    o = observation
    if not 0 <= index < o.f_engines:
        raise ValueError(f"F-engine {index} does not exist: there are {o.f_engines}, counted from 0")
    antennas = o.f_engine_antennas(index)
    layout = Rows(o.pols) if o.sends_rows else Heaps(o.fengine.spectra_per_heap, o.pols)
    f = FEngine(o, antennas, layout)
    sender = (RowSender if o.sends_rows else SpectraSender)(o, antennas, rate=spectra_rate(o))
    if isinstance(sender, SpectraSender):  # rows are no SPEAD
        sender.describe()
    samples = SampleMap(o, antennas, waits=o.at_full_speed, timed=not o.at_full_speed)
    entrance = MappedEntrance(o, "f", samples, o.digitizer_endpoints(antennas), index=index, name="digitizer")
    batches = Ring("spectra", lambda: Block(None if f.pipelined else f.room()), BATCHES)
    totals = Ring("statistics", lambda: Block(None), BATCHES, "drop_newest") if o.statistics else None
    channelize = Channelize(entrance.reader(), f, samples, batches, totals, o.statistics_samples)
    steps: list[Step] = [channelize, SendSpectra(batches.reader(), sender)]
    if totals is not None and o.statistics is not None:
        steps.append(SendStatistics(totals.reader(), StatisticsSender(o, antennas, o.statistics)))
    return Engine([entrance], steps, _metrics(o, entrance, channelize, sender)), f


def _metrics(o: Observation, entrance: Inlet, channelize: Channelize, sender: SpectraSender | RowSender) -> Registry:
    m, f = entrance_metrics(entrance, o.digitizer_heap_bytes, "packets of samples"), channelize.f

    def rms() -> list[float]:
        values: list[float] = np.sqrt(f.power / np.maximum(1, f.samples)).round(2).tolist()
        return values

    m.gauge("position", "s", "signal that has been channelized", lambda: f.position / float(o.sample_rate))
    unit = "packets" if isinstance(sender, RowSender) else "heaps"
    m.counter("sent", unit, "packets of rows, or F-heaps, sent", lambda: sender.sent)
    m.counter("withheld", unit, "of these, without a valid spectrum: not sent", lambda: sender.withheld)
    m.gauge(
        "saturated",
        "",
        "share of spectra's values that saturated",
        lambda: float(f.saturated.sum() / max(1, f.values.sum())),
    )
    m.gauge("input_rms", "ADC steps", "of each input", rms)
    m.counter("adc_saturated", "samples", "that digitizers reported", lambda: channelize.adc_saturated)
    return m


def serve(observation: Observation, index: int, supervised: bool) -> None:
    """Be F-engine `index`: receive its antennas' samples, send their spectra, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    index : int
        Which F-engine.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    """
    engine, _ = f_engine(observation, index)
    serve_engine(engine, {"role": "f", "index": index}, supervised)


def spectra_rate(observation: Observation) -> float | None:
    """Rate to pace F-heaps at: None for the sender's own, 0 (as receivers take them) if simulated at full speed."""
    return 0.0 if observation.at_full_speed else None
