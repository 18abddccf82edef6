"""How feeds turn on the sky with each mount, from Stokes parameters in to Stokes parameters out.

alt-az      y points to the zenith: turned by the parallactic angle (fftvis: feeds along azimuth and zenith angle)
fixed       y points north along the ground (fftvis: dipoles fixed to the ground); tested near the zenith, where
            foreshortening does not matter
equatorial  y points to the celestial north pole always
"""

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import AltAz, SkyCoord
from correlated import EDGE, PLACE, correlated, cube, observation, quantization_noise, read
from scipy.stats import norm

from ryle.products.export import export
from ryle.products.stokes import stokes

FALSE_ALARM = 1e-9
STOKES = np.array([100.0, 40, -35, 30])
SEFD = 400.0
ENU = np.array([[0, 0, 0], [120, 30, 0], [-40, 90, 0]], float)


@pytest.mark.parametrize("feeds", ["xy", "rl"])
@pytest.mark.parametrize("mount", ["alt-az", "fixed", "equatorial"])
def test_polarization_in_is_polarization_out(mount, feeds, tmp_path):
    observe(mount, feeds, None, tmp_path)


@pytest.mark.parametrize(
    ("mount", "feeds", "angles"),
    [
        ("equatorial", "xy", [[0, 90]] * 3),
        ("alt-az", "yx", [[45, -45]] * 3),
        ("equatorial", "xy", [[90, 0], [-20, 70], [35, 215 + 90]]),
        ("alt-az", "rl", [[0, 0], [30, 30], [-70, 110]]),
    ],
    ids=["x north", "45", "of each antenna", "circular, of each antenna"],
)
def test_feeds_of_any_direction(mount, feeds, angles, tmp_path):
    observe(mount, feeds, np.array(angles), tmp_path)


def observe(mount, feeds, angles, tmp_path):
    """Simulate, correlate, and compare all products, and Stokes parameters from the file and a Measurement Set."""
    # Near the zenith for dipoles on the ground; far from the meridian, and so turned by a large angle, for dishes.
    source = SkyCoord("06h30m00s", "-28d00m00s") if mount == "fixed" else SkyCoord("03h40m00s", "-10d00m00s")
    here = (f"{source.ra.deg} deg", f"{source.dec.deg} deg")
    i, q, u, v = STOKES
    light = f'flux = "{i} Jy", q = "{q} Jy", u = "{u} Jy", v = "{v} Jy"'
    o = observation(
        ENU, f'[{{ ra = "{here[0]}", dec = "{here[1]}", {light} }}]', phase_centre=here, mount=mount,
        pols=str(list(feeds)).replace("'", '"'), sefd=SEFD, duration=0.2, angles=angles,
    )  # fmt: skip
    data = correlated(o, tmp_path)
    got = cube(data, o)
    frame = AltAz(obstime=got.times[0], location=PLACE)
    reference = SkyCoord(0 * units.deg, (0 if mount == "fixed" else 90) * units.deg, frame=frame).icrs
    turn = 0.0 if mount == "equatorial" else source.position_angle(reference).rad
    assert mount != "alt-az" or abs(np.sin(2 * turn)) > 0.5
    # Field components north and east (Hamaker & Bregman 1996) in feeds that are turned north through east.
    coherency = 0.5 * np.array([[i + q, u + 1j * v], [u - 1j * v, i - q]])
    if angles is None:
        angles = np.array([[{"x": 90, "y": 0}.get(f, 0) for f in feeds]] * 3)
    rows = []
    for feed, psi in zip(list(feeds) * 3, np.radians(angles).ravel() + turn, strict=True):
        along, across = np.array([np.cos(psi), np.sin(psi)]), np.array([-np.sin(psi), np.cos(psi)])
        hand = {"r": 1j, "l": -1j}.get(feed)
        rows.append(along if hand is None else (along + hand * across) / np.sqrt(2))
    light = np.array(rows) @ coherency @ np.array(rows).conj().T  # <X_p X_q*>
    wanted = light.conj() + SEFD / 2 * (1 + quantization_noise(o)) * np.eye(6)
    power = np.diag(wanted).real
    rho = wanted / np.sqrt(np.outer(power, power))
    first, second = np.triu_indices(6, 1)
    error = np.mean((got.normalized - rho)[..., first, second], axis=(0, 1))
    # Channels share a little noise with their neighbours.
    sigma = 1.2 / np.sqrt(2 * np.mean(got.n) * got.values[..., 0, 0].size)
    assert max(np.abs(error.real).max(), np.abs(error.imag).max()) < sigma * norm.isf(FALSE_ALARM / 60)
    # What images show: cross-correlations in Jy, all parameters.
    scale = np.mean(np.einsum("tcii->tci", got.values).real, axis=(0, 1)).mean() / power.mean()
    exported = read(export(tmp_path / "sky.uvh5", "ms").path)
    for file, parameter, injected in ((f, *p) for f in (data, exported) for p in zip("IQUV", STOKES, strict=True)):
        whole, cross = file.nsample_array.min(axis=(1, 2)) > 0.2, file.ant_1_array != file.ant_2_array
        values, _ = stokes(file, parameter)
        mean = np.mean(values[whole & cross, EDGE:-EDGE]) / scale
        noise = 4 * power.max() / np.sqrt(np.mean(got.n) * values[whole & cross, EDGE:-EDGE].size)
        assert abs(mean - injected) < noise * norm.isf(FALSE_ALARM) + 0.005 * i, parameter
