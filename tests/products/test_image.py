"""Images: an asymmetric sky comes out where it is, upright and unmirrored, from UVH5 and MS, both sidebands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS

from ryle.products.clean import clean
from ryle.products.export import export
from ryle.products.image import fit_beam, make_image, read_visibilities
from ryle.products.sources import find_sources
from ryle.products.stokes import stokes


def field(tmp_path, synthetic, rng, *, sideband=1, sources=None, antennas=14, **more):
    positions = synthetic.spiral(antennas, rng, 250.0)
    meta = synthetic.metadata(positions, sideband=sideband, channels=8, **more)
    path = synthetic.observe(
        tmp_path / "sky.uvh5", meta, positions, sources or synthetic.ASYMMETRIC, integrations=6, seconds=600.0
    )
    return path, meta


@pytest.mark.parametrize("sideband", [1, -1])
def test_sources_come_out_where_they_are(tmp_path, synthetic, rng, sideband):
    path, meta = field(tmp_path, synthetic, rng, sideband=sideband)
    truth = synthetic.sky_coordinates(meta.phase_centre, synthetic.ASYMMETRIC)
    for source in (path, export(path, "ms").path):
        image = make_image(source, pixels=256)
        found = find_sources(image, most=3).sources
        assert len(found) == 3
        for k, (want, got) in enumerate(zip(truth, found, strict=True)):  # by flux
            assert got.position.separation(want).rad < 0.1 * image.beam.minor
            assert got.flux / synthetic.SCALE == pytest.approx(synthetic.ASYMMETRIC[k].stokes[0], rel=0.05)


def test_the_dirty_image_is_the_direct_sum(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng, antennas=5)
    image = make_image(path, pixels=32, pixel=4e-4)
    data, _ = read_visibilities(path)
    cross = data.ant_1_array != data.ant_2_array
    vis = (data.data_array[..., 0] + data.data_array[..., 1])[cross]
    uvw = data.uvw_array[cross]
    for y, x in ((0, 0), (3, 29), (16, 15), (31, 7), (20, 20)):
        l, m = (15 - x) * 4e-4, (y - 16) * 4e-4
        turn = (uvw @ [l, m, np.sqrt(1 - l * l - m * m) - 1])[:, None] * data.freq_array / synthetic.C
        assert image.dirty[y, x] == pytest.approx((vis * np.exp(-2j * np.pi * turn)).real.mean(), rel=1e-4, abs=10)
        sky = image.wcs.pixel_to_world(x, y)
        want = synthetic.sky_coordinates(
            synthetic.PhaseCentre("f", np.deg2rad(118), np.deg2rad(-25)), [synthetic.Source(l, m, (1, 0, 0, 0))]
        )[0]
        assert sky.separation(want).rad < 1e-9
    assert image.psf[32, 32] == pytest.approx(1) and image.psf.max() == pytest.approx(1)


def test_fits_image_has_true_axes_and_beam(tmp_path, synthetic, rng):
    path, meta = field(tmp_path, synthetic, rng)
    image = make_image(path, pixels=128)
    written = image.write_fits(tmp_path / "sky.fits")
    with fits.open(written) as hdus:
        header, data = hdus[0].header, hdus[0].data
        assert data == pytest.approx(image.dirty, abs=1)
        y, x = np.unravel_index(data.argmax(), data.shape)
        want = synthetic.sky_coordinates(meta.phase_centre, synthetic.ASYMMETRIC)[0]
        assert WCS(header).pixel_to_world(x, y).separation(want).rad < image.pixel
        assert np.deg2rad(header["BMAJ"]) == pytest.approx(image.beam.major)
        assert header["CDELT1"] < 0 < header["CDELT2"]
    with pytest.raises(OSError, match="overwrite"):
        image.write_fits(written)


@pytest.mark.parametrize("pols", ["xy", "yx", "rl"])
@pytest.mark.parametrize("mount", ["equatorial", "alt-az", "fixed"])
def test_stokes_parameters(tmp_path, synthetic, rng, pols, mount):
    """One polarized source at the phase centre; feeds of turning mounts are turned by the test's own geometry."""
    want = (1.0, 0.3, -0.2, 0.15)
    positions = synthetic.enu(4, rng, 120.0)
    meta = synthetic.metadata(
        positions, pols=pols, channels=4, mount=mount, feed_angles=np.array([0.3, 0.3 + np.pi / 2]) * (pols != "rl")
    )
    path = synthetic.observe(tmp_path / "a.uvh5", meta, positions, [synthetic.Source(0, 0, want)], integrations=1)
    data, _ = read_visibilities(path)
    got = [complex(stokes(data, p)[0][data.ant_1_array != data.ant_2_array].mean()) / synthetic.SCALE for p in "IQUV"]
    turn = 0.0
    if mount != "equatorial":
        spectra = round(60 * 64e6 / meta.spectrum_samples)
        turn = synthetic.field_rotation(meta, meta.midpoint(0, spectra), fixed=mount == "fixed")
    # The synthetic feeds stand at their angles from ICRS north: what is called Q and U turns with the mount.
    linear = (want[1] + 1j * want[2]) * np.exp(2j * turn)
    assert got == pytest.approx([want[0], linear.real, linear.imag, want[3]], abs=2e-3)


def test_weightings_differ_as_they_should(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng)
    beams = {
        w: make_image(path, pixels=128, weighting=w, robust=r).beam
        for w, r in (("natural", 0), ("uniform", 0), ("robust", 0.0))
    }
    near_natural = make_image(path, pixels=128, weighting="robust", robust=5.0).beam
    assert beams["uniform"].major < beams["natural"].major
    assert beams["uniform"].major <= beams["robust"].major * 1.05 <= beams["natural"].major * 1.05
    assert near_natural.major == pytest.approx(beams["natural"].major, rel=1e-3)


def test_flagged_data_do_not_matter(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng)
    data, _ = read_visibilities(path)
    lost = rng.random(data.flag_array.shape) < 0.2
    data.flag_array |= lost
    clean_image = make_image(data, pixels=64)
    data.data_array[lost] = 1e9 * (1 + 2j)
    assert make_image(data, pixels=64).dirty == pytest.approx(clean_image.dirty, abs=1)
    data.flag_array[:] = True
    with pytest.raises(ValueError, match="flagged"):
        make_image(data, pixels=64)


def test_unprojected_files_are_imaged_at_the_zenith_of_mid_file(tmp_path, synthetic, rng):
    positions = synthetic.spiral(14, rng, 125.0)
    meta = synthetic.metadata(positions, channels=8, tracked=False)
    zenith = synthetic.zenith(meta, meta.midpoint(0, round(60 * 64e6 / 16)))
    path = tmp_path / "a.uvh5"
    synthetic.observe(path, meta, positions, synthetic.ASYMMETRIC, integrations=1, follow=zenith)
    image = make_image(path, pixels=256)
    assert any("zenith at mid-file" in note for note in image.notes)
    truth = synthetic.sky_coordinates(zenith, synthetic.ASYMMETRIC)
    for want, got in zip(truth, find_sources(image, most=3).sources, strict=True):
        assert got.position.separation(want).rad < 0.1 * image.beam.minor


#: Antennas of `ryle demo`, east and north in metres: a snapshot whose side lobes reach 0.8 of the peak.
DEMO = ((52.1, 19), (-106.6, 44.1), (64.9, -139.1), (55.2, 175.3), (-181.7, -105), (227.5, -50.3), (-145.9, 207.9))
DEMO = (*DEMO, (-35.4, -271.1), (223.1, 187.6), (-308.3, 13.1))


def noisy(path, synthetic, rng, sigma):
    """Visibilities of a file with noise of so many janskys in each real and imaginary part."""
    data, _ = read_visibilities(path)
    noise = rng.normal(size=(2, *data.data_array.shape)) * sigma * synthetic.SCALE
    data.data_array = data.data_array + noise[0] + 1j * noise[1]
    return data


@pytest.mark.parametrize("array", ["demo", "thirty", "track"])
def test_sources_are_found_and_side_lobes_are_not(tmp_path, synthetic, rng, array):
    """Random skies: all that stands out is found where it is, and nothing that is not there.

    Where another sky, beside side lobes, explains as much, sources are rightly left out: of one sky of the four at most.
    """
    false = missed = 0
    for _ in range(4):
        positions = {
            "demo": np.array([(*place, 0.0) for place in DEMO]),
            "thirty": synthetic.spiral(30, rng, 250.0),
            "track": synthetic.spiral(12, rng, 250.0),
        }[array]
        meta = synthetic.metadata(positions, channels=8)
        places, fluxes = rng.uniform(-3e-3, 3e-3, (rng.integers(0, 4), 2)), 10 ** rng.uniform(-0.5, 0.3, 4)
        sky = [synthetic.Source(*place, (flux, 0, 0, 0)) for place, flux in zip(places, fluxes, strict=False)]
        times = {"integrations": 6, "seconds": 800.0} if array == "track" else {"integrations": 1, "seconds": 10.0}
        path = synthetic.observe(
            tmp_path / "sky.uvh5", meta, positions, sky or [synthetic.Source(0, 0, (0,) * 4)], **times
        )
        image = make_image(noisy(path, synthetic, rng, 0.1), pixels=128, pixel=7e-5)
        found = find_sources(image)
        truth = synthetic.sky_coordinates(meta.phase_centre, sky) if sky else []
        for source in found.sources:
            apart = [float(source.position.separation(where).rad) for where in truth]
            near = int(np.argmin(apart)) if apart else None
            if near is None or apart[near] > image.beam.major / 2:
                false += 1
                continue
            assert source.significance >= 5
        alone = [
            all(np.hypot(*(a - b)) > 2 * image.beam.major for j, b in enumerate(places) if j != k)
            for k, a in enumerate(places)
        ]
        seen = [any(float(s.position.separation(w).rad) < image.beam.major / 2 for s in found.sources) for w in truth]
        missed += any(a and not s for a, s in zip(alone, seen, strict=True))
    assert false == 0 and missed <= 1


def test_errors_of_sources_are_those_that_they_have(tmp_path, synthetic, rng):
    """Over many draws of noise, fluxes and positions scatter as much as is said."""
    positions = synthetic.spiral(12, rng, 250.0)
    meta = synthetic.metadata(positions, channels=4)
    sky = [synthetic.Source(4e-4, -7e-4, (1.0, 0, 0, 0))]
    path = synthetic.observe(tmp_path / "sky.uvh5", meta, positions, sky, integrations=2)
    (where,) = synthetic.sky_coordinates(meta.phase_centre, sky)
    flux, offset, more = [], [], 0
    for _ in range(40):
        found = find_sources(make_image(noisy(path, synthetic, rng, 0.5), pixels=64))
        source = min(found.sources, key=lambda s: s.position.separation(where).rad)
        more += len(found.sources) - 1  # peaks of noise
        flux.append((source.flux / synthetic.SCALE - 1) / (source.error / synthetic.SCALE))
        offset.append(float(source.position.separation(where).rad) / source.position_error)
    assert more <= 2
    assert 0.5 < np.std(flux) < 1.6 and abs(np.mean(flux)) < 0.8
    assert 0.5 < np.sqrt(np.mean(np.square(offset))) < 1.6


def test_hopeless_side_lobes_are_said(tmp_path, synthetic, rng):
    positions = np.array([[0, 0, 0], [100, 0, 0], [0, 100, 0], [100, 100, 0.0]])
    path = synthetic.observe(
        tmp_path / "a.uvh5", synthetic.metadata(positions, channels=4), positions, synthetic.ASYMMETRIC, integrations=1
    )
    found = find_sources(make_image(path, pixels=128))
    assert not found.sources and "cannot be told from side lobes" in found.notes[0]


def test_beyond_the_horizon_is_blank(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng, antennas=6)
    image = make_image(path, pixels=100, pixel=0.02)
    y, x = np.indices(image.dirty.shape)
    inside = ((49 - x) * 0.02) ** 2 + ((y - 50) * 0.02) ** 2 < 1
    assert np.array_equal(np.isnan(image.dirty), ~inside)
    assert image.place(*image.direction(3, 70)) == pytest.approx((3, 70))


def test_clean_leaves_nothing_of_point_sources(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng)
    image = make_image(path, pixels=256)
    done = clean(image, threshold=0)
    assert np.abs(done.residual).max() < 0.01 * image.dirty.max()
    assert done.components.sum() / synthetic.SCALE == pytest.approx(2.2, rel=0.1)
    assert 0 < done.iterations <= 2000


def högbom(dirty, psf, gain, iterations):
    """Residuals one after the other, until a peak is 1.5 times an earlier one or a thousandth of the first."""
    height, width = dirty.shape
    residuals, peaks = [dirty], [np.abs(dirty).max()]
    while len(residuals) <= iterations and 1e-3 * peaks[0] <= peaks[-1] < 1.5 * min(peaks):
        y, x = np.unravel_index(np.abs(residuals[-1]).argmax(), dirty.shape)
        answer = psf[height - y : 2 * height - y, width - x : 2 * width - x]
        residuals.append(residuals[-1] - gain * residuals[-1][y, x] * answer)
        peaks.append(np.abs(residuals[-1]).max())
    return residuals, peaks


@pytest.mark.parametrize("gain", [0.1, 0.5])
@pytest.mark.parametrize("error", [0.0, 0.3, 1.5, -3.0])
def test_clean_keeps_the_best_of_a_field_whose_beam_changes(tmp_path, synthetic, rng, error, gain):
    path, _ = field(tmp_path, synthetic, rng)
    image = make_image(path, pixels=64)
    # A beam whose far sidelobes are wrong, as at the edge of a wide field: subtracting it may pile up residuals.
    psf = image.psf - error * np.roll(image.psf, rng.integers(-8, 9, 2), axis=(0, 1))
    done = clean(replace(image, psf=psf), gain=gain, iterations=123, threshold=0)
    residuals, peaks = högbom(image.dirty, psf, gain, 123)
    peak = peaks[0]
    assert np.abs(done.residual).max() == pytest.approx(min(peaks), abs=1e-9 * peak)
    assert min(np.abs(done.residual - r).max() for r in residuals) < 1e-9 * peak
    # Residual and restored image are what the components make them.
    height, width = image.dirty.shape
    explained, restored = np.zeros_like(image.dirty), done.residual.copy()
    north, east = np.mgrid[:height, :width] * image.pixel
    to_major, to_minor = (np.array([np.cos(t), np.sin(t)]) for t in image.beam.angle + np.array([0, np.pi / 2]))
    for y, x in np.argwhere(done.components):
        flux = done.components[y, x]
        explained += flux * psf[height - y : 2 * height - y, width - x : 2 * width - x]
        n, e = north - north[y, x], east[y, x] - east
        along, across = (n * t[0] + e * t[1] for t in (to_major, to_minor))
        restored += flux * np.exp(-4 * np.log(2) * ((along / image.beam.major) ** 2 + (across / image.beam.minor) ** 2))
    assert image.dirty == pytest.approx(done.residual + explained, abs=1e-9 * peak)
    assert done.restored == pytest.approx(restored, abs=1e-9 * peak)
    assert np.abs(done.components).sum() <= 1.5 * gain * peak * done.iterations


def test_beam_fit_recovers_a_gaussian():
    y, x = np.mgrid[-64:64, -64:64]
    for angle in (0.2, 1.3, 2.5):
        north, east = y, -x
        along, across = east * np.sin(angle) + north * np.cos(angle), east * np.cos(angle) - north * np.sin(angle)
        beam = fit_beam(np.exp(-4 * np.log(2) * ((along / 15) ** 2 + (across / 8) ** 2)), 2.0)
        assert (beam.major, beam.minor, beam.angle) == pytest.approx((30, 16, angle), rel=1e-6)


@pytest.mark.parametrize(("options", "message"), [({"pixels": 31}, "even"), ({"pixels": 512, "pixel": 0.1}, "horizon")])
def test_bad_sizes_are_refused(tmp_path, synthetic, rng, options, message):
    path, _ = field(tmp_path, synthetic, rng, antennas=3)
    with pytest.raises(ValueError, match=message):
        make_image(path, **options)


def test_single_polarization_makes_stokes_i_only(tmp_path, synthetic, rng):
    path, _ = field(tmp_path, synthetic, rng, pols="x")
    assert find_sources(make_image(path, pixels=256)).sources[0].flux / synthetic.SCALE == pytest.approx(1, rel=0.15)
    with pytest.raises(ValueError, match="all four products"):
        make_image(path, parameter="V")
