"""Phase tracking: from antenna positions and a phase centre to linear delay models, ahead of time.

``τ_i = r_i·ŝ/c − instrumental delay``, ``d = τ_i·fs + offset`` samples, and ``φ = −s·2π·f_sky·τ_i`` at band centre.
Time is cut at multiples of a fixed number of samples, so that every process makes the same segments whatever range it
asks for.

A chord between two points of a curve of second derivative ``τ''`` errs by up to ``τ''L²/8`` and always to the same
side. The nodes are therefore moved by half of that, ``−τ_k'' L²/16``: the error becomes ``±τ''L²/16``, the least that a
line can have, and segments still join exactly because neighbours share the moved node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from astropy.constants import c as _c
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

from ryle.array.delays import DelaySchedule, LinearDelayModel
from ryle.array.direction import Direction, Sidereal, antenna_uvw, to_azel
from ryle.array.geometry import Location
from ryle.array.time import SyncTime

SPEED_OF_LIGHT = float(_c.value)
_EARTH_RATE = 7.2921150e-5  # rad/s
_LONGEST = 60.0  # seconds; keeps the third derivative out of the error budget
_CHECK_STEP = 60.0  # seconds between the instants at which max_delay is checked


@dataclass(frozen=True)
class Antennas:
    """The antennas of an array and the delays of their cables.

    Parameters
    ----------
    location : Location
        Reference point; phases are tracked relative to it.
    names : sequence of str
        One name an antenna.
    enu : array of float, shape (antenna, 3)
        Metres east, north and up of the reference point.
    instrumental : array of float, shape (antenna, polarization)
        Seconds by which each input's signal comes late. Input number = antenna · polarizations + polarization.

    Raises
    ------
    ValueError
        If the shapes disagree or a value is not finite.
    """

    location: Location
    names: Sequence[str]
    enu: NDArray[np.float64]
    instrumental: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "enu", np.array(self.enu, np.float64))
        object.__setattr__(self, "instrumental", np.array(self.instrumental, np.float64))
        if self.enu.shape != (len(self.names), 3):
            raise ValueError(
                f"{len(self.names)} antennas need positions of shape ({len(self.names)}, 3), not {self.enu.shape}"
            )
        if self.instrumental.ndim != 2 or len(self.instrumental) != len(self.names):
            raise ValueError(
                f"instrumental delays have shape {self.instrumental.shape}; "
                f"{len(self.names)} antennas need ({len(self.names)}, polarizations)"
            )
        for name, position, delays in zip(self.names, self.enu, self.instrumental, strict=True):
            if not (np.isfinite(position).all() and np.isfinite(delays).all()):
                raise ValueError(f"antenna {name}: position {position} or instrumental delay {delays} is not finite")


@dataclass(frozen=True)
class PhaseTracker:
    """Delay models that keep an array pointed at a phase centre.

    Parameters
    ----------
    sync : SyncTime
        Sample counts ↔ UTC.
    antennas : Antennas
        Positions and instrumental delays.
    direction : Direction or None
        Phase centre. `Sidereal` is tracked, `Fixed` gives constant delays towards one azimuth and elevation, and None
        corrects instrumental delays only (drift scan, ``unprojected`` data). For no correction at all give None and
        zero instrumental delays.
    centre_frequency : float
        Sky frequency of the centre of the band (channel n/2), Hz.
    highest_frequency : float
        Highest sky frequency in the band, Hz: where `max_phase_error` must hold.
    sideband : int
        +1, or −1 in even Nyquist zones and lower sidebands.
    offset : int
        Common delay in samples added to every input. Output time t then holds the wave that passed the reference point
        at ``t − offset``; geometry is evaluated there (see `wave_time`).
    max_delay : float or None
        Largest ``|delay|`` in seconds, `offset` included, that the buffers allow; None to leave it unchecked.
    max_phase_error : float
        Largest phase error of a segment against exact geometry, radians at `highest_frequency`.
    whole : Antennas or None
        All of the array, if `antennas` are some of it: an antenna has the same segments whoever tracks it.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    sync: SyncTime
    antennas: Antennas
    direction: Direction | None
    centre_frequency: float
    highest_frequency: float
    sideband: int = 1
    offset: int = 0
    max_delay: float | None = None
    max_phase_error: float = 1e-3
    whole: Antennas | None = None
    #: Length of a segment in samples.
    segment: int = field(init=False)

    def __post_init__(self) -> None:
        if self.sideband not in (1, -1):
            raise ValueError(f"sideband {self.sideband!r} must be 1 (upper) or −1 (lower, even Nyquist zone)")
        if self.highest_frequency <= 0 or self.max_phase_error <= 0:
            raise ValueError(
                f"highest_frequency {self.highest_frequency!r} Hz and max_phase_error {self.max_phase_error!r} rad "
                "must be positive"
            )
        # 2π f |τ''| L²/16 ≤ error, with 5 % of L in hand for the third derivative.
        curvature = self._largest_curvature
        length = _LONGEST
        if curvature > 0:
            length = min(
                length, 0.95 * np.sqrt(16 * self.max_phase_error / (2 * np.pi * self.highest_frequency * curvature))
            )
        object.__setattr__(self, "segment", max(int(length * self.sync.sample_rate), 1))

    @property
    def _largest_curvature(self) -> float:
        """Bound on the second derivative of geometric delays, 1/s: Earth rate squared, equatorial distance, over c."""
        if not isinstance(self.direction, Sidereal):
            return 0.0
        every = self.antennas if self.whole is None else self.whole
        offsets = every.location.enu_to_offsets(every.enu)
        return float(np.hypot(offsets[:, 0], offsets[:, 1]).max(initial=0.0) * _EARTH_RATE**2 / SPEED_OF_LIGHT)

    def wave_time(self, counts: ArrayLike) -> Time:
        """UTC at which the wave in output samples `counts` passed the reference point."""
        return self.sync.time(np.asarray(counts, np.int64) - self.offset)

    def uvw(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Antenna u, v, w in metres at output sample counts, shape (count, antenna, 3); see `antenna_uvw`.

        Without a phase centre these are east, north and up.
        """
        times = self.wave_time(np.atleast_1d(counts))
        if self.direction is None:
            return np.broadcast_to(self.antennas.enu, (times.size, *self.antennas.enu.shape))
        return antenna_uvw(self.direction, self.antennas.location, self.antennas.enu, times)

    def elevation(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Elevation of the phase centre in degrees at output sample counts, shape (count,); 90 without one."""
        times = self.wave_time(np.atleast_1d(counts))
        if self.direction is None:
            return np.full(times.size, 90.0)
        return to_azel(self.direction.vectors(self.antennas.location, times), self.antennas.location)[1]

    def geometric_delays(self, counts: ArrayLike) -> NDArray[np.float64]:
        """``r·ŝ/c`` in seconds at output sample counts, shape (count, antenna)."""
        times = self.wave_time(np.atleast_1d(counts))
        if self.direction is None:
            return np.zeros((times.size, len(self.antennas.names)))
        vectors = self.direction.vectors(self.antennas.location, times)
        offsets = self.antennas.location.enu_to_offsets(self.antennas.enu)
        # Not by a matrix product: that rounds by how many antennas there are, and engines share them out.
        x, y, z = (vectors[:, [i]] * offsets[:, i] for i in range(3))
        return np.asarray((x + y + z) / SPEED_OF_LIGHT)

    def delays(self, counts: ArrayLike) -> NDArray[np.float64]:
        """``τ`` in seconds, geometry less instrumental delay, without `offset`; (count, antenna, polarization)."""
        return np.asarray(self.geometric_delays(counts)[:, :, np.newaxis] - self.antennas.instrumental)

    def nodes(self, first: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Corners of the piecewise linear delays that cover output samples ``[first, end)``.

        Returns
        -------
        counts : ndarray of int64, shape (node,)
            Sample counts, `segment` apart.
        tau : ndarray of float64, shape (node, antenna, polarization)
            Delay in seconds at the nodes, without `offset`, moved by half the curvature error.

        Raises
        ------
        ValueError
            If the range is empty or starts before sync, or a delay exceeds `max_delay`.
        """
        if not 0 <= first < end:
            raise ValueError(f"sample range [{first}, {end}) must not be empty nor start before 0")
        index = np.arange(first // self.segment - 1, -(-end // self.segment) + 2, dtype=np.int64)
        if not isinstance(self.direction, Sidereal):
            index = index[[0, 1, -2, -1]]
        tau = self.delays(index * self.segment)
        self._enforce_max_delay(index[1:-1] * self.segment, tau[1:-1])
        return index[1:-1] * self.segment, tau[1:-1] - (tau[2:] - 2 * tau[1:-1] + tau[:-2]) / 16

    def models(self, first: int, end: int) -> list[list[LinearDelayModel]]:
        """Delay models that cover output samples ``[first, end)``, for each input in order of start.

        A constant delay is one model. The last model goes on beyond `end` until another replaces it.

        Raises
        ------
        ValueError
            As `nodes`.
        """
        counts, tau = self.nodes(first, end)
        rate = float(self.sync.sample_rate)
        tau = tau.reshape(len(counts), -1)
        slopes = np.diff(tau, axis=0) / (np.diff(counts) / rate)[:, np.newaxis]
        turns = self.centre_frequency * tau[:-1]
        phases = -self.sideband * 2 * np.pi * (turns - np.rint(turns))
        phase_rates = -self.sideband * 2 * np.pi * self.centre_frequency * slopes
        starts = counts[:-1].tolist()
        return [
            [
                LinearDelayModel(start, rate, delay + self.offset / rate, slope, phase, phase_rate)
                for start, delay, slope, phase, phase_rate in zip(
                    starts, *(a[:, i].tolist() for a in (tau[:-1], slopes, phases, phase_rates)), strict=True
                )
            ]
            for i in range(tau.shape[1])
        ]

    def load(self, schedules: Sequence[DelaySchedule], first: int, end: int) -> None:
        """Queue the models for output samples ``[first, end)`` in one schedule an input.

        Calls for consecutive ranges may overlap: a segment that is queued twice is replaced by itself.

        Raises
        ------
        ValueError
            As `nodes`, or if the number of schedules is not the number of inputs.
        """
        models = self.models(first, end)
        if len(schedules) != len(models):
            raise ValueError(f"{len(schedules)} delay schedules for {len(models)} inputs; give one an input")
        for schedule, queue in zip(schedules, models, strict=True):
            schedule.extend(queue)

    def check_max_delay(self, first: int, end: int) -> float:
        """Check before an observation that no delay in output samples ``[first, end]`` exceeds `max_delay`.

        Returns
        -------
        float
            Largest ``|delay|`` in seconds, `offset` included.

        Raises
        ------
        ValueError
            If one does; the message names the antenna.
        """
        step = max(int(_CHECK_STEP * self.sync.sample_rate), 1)
        counts = np.append(np.arange(first, end, step, dtype=np.int64), np.int64(end))
        tau = self.delays(counts if isinstance(self.direction, Sidereal) else counts[:1])
        self._enforce_max_delay(counts, tau)
        return float(np.abs(tau + self.offset / float(self.sync.sample_rate)).max(initial=0.0))

    def _enforce_max_delay(self, counts: NDArray[np.int64], tau: NDArray[np.float64]) -> None:
        """Raise for the largest delay (count, antenna, polarization) if it exceeds `max_delay`."""
        if self.max_delay is None or not tau.size:
            return
        delay = tau + self.offset / float(self.sync.sample_rate)
        row, antenna, polarization = (int(i) for i in np.unravel_index(np.abs(delay).argmax(), delay.shape))
        worst = float(delay[row, antenna, polarization])
        if abs(worst) > self.max_delay:
            geometric = float(tau[row, antenna, polarization] + self.antennas.instrumental[antenna, polarization])
            raise ValueError(
                f"antenna {self.antennas.names[antenna]}, polarization {polarization}: delay {worst * 1e6:.3f} µs at "
                f"{self.sync.iso(int(counts[row]), 0)} (geometry {geometric * 1e6:.3f} µs) exceeds max_delay "
                f"{self.max_delay * 1e6:.3f} µs; set max_delay to at least {abs(worst) * 1e6:.3f} µs, or check the "
                "antenna's position and instrumental delay"
            )
