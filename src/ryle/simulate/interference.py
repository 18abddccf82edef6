"""Interference: waves of transmitters on the horizon, as each receiver gives them on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.direction import azel_directions
from ryle.config import Observation
from ryle.config.simulation import RfiTable
from ryle.simulate.defects import window
from ryle.simulate.noise import Stream, generator
from ryle.simulate.receivers import Receivers
from ryle.simulate.segments import Segments
from ryle.simulate.sky import Sky

_CARRIERS = 16  # of interference that has a bandwidth


@dataclass(frozen=True)
class _Tone:
    """What is heard of one transmitter.

    Parameters
    ----------
    table : RfiTable
        What the observation file says of it.
    frequency : float
        Of its middle in baseband, cycles a sample.
    amplitude : ndarray of complex128, shape (input,)
        At sample 0, of each input that is made.
    carriers : list of (float, float)
        Offset from the middle, cycles a sample, and phase, turns, of each; of a tone without bandwidth none.
    """

    table: RfiTable
    frequency: float
    amplitude: NDArray[np.complex128]
    carriers: list[tuple[float, float]]


class Interference:
    """Adds the interference of ``[[simulate.rfi]]`` to what receivers give.

    It comes from a transmitter on the horizon, in a direction drawn from the seed, with the same strength in all feeds;
    it goes through cable, gain and bandpass as the sky does. Carriers beside the middle one are as strong, at offsets
    and phases of their own; their envelope is the same at all antennas, as that of narrow interference nearly is.

    Parameters
    ----------
    observation : Observation
        With a ``[simulate]`` table.
    sky, receivers, segments : Sky, Receivers, Segments
        Of this observation.
    inputs : list of int
        Inputs that are made: those of whole antennas, in row order.
    """

    def __init__(
        self, observation: Observation, sky: Sky, receivers: Receivers, segments: Segments, inputs: list[int]
    ) -> None:
        self._observation, self._sky, self._receivers = observation, sky, receivers
        self._segments, self._inputs = segments, inputs

    @cached_property
    def _tones(self) -> list[_Tone]:
        o, segments = self._observation, self._segments
        assert o.simulate is not None
        antenna = np.array(self._inputs) // o.pols
        tones = []
        for i, rfi in enumerate(o.simulate.rfi):
            random = generator(o.simulate.seed, Stream.TONE, i)
            azimuth, phase = random.uniform(0, 360), random.uniform(0, 2 * np.pi)
            delay = self._sky.offsets @ azel_directions(azimuth, 0.0, self._sky.location)
            response = self._receivers.response(rfi.frequency, np.array(self._inputs))[:, 0]
            sky = response * np.exp(1j * phase + 2j * np.pi * rfi.frequency * delay[antenna])
            heard = np.array([not rfi.antennas or o.antennas[a].name in rfi.antennas for a in antenna])
            amplitude = math.sqrt(2) * rfi.level * o.simulate.rms * sky * heard
            carriers = []
            if rfi.bandwidth:
                half = rfi.bandwidth / segments.rate / 2
                offsets = random.uniform(-half, half, _CARRIERS).tolist()
                carriers = list(zip(offsets, random.uniform(0, 1, _CARRIERS).tolist(), strict=True))
            frequency = segments.sign * (rfi.frequency - segments.zero) / segments.rate
            tones.append(_Tone(rfi, frequency, amplitude if segments.sign > 0 else amplitude.conj(), carriers))
        return tones

    def add(self, first: int, waves: Sequence[tuple[int, float, NDArray[Any]]]) -> None:
        """Add interference, while it lasts, to waves of a batch of segments.

        Parameters
        ----------
        first : int
            Sample of the batch's start.
        waves : sequence of (int, float, ndarray of shape (span,))
            Row, delay beyond the receiver's (s), and the wave, which is changed.
        """
        span, sign = self._segments.span, self._segments.sign
        for tone in self._tones:
            rfi, carriers = tone.table, tone.carriers
            when = window(self._observation.sample_rate, rfi.start, rfi.stop, first, span)
            if not waves or when.stop == when.start:
                continue
            rotor = _rotor(tone.frequency, 0.0, first, span)
            if carriers:
                rotor = _rotor(tone.frequency + carriers[0][0], carriers[0][1], first, span)
                for offset, turns in carriers[1:]:
                    rotor += _rotor(tone.frequency + offset, turns, first, span)
                rotor *= np.float32(1 / math.sqrt(len(carriers)))
            for row, delay, wave in waves:
                turned = np.exp(-2j * np.pi * sign * rfi.frequency * delay) if delay else 1.0
                amplitude = np.complex64(tone.amplitude[row] * turned)
                if amplitude:
                    heard = rotor[when] * amplitude
                    wave[when] += heard if self._segments.is_complex else heard.real


def _rotor(frequency: float, turns: float, first: int, samples: int) -> NDArray[np.complex64]:
    """Make a wave of amplitude 1 from sample `first` on; `frequency` in cycles a sample, `turns` at sample 0."""
    # Cycles since sample 0 by whole numbers: a product in floating point loses the phase after a day.
    numerator, denominator = frequency.as_integer_ratio()
    start = (numerator * first % denominator) / denominator + turns
    coarse = np.exp(2j * np.pi * (start + frequency * np.arange(0, samples, 4096) % 1))
    fine = np.exp(2j * np.pi * frequency * np.arange(4096))
    return np.asarray(np.multiply.outer(coarse.astype(np.complex64), fine.astype(np.complex64)).ravel()[:samples])
