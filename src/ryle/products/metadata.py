"""What a visibility file has to know about an observation besides the visibilities.

This is the one place where that list is kept and checked; `ryle.products.uvh5` writes it, the other formats are made
from the UVH5 file. It does not read configuration: whoever runs the correlator builds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from astropy import units
from astropy.coordinates import EarthLocation
from astropy.time import Time
from numpy.typing import NDArray

from ryle.array.time import SyncTime
from ryle.chunk import Exposure

#: AIPS numbers of polarization products, first feed of the product first (AIPS memo 117).
AIPS_POLARIZATIONS = {"rr": -1, "ll": -2, "rl": -3, "lr": -4, "xx": -5, "yy": -6, "xy": -7, "yx": -8}

#: Antenna mounts that pyuvdata 3.2.8 knows and that make sense for one correlator input.
MOUNTS = ("fixed", "alt-az", "equatorial", "x-y", "orbiting", "bizarre", "other")


@dataclass(frozen=True)
class PhaseCentre:
    """Direction that the delay tracking follows.

    Parameters
    ----------
    name : str
        Name of the field or source.
    ra, dec : float
        ICRS position in radians.
    """

    name: str
    ra: float
    dec: float


@dataclass(frozen=True, kw_only=True)
class ObservationMetadata:
    """Everything a visibility file states about an observation. Units are SI; angles are radians.

    Parameters
    ----------
    telescope : str
        Name of the array.
    location : astropy.coordinates.EarthLocation
        Reference position of the array.
    antenna_names : tuple of str
        In correlator order: antenna ``a`` of `ryle.chunk.Integration` is the ``a``-th, and
        input = antenna · polarizations + polarization.
    antenna_positions : ndarray of float64, shape (antenna, 3)
        ITRF position minus that of `location`, metres (`ryle.array.geometry.Location.enu_to_offsets`).
    polarizations : tuple of str
        Feeds of every antenna in correlator order: one or two of ``"x", "y"`` or of ``"r", "l"``.
    frequencies : ndarray of float64, shape (channel,)
        Sky frequency of the channel centres in hertz, in internal order: descending when `sideband` is −1.
    channel_width : float
        Hertz.
    sideband : int
        Sign s of DESIGN "Delay": +1, or −1 in an even Nyquist zone or lower sideband. With −1 the writer conjugates and
        reverses the channels.
    sync_time : str or Decimal
        UTC of ADC sample 0: Unix seconds, or ISO 8601, which alone can name an instant in a leap second
        (`ryle.config.utc.parse_utc`).
    sample_rate : Fraction
        ADC samples per second; anything that Fraction takes.
    spectrum_samples : int
        ADC samples from one spectrum to the next: 2n for n channels of real samples, n for complex samples.
    taps : int
        Taps T of the polyphase filter bank; a spectrum's window is ``taps * spectrum_samples`` long.
    phase_centre : PhaseCentre or None
        None for data that were not phase-tracked (``unprojected``).
    antenna_numbers : tuple of int
        Positive and different; 1, 2, 3 … when left out. UVFITS and MIRIAD cannot hold a 0.
    feed_angles : ndarray of float64, shape (antenna, polarization) or (polarization,)
        Position angle of each feed, from north (zenith for a steerable mount) through east. Default: x at π/2 (east),
        y at 0; 0 for circular feeds.
    mount : str
        How all antennas are mounted, one of `MOUNTS`. Feeds turn on the sky with the parallactic angle unless it is
        ``"equatorial"``.
    pol_convention : str
        ``"sum"``: I = XX + YY (an unpolarized source of flux I gives I/2 in XX); ``"avg"``: I = (XX + YY)/2.
    vis_units : str
        ``"uncalib"``, ``"Jy"`` or ``"K str"``. Correlator output is ``"uncalib"``.
    antenna_diameters : tuple of float or None
        Metres.
    instrument : str
        Name of the correlator.
    history : str
        Free text.
    min_fraction : float
        Data to which a smaller part of an integration contributed are flagged, 0 to 1.
    observation : str
        The observation file, as JSON; kept in the file under ``/Ryle/observation``.
    extra_keywords : dict
        Further scalars; names of at most 8 characters survive the export to UVFITS and MIRIAD.

    Raises
    ------
    ValueError
        On construction, naming the field, the value and what is allowed.
    """

    telescope: str
    location: EarthLocation
    antenna_names: tuple[str, ...]
    antenna_positions: NDArray[np.float64]
    polarizations: tuple[str, ...]
    frequencies: NDArray[np.float64]
    channel_width: float
    sync_time: str | Decimal
    sample_rate: Fraction
    spectrum_samples: int
    taps: int
    sideband: int = 1
    phase_centre: PhaseCentre | None = None
    antenna_numbers: tuple[int, ...] = ()
    feed_angles: NDArray[np.float64] | None = None
    mount: str = "alt-az"
    pol_convention: str = "sum"
    vis_units: str = "uncalib"
    antenna_diameters: tuple[float, ...] | None = None
    instrument: str = "Ryle"
    history: str = ""
    min_fraction: float = 0.0
    observation: str = ""
    extra_keywords: dict[str, str | int | float | bool] = field(default_factory=dict)
    clock: SyncTime = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Convert to the stated types and check."""
        put = object.__setattr__
        put(self, "antenna_names", tuple(self.antenna_names))
        put(self, "polarizations", tuple(p.lower() for p in self.polarizations))
        put(self, "antenna_positions", np.asarray(self.antenna_positions, np.float64))
        put(self, "frequencies", np.asarray(self.frequencies, np.float64))
        put(self, "sample_rate", Fraction(self.sample_rate))
        antennas, feeds = len(self.antenna_names), len(self.polarizations)
        put(self, "antenna_numbers", tuple(int(a) for a in self.antenna_numbers) or tuple(range(1, antennas + 1)))
        if self.antenna_diameters is not None:
            put(self, "antenna_diameters", tuple(float(d) for d in self.antenna_diameters))
        if self.feed_angles is None:
            angles = np.array([np.pi / 2 if p == "x" else 0.0 for p in self.polarizations])
        else:
            angles = np.asarray(self.feed_angles, np.float64)
        self._check(antennas, feeds, angles)
        put(self, "clock", SyncTime(self.sync_time, self.sample_rate))
        put(self, "feed_angles", np.broadcast_to(angles, (antennas, feeds)).copy())

    @cached_property
    def geodetic(self) -> tuple[float, float, float]:
        """Longitude and latitude of `location`, radians, and its height, metres (WGS84)."""
        longitude, latitude, height = self.location.to_geodetic("WGS84")
        return longitude.rad, latitude.rad, height.to_value(units.m)

    def _check(self, antennas: int, feeds: int, angles: NDArray[np.float64]) -> None:
        def require(good: bool, name: str, allowed: str) -> None:
            if not good:
                raise ValueError(f"ObservationMetadata.{name} is {getattr(self, name)!r}; it must be {allowed}")

        def finite(values: NDArray[np.float64]) -> bool:
            return bool(np.isfinite(values).all())

        require(bool(self.telescope), "telescope", "a name")
        require(isinstance(self.location, EarthLocation), "location", "an astropy EarthLocation")
        require(antennas >= 1 and all(self.antenna_names), "antenna_names", "one name for each antenna, none empty")
        require(len(set(self.antenna_names)) == antennas, "antenna_names", "all different")
        require(
            self.antenna_positions.shape == (antennas, 3) and finite(self.antenna_positions),
            "antenna_positions",
            f"finite, of shape ({antennas}, 3), metres from the location",
        )
        require(
            len(self.antenna_numbers) == antennas == len(set(self.antenna_numbers)) and min(self.antenna_numbers) >= 1,
            "antenna_numbers",
            f"{antennas} different positive numbers",
        )
        require(
            0 < feeds == len(set(self.polarizations))
            and (set(self.polarizations) <= {"x", "y"} or set(self.polarizations) <= {"r", "l"}),
            "polarizations",
            "one or two different feeds, of 'x' and 'y' or of 'r' and 'l'",
        )
        steps = np.diff(self.frequencies)
        require(self.sideband in (1, -1), "sideband", "1 or -1")
        require(
            self.frequencies.ndim == 1
            and self.frequencies.size >= 1
            and finite(self.frequencies)
            and bool((self.frequencies >= 0).all())
            and bool((steps * self.sideband > 0).all()),
            "frequencies",
            f"0 Hz or more, {'a' if self.sideband > 0 else 'de'}scending (sideband {self.sideband:+d})",
        )
        require(self.channel_width > 0, "channel_width", "positive, hertz")
        require(self.sample_rate > 0, "sample_rate", "positive, samples per second")
        require(self.spectrum_samples >= 1, "spectrum_samples", "at least 1")
        require(self.taps >= 1, "taps", "at least 1")
        require(
            angles.shape in ((feeds,), (antennas, feeds)) and finite(angles),
            "feed_angles",
            f"finite, of shape ({antennas}, {feeds}) or ({feeds},), radians",
        )
        require(self.mount in MOUNTS, "mount", f"one of {', '.join(MOUNTS)}")
        require(self.pol_convention in ("sum", "avg"), "pol_convention", "'sum' or 'avg'")
        require(0 <= self.min_fraction <= 1, "min_fraction", "from 0 to 1")
        require(self.vis_units in ("uncalib", "Jy", "K str"), "vis_units", "'uncalib', 'Jy' or 'K str'")
        require(
            self.antenna_diameters is None
            or (len(self.antenna_diameters) == antennas and min(self.antenna_diameters) > 0),
            "antenna_diameters",
            f"{antennas} positive lengths in metres, or None",
        )
        centre = self.phase_centre
        require(
            centre is None or (bool(centre.name) and abs(centre.dec) <= np.pi / 2 and abs(centre.ra) <= 2 * np.pi),
            "phase_centre",
            "None, or have a name, |ra| <= 2π and |dec| <= π/2, radians",
        )

    @property
    def x_orientation(self) -> Literal["east", "north"] | None:
        """Where feeds x point, seen from the zenith if steered, and y across; None if elsewhere, or circular."""
        assert self.feed_angles is not None
        if not {"x", "y"} & set(self.polarizations):
            return None
        # Twice the angle: a feed that points the other way has the same orientation.
        north = np.array([p == "x" for p in self.polarizations])
        if np.allclose(np.exp(2j * self.feed_angles), np.where(north, 1, -1), atol=1e-6):
            return "north"
        return "east" if np.allclose(np.exp(2j * self.feed_angles), np.where(north, -1, 1), atol=1e-6) else None

    @property
    def antennas(self) -> int:
        """Number of antennas."""
        return len(self.antenna_names)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.frequencies.size)

    @property
    def products(self) -> int:
        """Number of products of an integration: polarizations² · antennas (antennas + 1) / 2."""
        return len(self.polarizations) ** 2 * self.antennas * (self.antennas + 1) // 2

    def time(self, sample: int | Fraction) -> Time:
        """UTC of an ADC sample count; leap seconds since `sync_time` are counted.

        Parameters
        ----------
        sample : int or Fraction
            Samples since `sync_time`.
        """
        return self.clock.instant(sample)

    def centre(self, exposure: Exposure) -> Time:
        """UTC at the centre of an exposure; the windows of its spectra reach T − 1 steps beyond it."""
        return self.time(self.spectrum_samples * (exposure.centre + Fraction(self.taps - 1, 2)))

    def midpoint(self, first_spectrum: int, spectra: int) -> Time:
        """UTC at the centre of an integration: t0 + step (M + T − 1)/2 samples (DESIGN "Time").

        Parameters
        ----------
        first_spectrum : int
            Index since sync of the first spectrum.
        spectra : int
            Length of the integration.
        """
        return self.centre(Exposure.of(first_spectrum, first_spectrum + spectra))

    def duration(self, spectra: int) -> float:
        """Length in seconds of an integration of so many spectra."""
        return float(spectra * self.spectrum_samples / self.sample_rate)
