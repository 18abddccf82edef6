"""The file's visibilities against those of fftvis, to within radiometer noise that is computed and not fitted.

Voltages of five dual-polarization antennas and three polarized sources with spectral indices pass the ADC, the
tracking F-engine, the X-engine and the UVH5 writer. pyuvdata reads the file and takes the tracking out; fftvis
gives the unphased visibilities of the same sky. Compared are the correlation coefficients V_ij / sqrt(V_ii V_jj) of
all pairs of the ten inputs. Expected autocorrelations are SEFD/2, sky, and the two quantizers' noise, all known
beforehand.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import AltAz, SkyCoord
from astropy.time import Time
from correlated import (
    BANDS,
    GAIN,
    PLACE,
    RMS,
    correlated,
    cube,
    observation,
    quantization_noise,
    residuals,
    unprojected,
)
from pyuvdata.analytic_beam import AnalyticBeam
from scipy.stats import chi2, norm

fftvis = pytest.importorskip("fftvis")

FALSE_ALARM = 1e-9
SEFD = 400.0
ENU = np.array([[0, 0, 0], [31, 7, 0.4], [-12, 42, -0.3], [-38, -17, 0.2], [23, -35, 0.5]], float)
# Name, RA and dec in degrees, I, Q, U, V in Jy at the frequency, spectral index.
SKY = [
    ("A", 77.5, -44.0, (100, 40, -45, 30), -2.5, 41e6),
    ("B", 115.0, -12.0, (80, -25, 15, -50), 1.5, 43e6),
    ("C", 95.0, -63.0, (60, 15, 45, 10), -0.8, 42e6),
]
SOURCES = ",".join(
    f'{{ name = "{name}", ra = "{ra} deg", dec = "{dec} deg", flux = "{i} Jy", q = "{q} Jy", u = "{u} Jy", '
    f'v = "{v} Jy", spectral_index = {index}, reference_frequency = "{reference} Hz" }}'
    for name, ra, dec, (i, q, u, v), index, reference in SKY
)
CENTRE = ("06h50m00s", "-38d00m00s")  # off the zenith and off all sources


# fftvis rotates the IAU's coherency from north and east to "up" and increasing azimuth, while components of beams along
# zenith angle point down: they are given to it with the other sign, so that north-south polarization at the zenith ends
# in a north-south dipole whatever the azimuth (checked at the end).
@dataclass(kw_only=True, eq=False)
class AltAzFeeds(AnalyticBeam):
    """Alt-azimuth mount: feeds turn on the sky. x along increasing azimuth, y towards the zenith."""

    basis_vector_type = "az_za"

    def _efield_eval(self, *, az_grid, za_grid, f_grid):
        data = self._get_empty_data_array(az_grid.shape)
        data[0, 0], data[1, 1] = 1.0, 1.0
        return data


@dataclass(kw_only=True, eq=False)
class FixedFeeds(AltAzFeeds):
    """Feeds fixed to the ground: east and north at the zenith, carried down each meridian (Ludwig 3)."""

    def _efield_eval(self, *, az_grid, za_grid, f_grid):
        data = self._get_empty_data_array(az_grid.shape)
        data[0, 0], data[1, 0] = -np.sin(az_grid), -np.cos(az_grid)  # azimuth here from east through north
        data[0, 1], data[1, 1] = np.cos(az_grid), -np.sin(az_grid)
        return data


def matrices(times, frequencies, beam):
    """fftvis's <conj(X_i) X_j>, Jy, shape (time, frequency, input, input)."""
    pairs = [(a, b) for b in range(len(ENU)) for a in range(b + 1)]
    flux = np.array(
        [np.outer((frequencies / reference) ** index, stokes) for *_, stokes, index, reference in SKY]
    )  # (source, frequency, Stokes)
    made = fftvis.simulate_vis(
        ants=dict(enumerate(ENU)),
        fluxes=flux,
        ra=np.radians([s[1] for s in SKY]),
        dec=np.radians([s[2] for s in SKY]),
        freqs=frequencies,
        times=times,
        beam=beam(feed_array=["x", "y"], mount_type="fixed"),
        telescope_loc=PLACE,
        polarized=True,
        baselines=pairs,
        precision=2,
        eps=1e-7,
        nthreads=1,
    )
    out = np.empty((len(times), len(frequencies), 2 * len(ENU), 2 * len(ENU)), np.complex128)
    for k, (a, b) in enumerate(pairs):
        block = made[..., k].transpose(1, 0, 2, 3)
        out[:, :, 2 * a : 2 * a + 2, 2 * b : 2 * b + 2] = block
        out[:, :, 2 * b : 2 * b + 2, 2 * a : 2 * a + 2] = np.swapaxes(block, -1, -2).conj()
    return out


CASES = {
    **{name: (name, "alt-az", CENTRE) for name in BANDS},
    "fixed mount": ("first zone", "fixed", CENTRE),
    "unprojected": ("second zone", "alt-az", None),
}


@pytest.mark.parametrize("case", CASES)
def test_normalized_visibilities_are_those_of_fftvis(case, tmp_path):
    name, mount, centre = CASES[case]
    band, complex_samples = BANDS[name]
    o = observation(
        ENU,
        f"[{SOURCES}]",
        band=band,
        complex_samples=complex_samples,
        mount=mount,
        phase_centre=centre,
        sefd=SEFD,
        integration=0.05,
    )
    seen = correlated(o, tmp_path)
    if centre is not None:
        assert (
            np.ptp(np.angle(seen.data_array * unprojected(seen).data_array.conj())) > 3
        )  # there is tracking to take out
    got = cube(unprojected(seen), o, every=2)  # channels that have no noise in common
    assert len(got.times) >= 8
    # The sky turns by 30 µrad meanwhile, and fringes by milliradians: a chord does.
    ends = matrices(got.times[[0, -1]], got.frequencies, AltAzFeeds if mount == "alt-az" else FixedFeeds)
    x = ((got.times - got.times[0]) / (got.times[-1] - got.times[0])).value[:, None, None, None]
    check(got, (1 - x) * ends[0] + x * ends[1], o)


def check(got, sky, o):
    """Compare, with the seed of `o` as the only thing that chance depends on."""
    wanted = sky + (1 + quantization_noise(o)) * SEFD / 2 * np.eye(sky.shape[-1])
    power = np.einsum("tcii->tci", wanted).real
    rho = wanted / np.sqrt(power[..., :, None] * power[..., None, :])
    first, second = np.triu_indices(sky.shape[-1], 1)
    n = got.n[..., first, second]
    along, across = residuals(got.normalized[..., first, second], rho[..., first, second], n)
    z = np.stack([along, across])  # (part, time, channel, pair)
    # The sky matters: visibilities are many standard deviations in each of the four products.
    strength = np.abs(rho[..., first, second]) * np.sqrt(n)
    for p in range(2):
        for q in range(2):
            assert np.median(strength[..., (first % 2 == p) & (second % 2 == q)]) > 3
    assert z.size > 20_000
    print(f"reduced chi-square {np.mean(z**2):.4f} of {z.size} residuals")
    assert 0.9 < np.mean(z**2) < 1.1
    # Each part of each pair is a series of independent residuals: no offset, no slope over the band or in time.
    axes = [np.ones(z.shape[1:3]), *np.meshgrid(*(np.linspace(-1, 1, k) for k in z.shape[1:3]), indexing="ij")]
    trends = np.array([np.tensordot(z, a / np.sqrt(np.sum(a**2)), ([1, 2], [0, 1])) for a in axes])
    assert np.abs(trends).max() < norm.isf(FALSE_ALARM / 2 / trends.size)
    count, squares = z[0, ..., 0].size, np.sum(z**2, axis=(1, 2))
    assert chi2.isf(1 - FALSE_ALARM / squares.size, count) < squares.min()
    assert squares.max() < chi2.isf(FALSE_ALARM / squares.size, count)
    # The autocorrelations themselves: SEFD/2 is rms² ADC steps, whatever comes on top of it.
    parts = 2 if o.digitizer.complex else 1
    auto = np.einsum("tcii->tci", got.values).real * (SEFD / 2) / (parts * (RMS * GAIN) ** 2 * power) - 1
    auto *= np.sqrt(np.einsum("tcii->tci", got.n))
    assert np.abs(auto.mean(axis=(0, 1))).max() < norm.isf(FALSE_ALARM / auto.shape[-1]) / np.sqrt(count)
    assert np.sum(auto**2, axis=(0, 1)).max() < chi2.isf(FALSE_ALARM / auto.shape[-1], count)


@pytest.mark.parametrize(
    ("stokes", "wanted"),
    [
        ((1, 1, 0, 0), [[0, 0], [0, 1]]),  # north-south: all in y
        ((1, 0, 1, 0), [[0.5, 0.5], [0.5, 0.5]]),  # north-east to south-west: x and y in phase
        ((1, 0, 0, 1), [[0.5, 0.5j], [-0.5j, 0.5]]),  # <E_N E_E*> = +i/2, and y is north
    ],
)
def test_fftvis_itself_follows_the_definition_of_stokes_parameters(stokes, wanted):
    """On all sides of the zenith, where fixed feeds point north and east: what the beams above make of fftvis."""
    time = Time("2026-03-20T17:00:00")
    for azimuth in np.arange(20, 360, 45):
        frame = AltAz(obstime=time, location=PLACE)
        place = SkyCoord(azimuth * units.deg, 89.9 * units.deg, frame=frame).icrs
        made = fftvis.simulate_vis(
            ants={0: np.zeros(3), 1: np.array([10.0, 0, 0])},
            fluxes=np.array(stokes, float)[None, None],
            ra=np.array([place.ra.rad]),
            dec=np.array([place.dec.rad]),
            freqs=np.array([40e6]),
            times=Time([time]),
            beam=FixedFeeds(feed_array=["x", "y"], mount_type="fixed"),
            telescope_loc=PLACE,
            polarized=True,
            baselines=[(0, 0)],
            precision=2,
            nthreads=1,
        )  # <conj(X_i) X_j>
        np.testing.assert_allclose(made[0, 0, ..., 0], wanted, atol=0.01)  # precession turns north by 0.1°
