"""Synthetic observations whose visibilities come from the formula, not from the code under test.

Directions come from astropy's ICRS → AltAz, baselines from the antennas' east-north-up positions: nothing here uses
pyuvdata or ``ryle.products.projection``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import AltAz, EarthLocation, SkyCoord
from astropy.utils import iers

from ryle.array.geometry import Location
from ryle.chunk import Integration
from ryle.products.metadata import ObservationMetadata, PhaseCentre
from ryle.products.uvh5 import UVH5Writer

iers.conf.auto_download = False

C = 299792458.0
LOCATION = EarthLocation.from_geodetic(21.4439, -30.7128, 1050.0)
SCALE = 1e6  # counts a jansky: int64 sums hold fractions of a unit well


@dataclass(frozen=True)
class Source:
    """Offset from the phase centre (direction cosines east, north) and Stokes I, Q, U, V."""

    l: float
    m: float
    stokes: tuple[float, float, float, float]


#: Not symmetric under any mirroring or rotation by 180 degrees.
ASYMMETRIC = (
    Source(0.0021, 0.0034, (1.0, 0, 0, 0)),
    Source(-0.0040, 0.0012, (0.7, 0, 0, 0)),
    Source(0.0016, -0.0044, (0.5, 0, 0, 0)),
)


def enu(antennas: int, rng: np.random.Generator, size: float = 300.0) -> np.ndarray:
    return rng.normal(0, size, (antennas, 3)) * [1, 1, 0.02]


def spiral(antennas: int, rng: np.random.Generator, radius: float) -> np.ndarray:
    """ENU positions filling a disc, turned at random: unlike those of `enu`, none makes a poor image by chance."""
    k = np.arange(antennas)
    angle = rng.uniform(0, 2 * np.pi) + k * np.pi * (3 - np.sqrt(5))
    place = radius * np.sqrt((k + 0.5) / antennas) * np.exp(1j * angle)
    place += 0.05 * radius * rng.uniform(-1, 1, (2, antennas)).T @ [1, 1j]
    return np.stack([place.real, place.imag, 0.02 * radius * rng.uniform(-1, 1, antennas)], axis=-1)


def metadata(
    positions: np.ndarray, *, pols: str = "xy", channels: int = 16, sideband: int = 1, tracked: bool = True, **more
):
    """An array at LOCATION of the given ENU positions; the phase centre transits near the zenith."""
    sky = 1.4e9 + sideband * (np.arange(channels) - channels / 2) * 2e6
    fields = dict(
        telescope="Synthetic",
        location=LOCATION,
        antenna_names=tuple(f"m{i:03d}" for i in range(len(positions))),
        antenna_positions=Location(
            LOCATION.lat.deg, LOCATION.lon.deg, LOCATION.height.to_value(units.m)
        ).enu_to_offsets(positions),
        polarizations=tuple(pols),
        frequencies=sky,
        channel_width=2e6,
        sideband=sideband,
        sync_time="1767225600.25",
        sample_rate=64_000_000,
        spectrum_samples=2 * channels,
        taps=4,
        phase_centre=PhaseCentre("field", np.deg2rad(118.0), np.deg2rad(-25.0)) if tracked else None,
        mount="equatorial",
        observation='{"name": "synthetic"}',
    )
    return ObservationMetadata(**{**fields, **more})


def directions(meta: ObservationMetadata, time, coordinates: SkyCoord) -> np.ndarray:
    """East-north-up unit vectors, shape (source, 3)."""
    horizontal = coordinates.transform_to(AltAz(obstime=time, location=meta.location))
    az, alt = horizontal.az.rad, horizontal.alt.rad
    return np.stack([np.cos(alt) * np.sin(az), np.cos(alt) * np.cos(az), np.sin(alt)], axis=-1)


def sky_coordinates(centre: PhaseCentre, sources) -> SkyCoord:
    """ICRS positions of offsets (l, m), by rotating unit vectors."""
    ca, sa, cd, sd = np.cos(centre.ra), np.sin(centre.ra), np.cos(centre.dec), np.sin(centre.dec)
    east, north, out = np.array([-sa, ca, 0]), np.array([-sd * ca, -sd * sa, cd]), np.array([cd * ca, cd * sa, sd])
    s = np.array([x.l * east + x.m * north + np.sqrt(1 - x.l**2 - x.m**2) * out for x in sources])
    return SkyCoord(s[:, 0], s[:, 1], s[:, 2], representation_type="cartesian", frame="icrs")


def correlations(meta: ObservationMetadata, positions: np.ndarray, sources, time, follow: PhaseCentre) -> np.ndarray:
    """<X_a,p conj X_b,q> of the *sky's* voltages, channels in internal order: (channel, a, b, p, q) complex128.

    v_i(t) = s(t + r_i·ŝ/c) and X has e^{−2πift}, so X_a ∝ e^{+2πi f r_a·ŝ/c}; tracking takes r_a·ŝ0/c away.
    """
    where = np.concatenate([sky_coordinates(follow, sources).cartesian.xyz.value.T, _centre(follow)])
    vectors = directions(meta, time, SkyCoord(*where.T, representation_type="cartesian", frame="icrs"))
    offset = vectors[:-1] - (vectors[-1] if meta.phase_centre is not None else 0)
    voltage = np.exp(
        2j * np.pi * meta.frequencies[:, None, None] / C * (positions @ offset.T)
    )  # (channel, antenna, source)
    feeds = np.array([[answer(p, x) for p, x in zip(meta.polarizations, row, strict=True)] for row in meta.feed_angles])
    total = 0
    for k, source in enumerate(sources):
        i, q, u, v = source.stokes
        field = np.array([[i + q, u + 1j * v], [u - 1j * v, i - q]]) / 2
        coherency = np.einsum("apn,nm,bqm->abpq", feeds, field, feeds.conj())
        total = total + np.einsum("ca,cb,abpq->cabpq", voltage[..., k], voltage[..., k].conj(), coherency)
    return total


def answer(feed: str, angle: float) -> np.ndarray:
    """To the field's components north and east (Hamaker & Bregman 1996), of a feed at a position angle."""
    if feed in "xy":
        return np.array([np.cos(angle), np.sin(angle)])
    hand = 1j if feed == "r" else -1j
    return np.array([1, hand]) / np.sqrt(2) * np.exp(-hand * angle)


def _centre(follow: PhaseCentre) -> np.ndarray:
    c = SkyCoord(follow.ra * units.rad, follow.dec * units.rad).cartesian.xyz.value
    return c[np.newaxis]


def integration(
    meta: ObservationMetadata, sky: np.ndarray, first: int, spectra: int, counts: np.ndarray | None = None
) -> Integration:
    """What a correlator would deliver for those sky correlations; a lower sideband conjugates them."""
    products = meta.products
    p = len(meta.polarizations)
    if counts is None:
        counts = np.full((1, products), spectra, np.uint32)
    vis = np.zeros((meta.channels, products, 2), np.int64)
    repeat = counts.repeat(meta.channels // counts.shape[0], axis=0)
    for a2 in range(meta.antennas):
        for a1 in range(a2 + 1):
            for p1 in range(p):
                for p2 in range(p):
                    k = p * p * (a2 * (a2 + 1) // 2 + a1) + p1 + p * p2
                    value = sky[:, a1, a2, p1, p2] * SCALE * repeat[:, k]
                    vis[:, k, 0] = np.rint(value.real)
                    vis[:, k, 1] = np.rint(value.imag) * meta.sideband
    return Integration(first, spectra, 0, vis, counts)


def observe(
    path: Path,
    meta: ObservationMetadata,
    positions: np.ndarray,
    sources,
    *,
    integrations: int = 3,
    seconds: float = 60.0,
    start: float = 0.0,
    follow: PhaseCentre | None = None,
    gains: np.ndarray | None = None,
) -> Path:
    """A UVH5 file of a sky, through `UVH5Writer`; `gains` (antenna,) multiply the voltages."""
    spectra = round(seconds * float(meta.sample_rate) / meta.spectrum_samples)
    follow = follow or meta.phase_centre or PhaseCentre("field", np.deg2rad(118.0), np.deg2rad(-25.0))
    with UVH5Writer(path, meta, overwrite=True) as writer:
        for i in range(integrations):
            first = round(start / seconds) * spectra + i * spectra
            sky = correlations(meta, positions, sources, meta.midpoint(first, spectra), follow)
            if gains is not None:
                sky = sky * np.multiply.outer(gains, gains.conj())[:, :, None, None]
            writer.append(integration(meta, sky, first, spectra))
    return path


def zenith(meta: ObservationMetadata, time) -> PhaseCentre:
    """ICRS direction that is overhead."""
    up = SkyCoord(az=0 * units.deg, alt=90 * units.deg, frame=AltAz(obstime=time, location=meta.location)).icrs
    return PhaseCentre("zenith", up.ra.rad, up.dec.rad)


def field_rotation(meta: ObservationMetadata, time, *, fixed: bool) -> float:
    """Angle at the phase centre from ICRS north (through east) to zenith or northern horizon, by finite steps."""
    centre = meta.phase_centre
    toward_north = PhaseCentre("n", centre.ra, centre.dec + 1e-5)
    toward_east = PhaseCentre("e", centre.ra + 1e-5 / np.cos(centre.dec), centre.dec)
    at, north, east = (
        directions(meta, time, SkyCoord(c.ra * units.rad, c.dec * units.rad))
        for c in (centre, toward_north, toward_east)
    )
    target = np.array([0, 1, 0]) if fixed else np.array([0, 0, 1])
    return float(np.arctan2((east - at) @ target, (north - at) @ target))


def random_integration(
    meta: ObservationMetadata, rng: np.random.Generator, first: int, spectra: int, groups: int = 1
) -> Integration:
    """Exact random sums with real autocorrelations and Hermitian auto products."""
    p = len(meta.polarizations)
    vis = rng.integers(-(10**6), 10**6, (meta.channels, meta.products, 2))
    counts = rng.integers(0, spectra + 1, (groups, meta.products), dtype=np.uint32)
    for a in range(meta.antennas):
        k = p * p * (a * (a + 1) // 2 + a)
        for p1 in range(p):
            vis[:, k + p1 + p * p1, 1] = 0
        if p == 2:
            vis[:, k + 2] = vis[:, k + 1] * [1, -1]
            counts[:, k + 2] = counts[:, k + 1]
    vis *= (counts.repeat(meta.channels // groups, axis=0) > 0)[..., None]
    return Integration(first, spectra, 0, vis, counts)


@pytest.fixture
def synthetic() -> ModuleType:
    """This module, for tests (they are imported one by one and cannot import it)."""
    return sys.modules[__name__]
