"""The F-engine: digitizer samples of some antennas in, delayed and quantized spectra out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..array.delays import Delays, DelaySchedule, evaluate_inputs, window_centres
from ..array.observed import phase_tracker
from ..channelize import ChannelizerConfig, Heaps, Layout, Rows, Spectra, make_channelizer
from ..channelize.pipelined import Pipelined
from ..chunk import BLOCK, SampleChunk
from ..config import Observation
from ..monitor.status import StatusReporter
from ..net.digitizer import DigitizerReceiver
from ..net.spectra import SpectraSender
from ..send.rows import RowSender
from ..wire.samples import packed_bytes, unpack
from .control import DrainControl
from .window import SampleBuffer, WindowShape, f_batch


class AdcHistogram:
    """How often each ADC value occurs, from one packet of each input and chunk: enough to see levels and clipping.

    Attributes
    ----------
    levels : ndarray of int64, shape (level,)
        ADC values; the outermost stand for all beyond them too.
    counts : ndarray of int64, shape (input, level)
        Occurrences, real and imaginary parts alike.
    """

    def __init__(self, observation: Observation, inputs: int) -> None:
        self._bits, self._complex = observation.digitizer.bits, observation.digitizer.complex
        reach = 1 << (min(self._bits, 10) - 1)
        self.levels = np.arange(-reach, reach + 1)
        self.counts = np.zeros((inputs, len(self.levels)), np.int64)

    def add(self, chunk: SampleChunk) -> None:
        """Count the first packet present of each input."""
        reach = int(self.levels[-1])
        scale = 1 << max(0, self._bits - 10) if self._bits < 32 else 1
        for i in range(chunk.inputs):
            there = np.flatnonzero(chunk.present[i])
            if there.size:
                values: NDArray[Any] = unpack(chunk.data[i, there[0]], self._bits, complex_samples=self._complex)
                steps = np.rint(values.view(np.float32) / scale).clip(-reach, reach).astype(np.int64)
                self.counts[i] += np.bincount(steps + reach, minlength=len(self.levels))


class FEngine:
    """Channelizes some antennas and tracks the phase centre with them.

    Delay models are made from geometry and loaded a segment or more ahead of the samples that they apply to.

    Parameters
    ----------
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive antennas; input = position in this sequence · pols + pol.
    layout : Blocks, Heaps or Rows
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
        self.shape = WindowShape(
            step=observation.step,
            window=observation.window,
            max_delay=observation.max_delay_samples,
            batch=observation.batch_spectra * f_batch(observation),
        )
        self._buffer = SampleBuffer(self.shape)
        first_input = antennas[0] * pols
        self._channelizer = make_channelizer(
            ChannelizerConfig(
                inputs=inputs,
                channels=f.channels,
                taps=f.taps,
                window=f.window,
                w_cutoff=f.w_cutoff,
                bits=observation.digitizer.bits,
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
        self.saturated = np.zeros(inputs, np.int64)
        self.values = np.zeros(inputs, np.int64)
        self.power = np.zeros(inputs, np.float64)
        self.samples = np.zeros(inputs, np.int64)
        self.adc = AdcHistogram(observation, inputs)
        #: Sample count up to which spectra have been given.
        self.position = 0

    def push(self, chunk: SampleChunk) -> Iterator[Spectra]:
        """Add samples; give each batch of spectra that they complete.

        A channelizer that works while samples are collected gives each batch when the next is complete.

        Parameters
        ----------
        chunk : SampleChunk
            In time order; must not be written to until the next call.
        """
        self.adc.add(chunk)
        yield from self._channelize(self._buffer.push(chunk))

    def flush(self) -> Iterator[Spectra]:
        """Give the spectra that the samples so far still contribute to; what they lack counts as missing."""
        yield from self._channelize(self._buffer.flush())
        if self._pipelined is not None and self._under_way:
            self._under_way = False
            yield self._counted(self._pipelined.collect())

    def _channelize(self, windows: Iterator[tuple[int, SampleChunk]]) -> Iterator[Spectra]:
        for first, window in windows:
            arguments = window, first, self.shape.batch, self._delays(first), self._layout
            if self._pipelined is None:
                yield self._counted(self._channelizer.process(*arguments))
                continue
            self._pipelined.submit(*arguments)
            if self._under_way:
                yield self._counted(self._pipelined.collect())  # of the batch before
            self._under_way = True

    def _rehearse(self, channelizer: Pipelined) -> None:
        """Channelize two batches of nothing, so that kernels are compiled and buffers allocated before samples come."""
        low, high = self.shape.span(0)
        digitizer, inputs = self._observation.digitizer, channelizer.config.inputs
        size = digitizer.heap_samples
        packets = -(-high // size) - low // size
        row = packed_bytes(size, digitizer.bits, complex_samples=digitizer.complex)
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
    if not 0 <= index < observation.f_engines:
        raise ValueError(f"F-engine {index} does not exist: there are {observation.f_engines}, counted from 0")
    antennas = observation.f_engine_antennas(index)
    rows = observation.sends_rows
    layout = Rows(observation.pols) if rows else Heaps(observation.fengine.spectra_per_heap, observation.pols)
    engine = FEngine(observation, antennas, layout)
    # Chunks as long as a batch: a window then holds a few of them, and none has to be copied.
    packets = max(1, engine.shape.batch * engine.shape.step // observation.digitizer.heap_samples)
    with (
        (RowSender if rows else SpectraSender)(observation, antennas, rate=spectra_rate(observation)) as sender,
        DigitizerReceiver(observation, antennas, chunk_packets=packets, window=2, spare=2) as receiver,
    ):

        def status() -> dict[str, Any]:
            account = receiver.account()
            return {
                "received": account.placed,
                "pending": receiver.pending,
                "bytes": (account.placed or 0) * observation.digitizer_heap_bytes,
                "account": account.as_dict(),
                "position": engine.position / float(observation.sample_rate),
                "sent": sender.sent,
                "withheld": sender.withheld,
                "saturated": float(engine.saturated.sum() / max(1, engine.values.sum())),
                "input_rms": np.sqrt(engine.power / np.maximum(1, engine.samples)).round(2).tolist(),
                "adc_saturated": receiver.saturated,
            }

        def send(spectra: Spectra) -> None:
            first = spectra.first_spectrum // BLOCK if rows else spectra.first_spectrum
            sender.send(spectra.data, spectra.valid, first)

        with StatusReporter({"role": "f", "index": index}, status) as reporter:
            control = DrainControl(receiver.stop, supervised)
            reporter.set_state("ready")
            for chunk in receiver:
                reporter.state = "draining" if control.draining.is_set() else "running"
                for spectra in engine.push(chunk):
                    send(spectra)
            for spectra in engine.flush():
                send(spectra)
            reporter.event("adc", levels=engine.adc.levels.tolist(), counts=engine.adc.counts.tolist())


def spectra_rate(observation: Observation) -> float | None:
    """Rate to pace spectra at: None for 1.1 times real time, 0 (as receivers take them) if simulated at full speed."""
    return 0.0 if observation.simulate is not None and observation.simulate.speed == "max" else None
