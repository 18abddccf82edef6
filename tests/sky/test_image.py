"""An asymmetric sky comes back where it is: neither axis is mirrored, in UVH5 and in MS, whatever the Nyquist zone.

Positions are found twice: from the bare definition of the visibility, with the file's own numbers (read through
pyuvdata or through casacore's tables), and by `ryle image`'s code.
"""

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.time import Time
from casacore.tables import table
from correlated import EDGE, LIGHT, arrival, correlated, observation, read

from ryle.products.export import export
from ryle.products.image import make_image
from ryle.products.sources import find_sources

CENTRE = SkyCoord("06h40m00s", "-35d00m00s")
#: East and north of the centre in arc minutes, and Jy: no symmetry maps any of them onto another.
OFFSETS = [(9.0, 4.0, 120), (-5.0, 12.0, 80), (3.0, -14.0, 50)]
ENU = np.array(
    [[0, 0, 0], [148, 31, 1], [-93, 122, -1], [-141, -67, 0.5], [52, -149, 0], [77, 88, 1], [-38, -84, -0.5],
     [118, -58, 0], [-62, 47, 1], [21, 143, 0]]
)  # fmt: skip
BEAM = LIGHT / 1.4e9 / 300


def sources():
    where = [
        CENTRE.directional_offset_by(np.arctan2(e, n) * units.rad, np.hypot(e, n) * units.arcmin) for e, n, _ in OFFSETS
    ]
    text = ",".join(
        f'{{ ra = "{p.ra.deg:.9f} deg", dec = "{p.dec.deg:.9f} deg", flux = "{flux} Jy" }}'
        for p, (*_, flux) in zip(where, OFFSETS, strict=True)
    )
    return where, f"[{text}]"


@pytest.fixture(
    scope="module", params=['lo = "1.4 GHz"', 'lo = "1.392 GHz"\nnyquist_zone = 2'], ids=["zone 1", "zone 2"]
)
def files(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("image")
    centre = (f"{CENTRE.ra.deg} deg", f"{CENTRE.dec.deg} deg")
    o = observation(ENU, sources()[1], band=request.param, phase_centre=centre, pols='["x"]', sefd=200, duration=0.2)
    correlated(o, directory)
    uvh5 = directory / "sky.uvh5"
    return {"uvh5": uvh5, "ms": export(uvh5, "ms").path}


def from_uvh5(path):
    """Phase centre, uvw, frequencies and visibilities as pyuvdata gives them: conj(X_1)·X_2 and r_2 − r_1."""
    data = read(path)
    entry = data.phase_center_catalog[0]
    assert entry["cat_frame"] == "icrs" and list(data.polarization_array) == [-5]
    jd, sign = data.time_array, -1
    rows = data.ant_1_array - 1, data.ant_2_array - 1
    return (
        (entry["cat_lon"], entry["cat_lat"]),
        jd,
        rows,
        sign,
        data.uvw_array,
        data.freq_array,
        data.data_array[..., 0],
    )


def from_ms(path):
    """The same through casacore: X_1·conj(X_2) and r_1 − r_2."""
    with (
        table(str(path), ack=False) as main,
        table(f"{path}/FIELD", ack=False) as field,
        table(f"{path}/SPECTRAL_WINDOW", ack=False) as window,
        table(f"{path}/POLARIZATION", ack=False) as polarization,
        table(f"{path}/ANTENNA", ack=False) as antennas,
    ):
        assert polarization.getcol("CORR_TYPE").tolist() == [[12]]  # YY: x is to the east
        centre = tuple(field.getcol("PHASE_DIR")[0, 0])
        names = antennas.getcol("NAME")
        rows = tuple(np.array([int(names[a][1:]) for a in main.getcol(f"ANTENNA{i}")]) for i in (1, 2))
        jd = main.getcol("TIME") / 86400 + 2400000.5
        frequencies = window.getcol("CHAN_FREQ")[0]
        return centre, jd, rows, 1, main.getcol("UVW"), frequencies, main.getcol("DATA")[..., 0]


def waves(uvw, cosines):
    """e^{+2πi(ul + vm + w(n−1))}, u, v, w in wavelengths: what a unit source makes."""
    east, north = cosines
    return np.exp(2j * np.pi * (uvw @ [east, north, np.sqrt(1 - east**2 - north**2) - 1]))


def peaks(uvw, vis):
    """(l, m) of three sources: in turn, three times, each where its correlation with the rest is greatest."""
    found: dict[int, np.ndarray] = {}
    flux = np.zeros(3)
    grid = np.arange(-60, 61) * BEAM / 5
    for turn in range(9):
        s = turn % 3
        rest = vis - sum(flux[k] * waves(uvw, p) for k, p in found.items() if k != s)
        if s not in found:
            rows = np.exp(-2j * np.pi * uvw[:, 1] * grid[:, None]) * rest
            image = np.real(rows @ np.exp(-2j * np.pi * uvw[:, :1] * grid))
            row, column = np.unravel_index(image.argmax(), image.shape)
            found[s] = np.array([grid[column], grid[row]])
        for step in (BEAM / 10, BEAM / 50):
            near = [
                [np.mean(rest * waves(uvw, found[s] + step * np.array([i, j])).conj()).real for i in (-1, 0, 1)]
                for j in (-1, 0, 1)
            ]
            gl, gm = near[1][2] - near[1][0], near[2][1] - near[0][1]
            cl, cm = (near[1][2] + near[1][0] - 2 * near[1][1]), near[2][1] + near[0][1] - 2 * near[1][1]
            found[s] = found[s] - step / 2 * np.clip([gl / cl, gm / cm], -4, 4)
        flux[s] = np.mean(rest * waves(uvw, found[s]).conj()).real
    return [found[k] for k in range(3)]


def separations(positions):
    where, _ = sources()
    return [SkyCoord(*p, unit="rad").separation(w).rad for p, w in zip(positions, where, strict=True)]


@pytest.mark.parametrize("form", ["uvh5", "ms"])
def test_sources_are_where_they_were_put(files, form):
    centre, jd, (a, b), sign, uvw, frequencies, vis = (from_uvh5 if form == "uvh5" else from_ms)(files[form])
    assert np.abs(np.array(centre) - [CENTRE.ra.rad, CENTRE.dec.rad]).max() < 1e-9
    cross = a != b
    towards = arrival(*centre, Time(np.unique(jd), format="jd"))[np.searchsorted(np.unique(jd), jd)]
    w = sign * np.sum((ENU[a] - ENU[b]) * towards, axis=1)
    np.testing.assert_allclose(uvw[:, 2], w, atol=2e-3)
    good = slice(EDGE, len(frequencies) - EDGE, 4)
    scaled = (uvw[cross, None] * frequencies[good, None] / LIGHT).reshape(-1, 3)
    found = []
    for east, north in peaks(scaled, vis[cross, good].ravel()):
        # From direction cosines to the sphere, by definition of east and north at the centre.
        ra, dec = centre
        n = np.sqrt(1 - east**2 - north**2)
        found.append(
            (
                ra + np.arctan2(east, n * np.cos(dec) - north * np.sin(dec)),
                np.arcsin(north * np.cos(dec) + n * np.sin(dec)),
            )
        )
    assert max(separations(found)) < BEAM / 10
    # Mirrored, they would be far away.
    for flip in ((-1, 1), (1, -1), (-1, -1)):
        mirrored = [(centre[0] + flip[0] * (p[0] - centre[0]), centre[1] + flip[1] * (p[1] - centre[1])) for p in found]
        assert min(separations(mirrored)) > 2 * BEAM


@pytest.mark.parametrize("form", ["uvh5", "ms"])
def test_ryle_image_shows_them_there(files, form):
    image = make_image(files[form], pixels=256, threads=1)
    found = find_sources(image, most=3).sources
    assert max(separations([(s.position.ra.rad, s.position.dec.rad) for s in found])) < image.beam.minor / 10
