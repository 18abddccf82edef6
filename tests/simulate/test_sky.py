"""The sky model against fftvis, an independent visibility simulator, and against Stokes parameters by definition."""

from dataclasses import dataclass

import numpy as np
import pytest
from fftvis import simulate_vis
from pyuvdata.analytic_beam import AnalyticBeam
from simulated import observation

import fresh
from ryle.config import parse
from ryle.simulate import Sky, coherency
from ryle.simulate.sky import feed_matrix

SOURCES = (
    """[
  { name = "A", ra = "05h10m00s", dec = "-44d00m00s", flux = "10 Jy", q = "3 Jy", u = "-4 Jy", v = "2 Jy", """
    """spectral_index = -0.7 },
  { name = "B", ra = "07h40m00s", dec = "-12d00m00s", flux = "6 Jy", q = "-2 Jy", u = "1 Jy", v = "-3 Jy", """
    """reference_frequency = "110 MHz", spectral_index = 0.4 },
  { name = "C", ra = "06h20m00s", dec = "-63d00m00s", flux = "3 Jy", q = "1 Jy", u = "2.5 Jy", v = "1 Jy" },
  { name = "below the horizon", ra = "19h00m00s", dec = "40d00m00s", flux = "50 Jy" },
]"""
)


# fftvis (1.1.2, with matvis 1.3.3) writes the IAU coherency on north and east, rotates it to "up" and increasing
# azimuth, and applies a beam's zenith-angle component, which points down, to the "up" one. So components of a beam
# along zenith angle are given to it with the other sign. (Otherwise pyuvdata's ShortDipoleBeam receives north-south
# polarization from near the zenith with its east-west dipole too.)


@dataclass(kw_only=True, eq=False)
class AltAzFeeds(AnalyticBeam):
    """Ideal feeds of an alt-azimuth mount: x along increasing azimuth (east through north), y towards the zenith."""

    basis_vector_type = "az_za"

    def _efield_eval(self, *, az_grid, za_grid, f_grid):
        data = self._get_empty_data_array(az_grid.shape)
        data[0, 0], data[1, 1] = 1.0, 1.0
        return data


@dataclass(kw_only=True, eq=False)
class FixedFeeds(AltAzFeeds):
    """The same turned to east and north at the zenith, carried down each meridian (Ludwig's third definition)."""

    def _efield_eval(self, *, az_grid, za_grid, f_grid):
        data = self._get_empty_data_array(az_grid.shape)
        data[0, 0], data[1, 0] = -np.sin(az_grid), -np.cos(az_grid)
        data[0, 1], data[1, 1] = np.cos(az_grid), -np.sin(az_grid)
        return data


@pytest.mark.parametrize(("mount", "beam"), [("alt-az", AltAzFeeds), ("fixed", FixedFeeds)])
def test_expected_visibilities_are_those_of_fftvis(mount, beam):
    o = observation(antennas=6, spacing=12, sources=SOURCES, band='lo = "150 MHz"')  # larger, fftvis needs gigabytes
    sky = Sky(o, mount)
    counts = np.array([0, 8_000_000 * 3600])
    times, frequencies = sky.sync.time(counts), np.array([150.5e6, 153.5e6])
    ours = sky.visibilities(times, frequencies)
    stokes = np.array([[s.flux, s.q, s.u, s.v] for s in sky.sources])
    spectra = [
        (frequencies / (s.reference_frequency or sky.reference_frequency)) ** s.spectral_index for s in sky.sources
    ]
    enu = sky.location.offsets_to_enu(sky.offsets * 299792458.0)
    pairs = [(a, b) for b in range(6) for a in range(b + 1)]
    theirs = simulate_vis(
        ants={i: p for i, p in enumerate(enu)},
        fluxes=np.array(spectra)[:, :, None] * stokes[:, None],
        ra=np.radians([s.ra for s in sky.sources]),
        dec=np.radians([s.dec for s in sky.sources]),
        freqs=frequencies,
        times=times,
        beam=beam(feed_array=["x", "y"], mount_type="fixed"),
        telescope_loc=sky.location.earth_location,
        polarized=True,
        baselines=pairs,
        precision=2,
        nthreads=1,
    )  # (frequency, time, feed, feed, baseline) of conj(X_a) X_b
    for n, (a, b) in enumerate(pairs):
        got = ours[:, :, 4 * n : 4 * n + 4].reshape(2, 2, 2, 2).transpose(1, 0, 3, 2)  # frequency, time, p1, p2
        np.testing.assert_allclose(got, theirs[..., n].conj(), atol=2e-4 * np.abs(theirs).max(), err_msg=f"{a}-{b}")


def received(source, feeds: str, angles):
    response = feed_matrix(feeds, angles)
    return response @ coherency(source, 1.4e9, 1.4e9) @ response.conj().T


def test_stokes_parameters_by_definition():
    (source, *_) = observation(sources=SOURCES).simulate.sources
    i, q, u, v = source.flux, source.q, source.u, source.v
    (xx, xy), (yx, yy) = received(source, "xy", [np.pi / 2, 0])
    np.testing.assert_allclose([xx, yy, xy, yx], np.array([i - q, i + q, u - 1j * v, u + 1j * v]) / 2, atol=1e-12)
    (rr, rl), (lr, ll) = received(source, "rl", [0, 0])
    np.testing.assert_allclose([rr, ll, rl, lr], np.array([i + v, i - v, q + 1j * u, q - 1j * u]) / 2, atol=1e-12)
    # A feed at position angle 45 degrees sees I + U.
    assert received(source, "y", [np.pi / 4])[0, 0] == pytest.approx((i + u) / 2)
    # Circular feeds that are turned by 30 degrees see linear polarization turned the other way.
    (_, rl), _ = received(source, "rl", np.radians([30, 30]))
    assert rl == pytest.approx((q + 1j * u) / 2 * np.exp(-1j * np.pi / 3))
    np.testing.assert_allclose(
        coherency(source, np.array([1.4e9, 2.8e9]), 1.4e9)[1], coherency(source, 1.4e9, 1.4e9) * 2**-0.7
    )


@pytest.mark.parametrize(("pols", "array", "angles"), [
    ("xy", 'x_orientation = "north"', [[0, 90], [-45, 45], [0, 90]]),
    ("yx", 'feed_angles = ["10 deg", "-75 deg"]', [[10, -75], [-45, 45], [10, -75]]),
    ("rl", "", [[0, 0], [-45, 45], [0, 0]]),
    ("x", 'feed_angles = ["200 deg"]', [[200], [-45], [200]]),
])  # fmt: skip
@pytest.mark.parametrize("mount", ["alt-az", "equatorial"])
def test_antennas_with_feeds_of_their_own(pols, array, angles, mount):
    """Each product is that of feed angles written out, between antennas of different ones too."""
    feeds = str(list(pols)).replace("'", '"')
    o = oriented(feeds, array, [", ".join(f'"{a} deg"' for a in angles[1])])
    np.testing.assert_array_equal(o.feed_angles, angles)
    sky = Sky(o, mount)
    times = sky.sync.time(np.array([5_000_000]))
    axes = sky.axes(times)[0]
    got = sky.visibilities(times, 1.402e9)[0, 0]
    wanted = np.zeros(6 * len(pols) ** 2, complex)
    for s in np.flatnonzero(sky.visible(axes)):
        source, turn = sky.sources[s], sky.rotation(axes)[s]
        phase = np.exp(2j * np.pi * 1.402e9 * sky.delays(axes)[s])
        field = np.array([[source.flux + source.q, source.u + 1j * source.v],
                          [source.u - 1j * source.v, source.flux - source.q]]) / 2  # fmt: skip
        scale = (1.402e9 / (source.reference_frequency or sky.reference_frequency)) ** source.spectral_index
        answers = []
        for row in np.radians(angles) + turn:
            towards = {"x": lambda a: [np.cos(a), np.sin(a)], "y": lambda a: [np.cos(a), np.sin(a)],
                       "r": lambda a: np.exp(-1j * a) * np.array([1, 1j]) / np.sqrt(2),
                       "l": lambda a: np.exp(1j * a) * np.array([1, -1j]) / np.sqrt(2)}  # fmt: skip
            answers.append(np.array([towards[p](a) for p, a in zip(pols, row, strict=True)]))
        n = 0
        for b in range(3):
            for a in range(b + 1):
                product = answers[a] @ field @ answers[b].conj().T * scale * phase[a] * phase[b].conj()
                wanted[n : n + product.size] += product.T.ravel()
                n += product.size
    np.testing.assert_allclose(got, wanted, atol=1e-9)


def oriented(polarizations: str, array: str, own: list[str]):
    """Three antennas, the second with feed angles of its own."""
    text = observation(antennas=3, pols=polarizations, sources=SOURCES).text
    head, tail = text.split('name = "A1",')
    return parse(f'{head}name = "A1", feed_angles = [{own[0]}],{tail}'.replace("[array]", f"[array]\n{array}"))


def test_interpolated_directions_are_the_exact_ones():
    sky = Sky(observation(sources=SOURCES))
    rng = fresh.rng()
    counts = rng.integers(0, 8_000_000 * 86400, 20)
    exact = sky.axes(sky.sync.time(counts))
    for count, axes in zip(counts, exact, strict=True):
        np.testing.assert_allclose(sky.axes_at(int(count)), axes, atol=1e-11)
    assert list(sky.visible(exact[0])) == [True, True, True, False] or counts[0] > 0


def test_phased_visibilities_follow_the_design():
    """e^{+2πi(ul+vm+w(n−1))f/c} with u, v, w of r1 − r2."""
    from ryle.array.direction import antenna_uvw

    o = observation(antennas=3, sources=SOURCES)
    sky = Sky(o, "equatorial")
    times = sky.sync.time(np.array([1_000_000]))
    axes = sky.phase_centre.axes(sky.location, times)[0]
    uvw = antenna_uvw(sky.phase_centre, sky.location, sky.location.offsets_to_enu(sky.offsets * 299792458.0), times)[0]
    f = 1.402e9
    lmn = np.array([axes @ a[2] for a in sky.axes(times)[0]])[:3]
    for n, (a, b) in enumerate([(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]):
        baseline = (uvw[a] - uvw[b]) * f / 299792458.0
        phases = np.exp(2j * np.pi * ((lmn - [0, 0, 1]) @ baseline))
        wanted = sum(p * coherency(s, f, sky.reference_frequency) for p, s in zip(phases, sky.sources[:3], strict=True))
        got = sky.visibilities(times, f, phased=True)[0, 0, 4 * n : 4 * n + 4].reshape(2, 2).T
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_unknown_mount_is_refused():
    with pytest.raises(ValueError, match="equatorial"):
        Sky(observation(), "altaz")
