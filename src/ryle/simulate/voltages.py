"""From the sky to digitizer samples.

Every source is two streams of white noise, coloured and correlated into the field at the array's reference point,
``s(t)``; antenna ``i`` receives ``s(t + r_i·ŝ/c − cable)``. Delays, filters and gains are applied in the frequency
domain to overlapping segments of the streams (`segments`), one inverse FFT an input whatever the number of sources.
Baseband is the sky's spectrum from its edge `f0` upwards, ``X(ν) = S(f0 + ν)``, or reversed and conjugated,
``X(ν) = S*(f0 − ν)``, in even Nyquist zones and lower sidebands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

from ryle.array.observed import antennas
from ryle.config import Observation
from ryle.config.simulation import SourceTable
from ryle.simulate.defects import Defects
from ryle.simulate.digitizer import DigitizedChunk, Digitizer
from ryle.simulate.interference import Interference
from ryle.simulate.noise import Noise, Stream
from ryle.simulate.receivers import Receivers
from ryle.simulate.segments import Segments
from ryle.simulate.sky import Mount, Sky, coherency, feed_matrix


@dataclass(frozen=True)
class Truth:
    """What was injected.

    Parameters
    ----------
    inputs : list of str
        Antenna and polarization of each input.
    gain : ndarray of complex128, shape (input,)
        Gain and phase errors; the sky's voltage is multiplied by them.
    cable_delay, delay_error : ndarray of float64, shape (input,)
        Known and unknown delay of each signal path, s.
    sources : list of SourceTable
        The sky.
    """

    inputs: list[str]
    gain: NDArray[np.complex128]
    cable_delay: NDArray[np.float64]
    delay_error: NDArray[np.float64]
    sources: list[SourceTable]


class VoltageSimulator:
    """Makes the samples of an observation's digitizers; any sample at any time, always the same.

    The same seed gives the same bits, however time is cut into chunks and whichever antennas are made together (on one
    kind of processor: the rounding of FFTs may differ between instruction sets).

    Parameters
    ----------
    observation : Observation
        With a ``[simulate]`` table.
    which : sequence of int, optional
        Antennas to make; all by default. Rows of chunks are their inputs in order: antenna · pols + pol.
    mount : str, optional
        ``alt-az``, ``equatorial`` or ``fixed``: how feeds turn on the sky (see `ryle.simulate.sky`), instead of the
        observation's ``array.mount``.

    Raises
    ------
    ValueError
        If there is no ``[simulate]`` table, or fringes are too fast to be made at this sample rate.
    """

    def __init__(
        self, observation: Observation, which: Sequence[int] | None = None, mount: Mount | None = None
    ) -> None:
        self.observation = observation
        self.sky = Sky(observation, mount)
        assert observation.simulate is not None
        self.table = observation.simulate
        self.receivers = Receivers.of(observation)
        self.antennas = list(range(len(observation.antennas)) if which is None else which)
        pols = observation.pols
        #: Inputs made, in row order.
        self.inputs = [a * pols + p for a in self.antennas for p in range(pols)]
        self.digitizer = Digitizer(observation, len(self.inputs))
        self.defects = Defects(observation)
        self.segments = Segments.of(observation, self.sky.offsets, self.receivers.delay + self.defects.delays)
        self._complex, self._sign = self.segments.is_complex, self.segments.sign
        self._interference = Interference(observation, self.sky, self.receivers, self.segments, self.inputs)
        seed = self.table.seed
        self._source_noise = [Noise(seed, Stream.SOURCE, i, self._complex) for i in range(2 * len(self.sky.sources))]
        self._receiver_noise = [Noise(seed, Stream.RECEIVER, i, self._complex) for i in self.inputs]
        self._conjugate = [observation.streams[i].conjugate for i in self.inputs]
        self._made: tuple[int, NDArray[Any]] | None = None
        self._partners: dict[int, VoltageSimulator] = {}
        self._replayed: DigitizedChunk | None = None

    @cached_property
    def _roots(self) -> NDArray[np.complex128]:
        """Square roots of the coherencies of sources in east and north, shape (source, 2, 2).

        The unit is the receiver noise's rms, which stands for half the SEFD: what one polarization takes of it.
        """
        roots = []
        for source in self.sky.sources:
            reference = source.reference_frequency or self.sky.reference_frequency
            light = coherency(source, reference, reference)
            values, vectors = np.linalg.eigh(light)
            roots.append(vectors * np.sqrt(np.maximum(values, 0)))
        return math.sqrt(2 / self.table.sefd) * np.array(roots, np.complex128).reshape(-1, 2, 2)

    @cached_property
    def _spectra(self) -> list[NDArray[np.float32] | None]:
        """Amplitude of each source over bins relative to its reference frequency; None if flat."""
        # The filter is zero below this, where a power law need not be finite.
        f = np.maximum(np.abs(self.segments.frequencies), 1e-3 * self.receivers.width)
        return [
            None
            if s.spectral_index == 0
            else ((f / (s.reference_frequency or self.sky.reference_frequency)) ** (s.spectral_index / 2)).astype(
                np.float32
            )
            for s in self.sky.sources
        ]

    @cached_property
    def _filters(self) -> NDArray[np.complex64]:
        """Response of each input over bins at baseband, ADC steps, less the common offset, shape (input, bin)."""
        segments = self.segments
        rows = np.empty((len(self.inputs), len(segments.bins)), np.complex64)
        advance = self.table.rms * np.exp(-2j * np.pi * segments.bins * (segments.offset / segments.length))
        for row, i in zip(rows, self.inputs, strict=True):
            response = self.receivers.response(segments.frequencies, np.array([i]))[0]
            row[:] = (response if self._sign > 0 else response.conj()) * advance
        return rows

    # -- making voltages --------------------------------------------------------------------------------------------

    def voltages(self, first: int, samples: int) -> NDArray[Any]:
        """Voltages before quantization, ADC steps.

        Parameters
        ----------
        first, samples : int
            Range of sample counts.

        Returns
        -------
        ndarray of float32 or complex64, shape (input, samples)
        """
        made = np.empty((len(self.inputs), samples), np.complex64 if self._complex else np.float32)
        done = 0
        while done < samples:
            batch, start = divmod(first + done, self.segments.span)
            take = min(self.segments.span - start, samples - done)
            made[:, done : done + take] = self._batch(batch)[:, start : start + take]
            done += take
        return made

    def _batch(self, batch: int) -> NDArray[Any]:
        """All inputs during one batch of segments as digitizers get them, shape (input, span)."""
        if self._made is not None and self._made[0] == batch:
            return self._made[1]
        waves = self._behind_cables(batch)
        for r, conjugate in enumerate(self._conjugate):
            if conjugate:
                np.conjugate(waves[r], out=waves[r])
        self._made = (batch, waves)
        return waves

    def _received_batch(self, batch: int) -> NDArray[Any]:
        """Make what comes from the receivers of all inputs during one batch of segments, shape (input, span)."""
        segments = self.segments
        first = batch * segments.span
        waves = np.empty((len(self.inputs), segments.span), np.complex64 if self._complex else np.float32)
        axes = np.array([self.sky.axes_at(first + (i + 0.5) * segments.hop) for i in range(segments.count)])
        visible, turned = self.sky.visible(axes), self.sky.delays(axes)
        light = {s: self._light(s, first) for s in range(len(self._spectra)) if visible[:, s].any()}
        pols = self.observation.pols
        # Of a defect that acts in a receiver both waves are made, with it and without, and joined where it begins.
        deaf = self._at_work(first, "noise")
        late = self._at_work(first, "delay")
        others: list[tuple[int, slice, float, NDArray[Any]]] = []  # row, when, delay (NaN: hears nothing), wave
        for angles, same in self._alike:
            # The field of each source at the reference point in feeds of these angles.
            sources = {s: self._received(light[s], angles, axes[:, s], visible[:, s], self._roots[s]) for s in light}
            for k in same:
                row = k * pols
                spectra = [segments.spectrum(self._receiver_noise[row + p], first) for p in range(pols)]
                noise = {row + p: spectra[p].copy() for p in range(pols) if row + p in deaf}
                product = np.empty_like(spectra[0])
                for s, field in sources.items():
                    ramp = segments.ramp(turned[:, s, self.antennas[k]])
                    for p in range(pols):
                        np.multiply(ramp, field[p], out=product)
                        spectra[p] += product
                for p in range(pols):
                    spectra[p] *= self._filters[row + p]
                    for when, delay in late.get(row + p, ()):
                        ramp = segments.ramp(np.full(segments.count, -delay))
                        others.append((row + p, when, delay, segments.wave(spectra[p] * ramp)))
                    for when, _ in deaf.get(row + p, ()):
                        heard = segments.wave(noise[row + p] * self._filters[row + p])
                        others.append((row + p, when, math.nan, heard))
                    waves[row + p] = segments.wave(spectra[p])
        self._interference.add(first, [(row, 0.0, wave) for row, wave in enumerate(waves)])
        self._interference.add(first, [(row, delay, wave) for row, _, delay, wave in others if not math.isnan(delay)])
        for row, when, _, wave in sorted(others, key=lambda each: math.isnan(each[2])):  # noise is noise, late or not
            waves[row, when] = wave[when]
        return waves

    def _at_work(self, first: int, kind: str) -> dict[int, list[tuple[slice, float]]]:
        """When defects of a kind act in a batch, and by what delay, of each row that has any."""
        found: dict[int, list[tuple[slice, float]]] = {}
        for defect in self.defects.of(kind):
            when = self.defects.when(defect, first, self.segments.span)
            if defect.input in self.inputs and when.stop > when.start:
                found.setdefault(self.inputs.index(defect.input), []).append((when, defect.table.delay or 0.0))
        return found

    def _behind_cables(self, batch: int) -> NDArray[Any]:
        """Make what arrives at each digitizer: exchanged, driven too hard, or nothing, shape (input, span)."""
        first, span = batch * self.segments.span, self.segments.span
        waves = self._received_batch(batch)
        exchanged = []
        for defect in self.defects.of("swapped", "exchanged"):
            when = self.defects.when(defect, first, span)
            if defect.input in self.inputs and when.stop > when.start:
                exchanged.append((self.inputs.index(defect.input), when, self._signal(defect.partner, batch, waves)))
        for row, when, wave in exchanged:
            waves[row, when] = wave[when]
        for kind in ("clipping", "dead"):
            for defect in self.defects.of(kind):
                if defect.input in self.inputs:
                    waves[self.inputs.index(defect.input), self.defects.when(defect, first, span)] *= np.float32(
                        self.defects.gain(defect)
                    )
        return waves

    def _signal(self, of: int, batch: int, waves: NDArray[Any]) -> NDArray[Any]:
        """Give what comes from an input's receiver, even of an antenna that is not made here, shape (span,)."""
        if of in self.inputs:
            return np.array(waves[self.inputs.index(of)])
        antenna, pol = divmod(of, self.observation.pols)
        if antenna not in self._partners:
            self._partners[antenna] = VoltageSimulator(self.observation, [antenna], self.sky.mount)
        return np.asarray(self._partners[antenna]._received_batch(batch)[pol])

    @cached_property
    def _alike(self) -> list[tuple[NDArray[np.float64], list[int]]]:
        """Angles of an antenna's feeds, and which of the antennas made here have these."""
        kinds: dict[tuple[float, ...], list[int]] = {}
        for k, antenna in enumerate(self.antennas):
            kinds.setdefault(tuple(self.sky.feed_angles[antenna]), []).append(k)
        return [(np.array(angles), same) for angles, same in kinds.items()]

    def _light(self, source: int, first: int) -> list[NDArray[np.complex64]]:
        """Spectra of the two independent streams of a source."""
        streams = [self.segments.spectrum(self._source_noise[2 * source + q], first) for q in range(2)]
        spectrum = self._spectra[source]
        if spectrum is not None:
            for stream in streams:
                stream *= spectrum
        return streams

    def _received(
        self,
        light: list[NDArray[np.complex64]],
        angles: NDArray[np.float64],
        axes: NDArray[np.float64],
        visible: NDArray[np.bool_],
        root: NDArray[np.complex128],
    ) -> list[NDArray[np.complex64]]:
        """Spectra of a source in each feed of an antenna at the reference point, shape (segment, bin) each."""
        chi = self.sky.rotation(axes[:, np.newaxis])
        feeds = feed_matrix(self.sky.feeds, chi + angles) @ root * visible[:, np.newaxis, np.newaxis]
        mix = (feeds if self._sign > 0 else feeds.conj()).astype(np.complex64)
        return [mix[:, p, 0, np.newaxis] * light[0] + mix[:, p, 1, np.newaxis] * light[1] for p in range(len(angles))]

    # -- digitizer samples ------------------------------------------------------------------------------------------

    def chunk(self, first: int, samples: int) -> DigitizedChunk:
        """Digitized samples of the inputs made here.

        With ``simulate.replay``, the window's samples come again and again under advancing timestamps.

        Parameters
        ----------
        first, samples : int
            Range of sample counts, both multiples of ``digitizer.heap_samples``.

        Raises
        ------
        ValueError
            If the range is not one of whole packets or starts before sample 0.
        """
        heap = self.digitizer.packet_samples
        if first < 0 or samples <= 0 or first % heap or samples % heap:
            raise ValueError(
                f"samples [{first}, {first + samples}) are not whole packets: start at 0 or later and use multiples of "
                f"digitizer.heap_samples = {heap}"
            )
        if self.replay_samples is None:
            return self._on_its_way(self.digitizer.digitize(first, self.voltages(first, samples)))
        if self._replayed is None:
            self._replayed = self._make_window(self.replay_samples)
        held = self._replayed
        index = np.arange(first // heap, (first + samples) // heap) % held.data.shape[1]
        return self._on_its_way(
            DigitizedChunk(
                first, np.take(held.data, index, axis=1), held.present[:, index], heap, held.saturated[:, index]
            )
        )

    def _on_its_way(self, chunk: DigitizedChunk) -> DigitizedChunk:
        """Lose the packets that defects lose."""
        self.defects.lose(self.inputs, chunk.timestamp, chunk.present)
        return chunk

    @property
    def replay_samples(self) -> int | None:
        """Length of the window that is replayed, rounded up to whole packets; None without ``simulate.replay``."""
        if self.table.replay is None:
            return None
        heap = self.digitizer.packet_samples
        return max(1, math.ceil(self.table.replay * self.observation.sample_rate / heap)) * heap

    def _make_window(self, samples: int) -> DigitizedChunk:
        parts = list(self._made_chunks(0, samples, self.chunk_samples))
        return DigitizedChunk(
            0,
            np.concatenate([p.data for p in parts], axis=1),
            np.concatenate([p.present for p in parts], axis=1),
            self.digitizer.packet_samples,
            np.concatenate([p.saturated for p in parts], axis=1),
        )

    def _made_chunks(self, first: int, end: int, step: int) -> Iterator[DigitizedChunk]:
        for start in range(first, end, step):
            yield self.digitizer.digitize(start, self.voltages(start, min(step, end - start)))

    @property
    def chunk_samples(self) -> int:
        """Whole packets, about one batch of segments: a good length for chunks."""
        heap = self.digitizer.packet_samples
        return max(1, self.segments.span // heap) * heap

    def chunks(self, samples: int | None = None) -> Iterator[DigitizedChunk]:
        """Chunks of the whole observation in order; without end if it is replayed and has no duration.

        Parameters
        ----------
        samples : int, optional
            Length of a chunk, a multiple of ``digitizer.heap_samples``; `chunk_samples` by default. The last may be
            shorter; what does not fill a packet at the end is not made.
        """
        step = samples or self.chunk_samples
        end = self.observation.end_sample
        heap = self.digitizer.packet_samples
        first = 0
        while end is None or first + heap <= end:
            take = step if end is None else min(step, (end - first) // heap * heap)
            yield self.chunk(first, take)
            first += take

    # -- what was injected ------------------------------------------------------------------------------------------

    def truth(self) -> Truth:
        """Return what was injected into the inputs of the whole array."""
        o = self.observation
        return Truth(
            inputs=[f"{a.name}{p}" for a in o.antennas for p in o.array.polarizations],
            gain=self.receivers.gain * np.exp(1j * self.receivers.phase),
            cable_delay=antennas(o).instrumental.ravel(),
            delay_error=self.receivers.delay_error,
            sources=list(self.sky.sources),
        )

    def true_delays(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Delay ``τ_i = r_i·ŝ/c − instrumental`` of each source in each input, s, shape (count, source, input).

        Positive if the wave arrives before it reaches the reference point; delay errors are included.
        """
        axes = self.sky.axes(self.sky.sync.time(np.atleast_1d(np.asarray(counts, np.int64))))
        geometry = np.repeat(self.sky.delays(axes), self.observation.pols, axis=-1)
        return geometry - self.receivers.delay

    def expected_visibilities(
        self, times: Time, frequencies: ArrayLike, phased: bool = False
    ) -> NDArray[np.complex128]:
        """Noise-free visibilities of ideal receivers, Jy, shape (time, frequency, product); see `Sky.visibilities`."""
        return self.sky.visibilities(times, frequencies, phased)
