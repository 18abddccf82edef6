"""What lies between a feed and its digitizer: cables, gain, phase and delay errors, bandpass.

Errors are drawn once, from the seed and the input's number, and do not change with time. They belong to the receiver:
its own noise goes through gain and bandpass like the sky.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array.observed import antennas
from ryle.config import Observation
from ryle.simulate.noise import Stream, generator

#: Fraction of the band at each edge over which the anti-alias filter rolls off.
EDGE = 0.009
#: Samples, either side, that the filter's response reaches; of complex samples half as many.
FILTER_REACH = 512
_EDGE_SHAPE = np.cumsum(np.kaiser(4001, 7.0)) / np.sum(np.kaiser(4001, 7.0))
_EDGE_SHAPE[0] = 0.0
_RIPPLES = 4
_WORST = 3.0  # errors are redrawn beyond this many sigma, so that no input is dead


@dataclass(frozen=True)
class Receivers:
    """The receivers of all inputs; arrays have shape (input,) unless stated.

    Parameters
    ----------
    cable_delay : ndarray of float64
        Known delay of the signal path, s.
    gain : ndarray of float64
        Amplitude gain, 1 without error.
    phase : ndarray of float64
        Phase error, rad, by which the sky's voltage is advanced.
    delay_error : ndarray of float64
        Delay beyond the cable's that nobody is told of, s.
    ripple : ndarray of complex128, shape (input, ripple)
        Amplitude and phase of 1, 2, … cycles of gain over the band.
    low, width : float
        Lower edge and width of the band on the sky, Hz.
    """

    cable_delay: NDArray[np.float64]
    gain: NDArray[np.float64]
    phase: NDArray[np.float64]
    delay_error: NDArray[np.float64]
    ripple: NDArray[np.complex128]
    low: float
    width: float

    @classmethod
    def of(cls, observation: Observation) -> Receivers:
        """Draw the receivers of an observation that has a ``[simulate]`` table."""
        simulate = observation.simulate
        assert simulate is not None
        drawn = []
        for i in range(observation.n_inputs):
            random = generator(simulate.seed, Stream.ERRORS, i)
            drawn.append(_truncated_normal(random, 3 + 2 * _RIPPLES))
        errors = np.array(drawn)
        gain, phase, delay = errors[:, :3].T
        parts = errors[:, 3:].reshape(len(errors), _RIPPLES, 2)
        # The mean square of the sum of cosines is Σ|c|²/2 = ripple².
        ripple = simulate.bandpass_ripple * (parts[..., 0] + 1j * parts[..., 1]) / np.sqrt(_RIPPLES)
        rate = float(observation.sample_rate)
        centre, width = observation.centre_frequency, rate if observation.digitizer.complex else rate / 2
        return cls(
            cable_delay=antennas(observation).instrumental.ravel(),
            gain=np.maximum(1 + simulate.gain_error * gain, 0.05),
            phase=np.radians(simulate.phase_error) * phase,
            delay_error=simulate.delay_error * delay,
            ripple=ripple,
            low=centre - width / 2,
            width=width,
        )

    @property
    def delay(self) -> NDArray[np.float64]:
        """Total delay of the signal path, s."""
        return self.cable_delay + self.delay_error

    def bandpass(self, frequencies: ArrayLike, inputs: slice | NDArray[np.intp] = slice(None)) -> NDArray[np.float64]:
        """Real gain over frequency relative to `gain`, filter edges included, shape (input, frequency)."""
        x = (np.asarray(frequencies, np.float64) - self.low) / self.width
        total = np.ones((len(self.gain[inputs]), x.size))
        for m in range(_RIPPLES):
            wave = np.exp(2j * np.pi * (m + 1) * x)
            total += np.real(self.ripple[inputs, m, np.newaxis] * wave)
        return np.asarray(total * band_edges(x))

    def response(
        self, frequencies: ArrayLike, inputs: slice | NDArray[np.intp] = slice(None)
    ) -> NDArray[np.complex128]:
        """Complex gain from the sky at the antenna to the digitizer, cable included, shape (input, frequency)."""
        f = np.asarray(frequencies, np.float64)
        turns = f * self.delay[inputs, np.newaxis]
        phase = self.phase[inputs, np.newaxis] - 2 * np.pi * turns
        return np.asarray(self.gain[inputs, np.newaxis] * self.bandpass(f, inputs) * np.exp(1j * phase))


def band_edges(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Anti-alias filter at a position in the band, 0 to 1: flat, rolling off over `EDGE` at both edges, 0 outside.

    The roll-off is the integral of a Kaiser window (β = 7), which makes the filter's response, and with it any
    fractional delay, about as short as so narrow an edge allows: -90 dB of its energy is beyond `FILTER_REACH` samples.
    """
    inward = np.minimum(x, 1 - x) / EDGE
    return np.asarray(np.interp(inward, np.linspace(0, 1, len(_EDGE_SHAPE)), _EDGE_SHAPE))


def _truncated_normal(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Draw standard normal values, none beyond `_WORST`."""
    values = random.standard_normal(count)
    while (beyond := np.abs(values) > _WORST).any():
        values[beyond] = random.standard_normal(int(beyond.sum()))
    return values
