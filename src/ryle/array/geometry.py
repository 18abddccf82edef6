"""Where antennas are: WGS84, geocentric ITRF, and local east-north-up coordinates about the array's reference point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import erfa
import numpy as np
from astropy import units
from astropy.coordinates import EarthLocation
from numpy.typing import ArrayLike, NDArray

_WGS84 = 1


@dataclass(frozen=True)
class Location:
    """The array's reference point, on the WGS84 ellipsoid.

    Parameters
    ----------
    latitude, longitude : float
        Geodetic latitude (north positive) and longitude (east positive), degrees.
    height : float
        Metres above the ellipsoid.

    Raises
    ------
    ValueError
        If an angle is out of range or a value is not finite.
    """

    latitude: float
    longitude: float
    height: float = 0.0

    def __post_init__(self) -> None:
        if not -90 <= self.latitude <= 90:
            raise ValueError(f"latitude {self.latitude!r} is not in −90…90 degrees")
        if not -360 <= self.longitude <= 360:
            raise ValueError(f"longitude {self.longitude!r} is not in −360…360 degrees (east is positive)")
        if not -12e3 < self.height < 100e3:
            raise ValueError(f"height {self.height!r} is not in −12000…100000 metres above the WGS84 ellipsoid")

    @classmethod
    def from_itrf(cls, itrf: ArrayLike) -> Location:
        """Location of a geocentric ITRF position in metres, shape (3,).

        Raises
        ------
        ValueError
            If the position is not near the surface of the Earth.
        """
        xyz = np.asarray(itrf, np.float64)
        if xyz.shape != (3,) or not 6.3e6 < np.linalg.norm(xyz) < 6.5e6:
            raise ValueError(
                f"ITRF position {xyz.tolist()} is not three metres-from-geocentre near the Earth's surface"
            )
        longitude, latitude, height = erfa.gc2gd(_WGS84, xyz)
        return cls(float(np.degrees(latitude)), float(np.degrees(longitude)), float(height))

    @cached_property
    def itrf(self) -> NDArray[np.float64]:
        """Geocentric ITRF position in metres, shape (3,)."""
        return np.asarray(erfa.gd2gc(_WGS84, np.radians(self.longitude), np.radians(self.latitude), self.height))

    @cached_property
    def enu_basis(self) -> NDArray[np.float64]:
        """Unit vectors east, north and up (rows) in ITRF, shape (3, 3)."""
        lon, lat = np.radians(self.longitude), np.radians(self.latitude)
        return np.array(
            [
                [-np.sin(lon), np.cos(lon), 0.0],
                [-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)],
                [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)],
            ]
        )

    @property
    def earth_location(self) -> EarthLocation:
        """The same point for astropy and pyuvdata."""
        return EarthLocation.from_geodetic(
            self.longitude * units.deg, self.latitude * units.deg, self.height * units.m, ellipsoid="WGS84"
        )

    def enu_to_offsets(self, enu: ArrayLike) -> NDArray[np.float64]:
        """Rotate east-north-up positions to ITRF offsets from the reference point, metres, shape (..., 3).

        These offsets are what UVH5 calls ``antenna_positions``.
        """
        return np.asarray(np.asarray(enu, np.float64) @ self.enu_basis)

    def offsets_to_enu(self, offsets: ArrayLike) -> NDArray[np.float64]:
        """Rotate ITRF offsets from the reference point to east-north-up, metres, shape (..., 3)."""
        return np.asarray(np.asarray(offsets, np.float64) @ self.enu_basis.T)

    def enu_to_itrf(self, enu: ArrayLike) -> NDArray[np.float64]:
        """Geocentric ITRF positions of east-north-up positions, metres, shape (..., 3)."""
        return self.itrf + self.enu_to_offsets(enu)

    def itrf_to_enu(self, itrf: ArrayLike) -> NDArray[np.float64]:
        """East-north-up positions of geocentric ITRF positions, metres, shape (..., 3)."""
        return self.offsets_to_enu(np.asarray(itrf, np.float64) - self.itrf)
