"""What pyuvdata's UVFITS files need so that every reader finds the antennas where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from astropy.coordinates import EarthLocation
from astropy.io import fits
from pyuvdata import UVData

from ryle.products.provenance import Provenance


def centre_on_antennas(data: UVData) -> None:
    """Take the antennas' mean for the array's position, in place: readers do, of a file without a centre.

    Sidereal times move with it, by less than the array's size; visibilities and uvw do not.
    """
    old = np.array([axis.to_value("m") for axis in data.telescope.location.geocentric])
    mean = data.telescope.antenna_positions.mean(axis=0)
    data.telescope.antenna_positions = data.telescope.antenna_positions - mean
    data.telescope.location = EarthLocation.from_geocentric(*(old + mean), unit="m")
    data.set_lsts_from_time_array()


def finish(path: Path, data: UVData, provenance: Provenance) -> None:
    """Complete a UVFITS file that pyuvdata wrote.

    Antenna positions become geocentric, the array's centre zero. AIPS memo 117 has positions relative to a centre in a
    frame turned to its meridian, which CASA's importuvfits, for all arrays but the VLA, takes for unturned; without a
    centre there is nothing to turn, and all readers agree.

    Parameters
    ----------
    path : Path
        The file; changed in place.
    data : pyuvdata.UVData
        What was written to it.
    provenance : Provenance
        Observer and project.
    """
    centre = np.array([axis.to_value("m") for axis in data.telescope.location.geocentric])
    with fits.open(path, mode="update", memmap=True) as file:
        header, antennas = file[0].header, file["AIPS AN"]
        antennas.data["STABXYZ"] = data.telescope.antenna_positions + centre
        for axis in "XYZ":
            antennas.header[f"ARRAY{axis}"] = 0.0
        antennas.header["POLTYPE"] = ""  # a kind of leakages, of which the file has none: pyuvdata says linear ones
        if provenance.observer:
            header["OBSERVER"] = _ascii(provenance.observer)
        if provenance.project:
            header["PROJECT"] = _ascii(provenance.project)


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
