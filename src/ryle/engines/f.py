"""The F-engine: digitizer samples of some antennas in, delayed and quantized spectra out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ryle.channelize import Heaps, Layout, Rows, Spectra, make_channelizer
from ryle.channelize.channelizer import output_shape
from ryle.chunk import BLOCK, SampleChunk, SampleWindow
from ryle.config import Observation
from ryle.engines.budget import BATCHES, sample_map
from ryle.engines.f_config import channelizer_config
from ryle.engines.gpus import gpus_for, locked
from ryle.engines.planning import Samples
from ryle.engines.serving import entrance_metrics, serve_engine
from ryle.engines.statistics import SendStatistics
from ryle.engines.steered import SteeringControls
from ryle.engines.steering import Steering
from ryle.engines.totals import InputTotals, measure
from ryle.engines.trigger import Trigger
from ryle.receive.entrance import MappedEntrance
from ryle.receive.windows import SampleBuffer, window_shape
from ryle.send.rows import RowSender
from ryle.send.spectra import SpectraSender
from ryle.send.statistics import StatisticsSender
from ryle.stream.block import Block
from ryle.stream.engine import Engine, Inlet
from ryle.stream.metrics import Registry
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock, Step

if TYPE_CHECKING:
    from ryle.gpu import Gpu


class FEngine(InputTotals):
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
    steering : Steering, optional
        Gives delays and gains; as the observation says if absent.

    Raises
    ------
    ValueError
        If a delay will exceed ``fengine.max_delay`` before the observation ends; names the antenna.

    Attributes
    ----------
    shape : WindowShape
        Spectra come in batches of ``shape.batch``, aligned to its multiples since sync.
    """

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int],
        layout: Layout,
        steering: Steering | None = None,
    ) -> None:
        config = channelizer_config(observation, antennas)
        super().__init__(observation, config.inputs)
        self._layout = layout
        self.shape = window_shape(observation)
        self._buffer = SampleBuffer(self.shape)
        self._channelizer = make_channelizer(config, observation.fengine.backend)
        self._steering = steering or Steering(observation, antennas)
        self._beside = ThreadPoolExecutor(1, "look") if config.threads > 1 else None
        #: Gives the array that a batch is written to; new memory each time if absent.
        self.take_room: Callable[[], NDArray[Any]] | None = None

    def push(self, chunk: SampleChunk) -> Iterator[Spectra]:
        """Add samples; give each batch of spectra that they complete.

        Parameters
        ----------
        chunk : SampleChunk
            In time order; must not be written to before `needed` says that its samples are not needed any more.
        """
        if self._beside is None:
            self.look(chunk)
            yield from self._channelize(self._buffer.push(chunk))
            return
        looking = self._beside.submit(self.look, chunk)
        yield from self._channelize(self._buffer.push(chunk))
        looking.result()

    def flush(self) -> Iterator[Spectra]:
        """Give the spectra that the samples so far still contribute to; what they lack counts as missing."""
        yield from self._channelize(self._buffer.flush())

    @property
    def needed(self) -> int | None:
        """First sample that spectra to come may read; None if no samples are held."""
        return self._buffer.needed

    def room(self) -> NDArray[Any]:
        """Make memory that a batch can be written to."""
        shape, dtype = output_shape(self._channelizer.config, self.shape.batch, self._layout)
        return np.zeros(shape, dtype)

    def _channelize(self, windows: Iterator[tuple[int, SampleWindow]]) -> Iterator[Spectra]:
        for first, window in windows:
            out = None if self.take_room is None else self.take_room()
            if (gains := self._steering.new_gains(first)) is not None:
                self._channelizer.set_gains(gains)
            delays, batch = self._steering.delays(first), self.shape.batch
            spectra = self._channelizer.process(window, first, batch, delays, self._layout, out=out)
            self.count(first, spectra.valid, spectra.saturated, spectra.input_power)
            yield spectra


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
        self._held: deque[Block] = deque()
        self._block: Block | None = None
        f.take_room = self._room

    @property
    def totals(self) -> InputTotals:
        """What is counted."""
        return self.f

    def use(self, block: Block) -> None:
        """Channelize what the block completes; give back what no more spectra need."""
        if (now := block.start // self._length) != self._interval:
            self._tell()
            self._interval = now
        if self._samples.lent:
            self._held.append(block)
        self.f.adc_saturated += self._samples.saturated(block)
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
        block, self._block = self._block, None
        assert block is not None
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


def f_engine(observation: Observation, index: int, output: Path | None = None) -> tuple[Engine, InputTotals]:
    """Make F-engine `index`: receive, channelize, send; and write samples when somebody triggers.

    Parameters
    ----------
    observation : Observation
        What is observed.
    index : int
        Which F-engine.
    output : Path, optional
        Directory for what triggers write, instead of the observation's.

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
    gpus = gpus_for(o, "f", index)
    sender = (RowSender if o.sends_rows else SpectraSender)(o, antennas, rate=spectra_rate(o))
    if isinstance(sender, SpectraSender):  # rows are no SPEAD
        sender.describe()
    samples = sample_map(o, "f", antennas, index)
    entrance = MappedEntrance(
        o,
        "f",
        samples,
        o.digitizer_endpoints(antennas),
        index=index,
        name="digitizer",
        memory=locked(gpus),
        gpu=gpus[0] if gpus else None,
    )
    told = Ring("statistics", lambda: Block(None), BATCHES, "drop_newest") if o.statistics else None
    steering, gpu = Steering(o, antennas), gpus[0] if gpus else None
    f, steps, batches = f_steps(o, antennas, layout, entrance.reader(), samples, gpu, told, steering)
    steps.append(SendSpectra(batches.reader(), sender))
    if told is not None and o.statistics is not None:
        steps.append(SendStatistics(told.reader(), StatisticsSender(o, antennas, o.statistics)))
    trigger = Trigger(o, antennas, entrance, samples, f"f{index}", output)
    metrics = _metrics(o, entrance, f, sender, antennas)
    SteeringControls(o, antennas, steering).register(metrics)
    trigger.register(metrics)
    return Engine([entrance], [*steps, trigger], metrics), f


def f_steps(
    observation: Observation,
    antennas: Sequence[int],
    layout: Layout,
    source: Reader,
    samples: Samples,
    gpu: Gpu | None,
    told: Ring | None = None,
    steering: Steering | None = None,
) -> tuple[InputTotals, list[Step], Ring]:
    """Make the steps from samples to spectra, both on the host.

    Parameters
    ----------
    observation, antennas, layout, steering
        As of `FEngine`.
    source : Reader
        Of blocks of samples.
    samples : Samples
        What the blocks are.
    gpu : Gpu or None
        What makes the spectra; None: a CPU.
    told : Ring, optional
        Of `InputTotals.totals` at the end of each interval.

    Returns
    -------
    totals : InputTotals
        What is counted.
    steps : list of Step
        In the order of the signal path.
    out : Ring
        Of batches of spectra.
    """
    o = observation
    if gpu is None:
        f = FEngine(o, antennas, layout, steering)
        batches = Ring("spectra", lambda: Block(f.room()), BATCHES)
        return f, [Channelize(source, f, samples, batches, told, o.statistics_samples)], batches
    from ryle.engines.f_gpu import Download, gpu_f_steps

    steps, totals, channelize = gpu_f_steps(
        gpu, o, antennas, layout, source, samples, steering=steering, statistics=told
    )
    shape, dtype = channelize.output
    batches = Ring("spectra", lambda: Block(gpu.pinned(shape, dtype)), BATCHES)
    return totals, [*steps, Download(gpu, channelize.out.reader(), batches)], batches


def _metrics(
    o: Observation, entrance: Inlet, f: InputTotals, sender: SpectraSender | RowSender, antennas: Sequence[int]
) -> Registry:
    m = entrance_metrics(entrance, o.digitizer_heap_bytes, "packets of samples")
    m.gauge("position", "s", "signal that has been channelized", lambda: f.position / float(o.sample_rate))
    unit = "packets" if isinstance(sender, RowSender) else "heaps"
    m.counter("sent", unit, "packets of rows, or F-heaps, sent", lambda: sender.sent)
    m.counter("withheld", unit, "of these, without a valid spectrum: not sent", lambda: sender.withheld)
    measure(m, [f], o, antennas, entrance)
    return m


def serve(observation: Observation, index: int, output: Path | None, supervised: bool) -> None:
    """Be F-engine `index`: receive its antennas' samples, send their spectra, until told to drain.

    Parameters
    ----------
    observation : Observation
        What is observed.
    index : int
        Which F-engine.
    output : Path, optional
        Directory for what triggers write, instead of the observation's.
    supervised : bool
        Whether standard input is a supervisor's pipe.
    """
    engine, _ = f_engine(observation, index, output)
    serve_engine(engine, observation, {"role": "f", "index": index}, supervised)


def spectra_rate(observation: Observation) -> float | None:
    """Rate to pace F-heaps at: None for the sender's own, 0 (as receivers take them) if simulated at full speed."""
    return 0.0 if observation.at_full_speed else None
