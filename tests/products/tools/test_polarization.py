"""WSClean and CASA image a polarized sky: four Stokes parameters of three sources, with their signs, from any feeds."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS

from ryle.products.export import export

PIXELS, ARCSEC = 512, 8.0
PIXEL = np.deg2rad(ARCSEC / 3600)
#: Offsets in pixels east and north, and Stokes I, Q, U, V in Jy.
SOURCES = (
    (54, 88, (1.0, 0.3, -0.2, 0.15)),
    (-103, 31, (0.7, -0.1, 0.25, -0.2)),
    (41, -113, (0.5, 0.0, 0.0, 0.0)),
)
FEEDS = {"east": ("xy", [90, 0]), "north": ("xy", [0, 90]), "circular": ("rl", [0, 0])}


@pytest.fixture
def observed(tmp_path, synthetic, rng):
    """Files of the sky by where x points, and where the sources are."""
    positions = synthetic.spiral(12, rng, 150.0)
    sky = [synthetic.Source(east * PIXEL, north * PIXEL, stokes) for east, north, stokes in SOURCES]

    def observe(name, pols, degrees, **more):
        meta = synthetic.metadata(positions, pols=pols, channels=4, feed_angles=np.radians(degrees), **more)
        return synthetic.observe(tmp_path / f"{name}.uvh5", meta, positions, sky, integrations=1), meta

    return observe, sky


def fluxes(dirty: np.ndarray, beam: np.ndarray, places: np.ndarray, scale: float) -> np.ndarray:
    """Flux of each source from dirty images, (Stokes, y, x), side lobes of the others taken out: (source, Stokes).

    Readers take I for the mean of parallel hands, where correlators sum them.
    """
    x, y = places.T
    centre = np.array(beam.shape) // 2
    lobes = beam[y[:, None] - y + centre[0], x[:, None] - x + centre[1]]
    return np.linalg.solve(lobes, dirty[:, y, x].T) * 2 / scale


@pytest.mark.parametrize("feeds", FEEDS)
def test_wsclean_finds_the_stokes_parameters(tmp_path, observed, synthetic, feeds):
    wsclean = shutil.which("wsclean")
    if wsclean is None:
        pytest.skip("WSClean is not installed: apt-get install wsclean")
    observe, sky = observed
    path, meta = observe("sky", *FEEDS[feeds])
    ms = export(path, "ms").path
    # Padded by its default 1.2, WSClean's gridder is off by up to 4 % of a source at some layouts of the antennas.
    size = ["-size", f"{PIXELS}", f"{PIXELS}", "-scale", f"{ARCSEC}asec", "-padding", "2"]
    done = subprocess.run(
        [wsclean, "-quiet", "-j", "1", "-make-psf", *size, "-pol", "IQUV", "-weight", "natural", "-name", "out", ms],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    dirty = np.array([fits.getdata(tmp_path / f"out-{s}-image.fits")[0, 0] for s in "IQUV"])
    header = fits.getheader(tmp_path / "out-I-image.fits")
    where = WCS(header).celestial.world_to_pixel(synthetic.sky_coordinates(meta.phase_centre, sky))
    places = np.rint(np.array(where).T).astype(int)
    assert np.abs(np.array(where).T - places).max() < 0.02
    found = fluxes(dirty, fits.getdata(tmp_path / "out-psf.fits")[0, 0], places, synthetic.SCALE)
    assert found == pytest.approx(np.array([s.stokes for s in sky]), abs=0.008)


#: Images and beams of Measurement Sets, and of UVFITS files through importuvfits, as CASA makes them.
IMAGING = f"""
from casatasks import applycal, importuvfits, tclean
from casatools import image
import numpy as np

answer, ia = {{}}, image()
def make(ms, column='data'):
    tclean(vis=ms, imagename=ms + '.out', datacolumn=column, imsize={PIXELS}, cell='{ARCSEC}arcsec', stokes='IQUV',
           weighting='natural', niter=0, gridder='standard', pblimit=-1)
    arrays = []
    for kind in ('residual', 'psf'):
        ia.open(ms + '.out.' + kind)
        arrays.append(ia.getchunk()[..., 0].transpose(2, 1, 0))
        csys = ia.coordsys()
        ia.close()
    np.savez(ms + '.npz', dirty=arrays[0], beam=arrays[1][0])
    rest = list(csys.referencevalue()['numeric'][2:])
    answer[ms] = [csys.topixel([ra, dec, *rest])['numeric'][:2].tolist() for ra, dec in places]
"""


def imaged(tmp_path, meta, synthetic, sky, answer, ms):
    """Stokes parameters of the sources in CASA's images."""
    where = np.array(answer[ms])
    places = np.rint(where).astype(int)
    assert np.abs(where - places).max() < 0.02
    with np.load(tmp_path / f"{ms}.npz") as arrays:
        return fluxes(arrays["dirty"], arrays["beam"], places, synthetic.SCALE)


def test_casa_finds_the_stokes_parameters(tmp_path, observed, synthetic, tool):
    """From both formats, and from turning feeds on the diagonals after the correction that a note of export names."""
    observe, sky = observed
    for name, (pols, degrees) in FEEDS.items():
        path, meta = observe(name, pols, degrees)
        export(path, "ms"), export(path, "uvfits")
    where = synthetic.sky_coordinates(meta.phase_centre, sky).spherical
    answer = tool(
        f"places = {np.array([where.lon.rad, where.lat.rad]).T.tolist()}\n{IMAGING}"
        f"for name in {list(FEEDS)}:\n"
        "    make(name + '.ms')\n"
        "    importuvfits(fitsfile=name + '.uvfits', vis=name + '.uvfits.ms')\n"
        "    make(name + '.uvfits.ms')\n",
        packages="casatasks, casatools",
    )
    want = np.array([s.stokes for s in sky])
    assert len(answer) == 2 * len(FEEDS)
    for ms in answer:
        assert imaged(tmp_path, meta, synthetic, sky, answer, ms) == pytest.approx(want, abs=0.02), ms


def test_casa_turns_feeds_back(tmp_path, observed, synthetic, tool, rng):
    """Feeds that turn on the sky, or differ, are right after the correction that a note of the export names."""
    observe, sky = observed
    each = rng.uniform(-180, 180, 12)
    cases = {
        "diagonal": ("xy", [45, -45]),
        "circular": ("rl", [45, 45]),
        "each": ("xy", np.stack([each, each + 90], 1)),
    }
    for name, (pols, degrees) in cases.items():
        path, meta = observe(name, pols, degrees, mount="alt-az")
        assert any("after CASA's applycal(parang=True)" in note for note in export(path, "ms").notes)
    where = synthetic.sky_coordinates(meta.phase_centre, sky).spherical
    answer = tool(
        f"places = {np.array([where.lon.rad, where.lat.rad]).T.tolist()}\n{IMAGING}"
        f"for name in {list(cases)}:\n"
        "    applycal(vis=name + '.ms', gaintable=[], parang=True)\n"
        "    make(name + '.ms', 'corrected')\n",
        packages="casatasks, casatools",
    )
    turn = synthetic.field_rotation(meta, meta.midpoint(0, round(60 * 64e6 / meta.spectrum_samples)), fixed=False)
    assert abs(np.sin(turn)) > 0.1
    i, q, u, v = np.array([s.stokes for s in sky]).T
    linear = (q + 1j * u) * np.exp(2j * turn)  # the synthetic feeds stand still where the file says that they turn
    for ms in answer:
        found = imaged(tmp_path, meta, synthetic, sky, answer, ms)
        assert found == pytest.approx(np.array([i, linear.real, linear.imag, v]).T, abs=0.02), ms
