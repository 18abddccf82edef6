"""Fringe phases, their rate and sign, delays and gains, against geometry by astropy's AltAz.

An antenna at r receives a wave from ŝ by r·ŝ/c before the reference point: X ∝ e^{+2πi f r·ŝ/c}. So UVH5's
conj(X_a)·X_b turns as e^{+2πi f (r_b − r_a)·ŝ/c}, and a signal that comes late by e as e^{−2πi f e}.
"""

import io

import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from correlated import LIGHT, arrival, correlated, cube, observation, read
from rich.console import Console
from scipy.stats import chi2, norm

import fresh
from ryle.engines.offline import correlate_samples
from ryle.simulate import VoltageSimulator

FALSE_ALARM = 1e-9
SOURCE = SkyCoord("07h20m00s", "-38d00m00s")
HERE = (f"{SOURCE.ra.deg} deg", f"{SOURCE.dec.deg} deg")
ONE = f'[{{ ra = "{HERE[0]}", dec = "{HERE[1]}", flux = "200 Jy" }}]'
ENU = np.array([[0, 0, 0], [390, 60, 2], [-80, 310, -1], [150, -240, 1]], float)
BANDS = {
    "first zone": ('lo = "1.4 GHz"', False),
    "second zone": ('lo = "1.4 GHz"\nnyquist_zone = 2', False),
    "lower sideband": ('lo = "1.4 GHz"\nsideband = "lower"', False),
    "complex": ('lo = "1.4 GHz"', True),
}
#: Half the flux, 100 Jy, over half the SEFD and it.
RHO = 100 / 300


def phases(got, delays):
    """Phase errors of all pairs against delays (time, input), and the standard deviations of each."""
    first, second = np.triu_indices(got.values.shape[-1], 1)
    tau = (delays[:, second] - delays[:, first])[:, None]
    left = got.normalized[..., first, second] * np.exp(-2j * np.pi * got.frequencies[:, None] * tau)
    return np.angle(left), np.sqrt((1 - RHO**2) / (2 * got.n[..., first, second])) / RHO


def check(error, sigma):
    """Each baseline's phase errors (time, channel, pair): mean, trends and scatter are those of noise."""
    z = error / sigma
    axes = [np.ones(z.shape[:2]), *np.meshgrid(*(np.linspace(-1, 1, k) for k in z.shape[:2]), indexing="ij")]
    trends = np.array([np.tensordot(a / np.sqrt(np.sum(a**2)), z, ([0, 1], [0, 1])) for a in axes])
    assert np.abs(trends).max() < norm.isf(FALSE_ALARM / 2 / trends.size)
    # A tangent of Gaussians has wider wings: 1 + 2σ² of them at these σ.
    wings = 1 + 2 * float(np.mean(sigma**2))
    assert np.sum(z**2, axis=(0, 1)).max() < wings * chi2.isf(FALSE_ALARM / z.shape[2], z[..., 0].size)


@pytest.mark.parametrize("band", BANDS)
def test_untracked_fringes_turn_as_geometry_says(band, tmp_path):
    setting, complex_samples = BANDS[band]
    o = observation(
        ENU[:3], ONE, band=setting, complex_samples=complex_samples, pols='["x"]', duration=0.5, integration=0.05
    )
    got = cube(correlated(o, tmp_path), o, every=2)
    delays = arrival(SOURCE.ra.rad, SOURCE.dec.rad, got.times) @ ENU[:3].T / LIGHT
    error, sigma = phases(got, delays)
    check(error, sigma)
    # The rate alone, at the band's centre, with its sign: it is measured to better than a tenth.
    seconds = (got.times - got.times[0]).sec
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        wanted = 2 * np.pi * got.frequencies.mean() * np.polyfit(seconds, delays[:, b] - delays[:, a], 1)[0]
        spread = np.sqrt(np.mean(sigma**2) / len(got.frequencies) / len(seconds)) / np.std(seconds)
        turning = np.unwrap(np.angle(np.mean(got.normalized[..., a, b] * np.exp(
            -2j * np.pi * got.frequencies * (delays[:1, b, None] - delays[:1, a, None])), axis=1)))  # fmt: skip
        assert abs(np.polyfit(seconds, turning, 1)[0] - wanted) < norm.isf(FALSE_ALARM) * spread
        if b - a == 1:  # the two long east-west baselines
            assert abs(wanted) > 10 * spread


@pytest.mark.parametrize("band", ["second zone", "complex"])
def test_tracked_phases_are_zero_with_known_cables(band, tmp_path):
    setting, complex_samples = BANDS[band]
    rng = fresh.rng()
    cables = rng.uniform(0, 900e-9, (3, 1)).round(13)
    print("cables", cables.tolist())
    o = observation(
        ENU[:3], ONE, band=setting, complex_samples=complex_samples, pols='["x"]', phase_centre=HERE, cables=cables,
        integration=0.05,
    )  # fmt: skip
    got = cube(correlated(o, tmp_path), o, every=2)
    check(*phases(got, np.zeros((len(got.times), 3))))


@pytest.mark.parametrize(
    ("band", "tracked"),
    [("first zone", True), ("second zone", False), ("lower sideband", True), ("complex", False)],
)
def test_unknown_delays_and_gains_show_with_sign_and_size(band, tracked, tmp_path):
    """Cables of which the correlator is not told, on top of one that it knows."""
    setting, complex_samples = BANDS[band]
    rng = fresh.rng()
    known, unknown = rng.uniform(0, 300e-9, (3, 1)).round(13), rng.uniform(0, 300e-9, (3, 1)).round(13)
    print("cables", known.tolist(), unknown.tolist())
    settings = dict(band=setting, complex_samples=complex_samples, pols='["x"]', integration=0.05)
    settings["phase_centre"] = HERE if tracked else None
    true = observation(ENU[:3], ONE, cables=known + unknown, errors="gain_error = 0.2", **settings)
    told = observation(ENU[:3], ONE, cables=known, **settings)
    path = tmp_path / "sky.uvh5"
    simulator = VoltageSimulator(true)
    chunks = ((0, chunk) for chunk in simulator.chunks())
    correlate_samples([(told, path, None)], lambda _: chunks, lambda at: 0.0, Console(file=io.StringIO()), False)
    got = cube(read(path), told, every=2)
    delays = 0 if tracked else arrival(SOURCE.ra.rad, SOURCE.dec.rad, got.times) @ ENU[:3].T / LIGHT
    check(*phases(got, delays - unknown[:, 0] + np.zeros((len(got.times), 3))))
    gain = np.abs(simulator.truth().gain)
    power = np.einsum("tcii->i", got.values).real
    spread = norm.isf(FALSE_ALARM) * 2 / np.sqrt(got.n.mean() * got.values[..., 0, 0].size)
    np.testing.assert_allclose(power / power[0], (gain / gain[0]) ** 2, rtol=spread)


def test_drawn_errors_are_what_the_truth_says_and_close(tmp_path):
    """Errors that the simulator draws: phases are the truth's, and closure phases of one source are zero."""
    o = observation(
        ENU, ONE, pols='["x"]', phase_centre=("07h21m00s", "-38d05m00s"), integration=0.05,
        errors='gain_error = 0.2\nphase_error = "60 deg"\ndelay_error = "20 ns"',
    )  # fmt: skip
    got = cube(correlated(o, tmp_path), o, every=2)
    closures = [(0, 1, 2), (0, 1, 3), (0, 2, 3)]
    v = got.normalized
    around = np.stack([np.angle(v[..., a, b] * v[..., b, c] * v[..., c, a]) for a, b, c in closures], axis=-1)
    single = np.sqrt((1 - RHO**2) / (2 * got.n[..., :3, 0])) / RHO
    assert np.abs(np.angle(v)).max() > 0.5  # the errors are there
    z = around / (np.sqrt(3) * single)
    assert np.abs(z.mean(axis=(0, 1))).max() * np.sqrt(z[..., 0].size) < norm.isf(FALSE_ALARM)
    assert np.mean(z**2) < 1.5
    truth = VoltageSimulator(o).truth()
    towards = [SOURCE, SkyCoord("07h21m00s", "-38d05m00s")]
    source, centre = (arrival(p.ra.rad, p.dec.rad, got.times) for p in towards)
    error, sigma = phases(got, (source - centre) @ ENU.T / LIGHT - truth.delay_error)
    first, second = np.triu_indices(4, 1)
    error -= np.angle(truth.gain)[second] - np.angle(truth.gain)[first]
    check(np.angle(np.exp(1j * error)), sigma)
