"""A snapshot is the dirty image of the file's visibilities, in either sideband, and shows sources where they are."""

import numpy as np
import pytest

from glances import glance_of, noise
from ryle.config import changed
from ryle.products.image import make_image
from ryle.watch.snapshot import snapshot
from seen import demo, glances_of

SKY = [{"name": "S", "ra": "07h00m40s", "dec": "-29d52m00s", "flux": "100 Jy"}]


@pytest.mark.parametrize("sideband", ["upper", "lower"])
def test_it_is_the_image_of_the_file(tmp_path, sideband):
    o = demo("0.3 s", band={"sideband": sideband}, simulate={"sources": SKY})
    path, glances = glances_of(o, tmp_path)
    from pyuvdata import UVData

    data = UVData()
    data.read(str(path))
    data.select(times=[np.unique(data.time_array)[0]])
    whole = make_image(data, pixels=128)
    seen = snapshot(o, glances[0], 128, whole.pixel)
    peak = np.nanmax(whole.dirty)
    np.testing.assert_allclose(seen.dirty, whole.dirty, atol=0.01 * peak)
    y, x = np.unravel_index(np.nanargmax(seen.dirty), seen.dirty.shape)
    # 10 m of right ascension to the east, 8' to the north.
    east, north = np.radians(15 * 40 / 3600) * np.cos(np.radians(29.87)), np.radians(8 / 60)
    assert abs((63 - x) * seen.pixel - east) < 2 * seen.pixel and abs((y - 64) * seen.pixel - north) < 2 * seen.pixel
    assert seen.object == "demo field" and abs(seen.frequency - o.centre_frequency) < 0.1e6
    assert abs(seen.ra - np.radians(105)) < 1e-9 and seen.time.isot.startswith("2026-03-20T20:00:00.1")
    assert snapshot(o, glances[0]).dirty.shape == (128, 128)  # a pixel of its own


def test_part_of_the_band_and_antennas_that_are_missing(tmp_path):
    o = demo("0.3 s", simulate={"sources": SKY})
    _, (glance, *_) = glances_of(o, tmp_path)
    glance.coarse[5:9] = np.nan
    seen = snapshot(o, glance)
    assert np.isfinite(seen.dirty).all() and seen.dirty.max() > 5 * seen.dirty.std()


def test_what_is_no_image():
    o = demo()
    random = np.random.default_rng(1)
    glance = glance_of(noise(random, 10, 2, 4, 64), parts=2)
    with pytest.raises(ValueError, match="phase_centre"):
        snapshot(o.model_copy(update={"phase_centre": None}), glance)
    with pytest.raises(ValueError, match="even"):
        snapshot(o, glance, pixels=33)
    nothing = glance_of(noise(random, 10, 2, 4, 64), np.zeros((10, 2, 64), bool), parts=2)
    with pytest.raises(ValueError, match="has come"):
        snapshot(o, nothing)
    one = changed(o, array={"antennas": [o.antennas[0].model_dump()]})
    with pytest.raises(ValueError, match="one antenna"):
        snapshot(one, glance_of(noise(random, 1, 2, 4, 64)))
