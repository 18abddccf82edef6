from __future__ import annotations

import numpy as np
import pytest
from pyuvdata import utils

from ryle.array.geometry import Location


def test_hand_computed_positions() -> None:
    np.testing.assert_allclose(Location(0, 0).itrf, [6378137, 0, 0], atol=1e-9)
    np.testing.assert_allclose(Location(0, 90, 1000).itrf, [0, 6379137, 0], atol=1e-9)
    np.testing.assert_allclose(Location(90, 0).itrf, [0, 0, 6356752.314245], atol=1e-6)
    # On the equator at Greenwich: east is +y, north is +z, up is +x.
    np.testing.assert_allclose(Location(0, 0).enu_to_offsets([1, 2, 3]), [3, 1, 2], atol=1e-15)
    # At 45° N, 90° E: up is (0, 1, 1)/√2, north is (0, −1, 1)/√2, east is −x.
    half = np.sqrt(0.5)
    np.testing.assert_allclose(Location(45, 90).enu_basis, [[-1, 0, 0], [0, -half, half], [0, half, half]], atol=1e-15)


def test_agrees_with_pyuvdata(rng: np.random.Generator) -> None:
    for _ in range(10):
        location = Location(rng.uniform(-90, 90), rng.uniform(-180, 360), rng.uniform(-100, 5500))
        enu = rng.normal(0, 5000, (20, 3))
        latitude, longitude = np.radians(location.latitude), np.radians(location.longitude)
        expected = utils.ECEF_from_ENU(enu, latitude=latitude, longitude=longitude, altitude=location.height)
        np.testing.assert_allclose(location.enu_to_itrf(enu), expected, atol=1e-8)
        np.testing.assert_allclose(location.itrf_to_enu(expected), enu, atol=1e-8)
        np.testing.assert_allclose(location.itrf + location.enu_to_offsets(enu), expected, atol=1e-8)
        np.testing.assert_allclose(location.offsets_to_enu(location.enu_to_offsets(enu)), enu, atol=1e-11)
        earth = location.earth_location
        np.testing.assert_allclose([earth.x.value, earth.y.value, earth.z.value], location.itrf, atol=1e-8)
        again = Location.from_itrf(location.itrf)
        np.testing.assert_allclose(again.itrf, location.itrf, atol=1e-8)
        assert again.height == pytest.approx(location.height, abs=1e-6)


def test_bad_locations_are_refused() -> None:
    for arguments in [(91, 0, 0), (0, 400, 0), (0, 0, 1e6), (float("nan"), 0, 0), (0, 0, float("nan"))]:
        with pytest.raises(ValueError, match="is not in"):
            Location(*arguments)
    with pytest.raises(ValueError, match="ITRF position"):
        Location.from_itrf([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="ITRF position"):
        Location.from_itrf([6378137.0, 0.0])
