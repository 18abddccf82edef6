"""Where things are in a UVH5 file: its rows, and all of it but what integrations bring.

Reference: pyuvdata memo "UVH5 file format", version 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ryle.products.cuts import chunk_shape
from ryle.products.metadata import AIPS_POLARIZATIONS, ObservationMetadata

#: Datasets of a row for each baseline and integration.
ROWS = (
    "time_array",
    "integration_time",
    "lst_array",
    "uvw_array",
    "ant_1_array",
    "ant_2_array",
    "phase_center_id_array",
    "phase_center_app_ra",
    "phase_center_app_dec",
    "phase_center_frame_pa",
)
#: Level of compression of what hardly changes: flags and numbers of samples.
DEFLATE = 1


@dataclass(frozen=True)
class Rows:
    """How the products of an integration become rows of the file.

    Parameters
    ----------
    antenna_1, antenna_2 : ndarray of int64, shape (baseline,)
        Antenna numbers.
    polarizations : ndarray of int64, shape (polarization,)
        AIPS numbers, in the order of the file.
    product : ndarray of int64, shape (baseline, polarization)
        The internal product of each.
    sign : ndarray of int64, shape (baseline,)
        What its imaginary part is multiplied by.
    """

    antenna_1: NDArray[np.int64]
    antenna_2: NDArray[np.int64]
    polarizations: NDArray[np.int64]
    product: NDArray[np.int64]
    sign: NDArray[np.int64]

    @classmethod
    def of(cls, metadata: ObservationMetadata) -> Rows:
        """Find the rows of an observation."""
        feeds = metadata.polarizations
        p = len(feeds)
        pairs = sorted(
            ((i, j) for i in range(p) for j in range(p)),
            key=lambda pair: -AIPS_POLARIZATIONS[feeds[pair[0]] + feeds[pair[1]]],
        )
        first, second = np.array(pairs).T
        a2, a1 = np.tril_indices(metadata.antennas)  # index a2(a2+1)/2 + a1
        numbers = np.array(metadata.antenna_numbers)
        # Internally x(a1)·conj(x(a2)). A row that starts with a2 is its conjugate, first and second feed exchanged.
        swapped = (numbers[a1] > numbers[a2])[:, np.newaxis]
        feed_of_a1, feed_of_a2 = np.where(swapped, second, first), np.where(swapped, first, second)
        product = p * p * np.arange(a1.size)[:, np.newaxis] + feed_of_a1 + p * feed_of_a2
        # In a lower sideband the spectra are conjugates of the sky's: that undoes the file's conjugation of (a1, a2).
        sign = np.where(swapped[:, 0], 1, -1) * metadata.sideband
        return cls(
            antenna_1=np.minimum(numbers[a1], numbers[a2]),
            antenna_2=np.maximum(numbers[a1], numbers[a2]),
            polarizations=np.array([AIPS_POLARIZATIONS[feeds[i] + feeds[j]] for i, j in pairs]),
            product=product,
            sign=sign,
        )


def create(file: h5py.File, meta: ObservationMetadata, rows: Rows) -> None:
    """Write all of the header that does not grow, and the empty columns and arrays that do.

    Parameters
    ----------
    file : h5py.File
        New and open for writing.
    meta : ObservationMetadata
        What the header says.
    rows : Rows
        Those of `meta`.
    """
    location = meta.location
    baselines, polarizations = rows.product.shape
    assert meta.feed_angles is not None
    fixed: dict[str, Any] = {
        "version": np.bytes_("1.2"),
        "telescope_frame": np.bytes_("itrs"),
        "latitude": location.lat.deg,
        "longitude": location.lon.deg,
        "altitude": location.height.to_value("m"),
        "telescope_name": np.bytes_(meta.telescope.encode()),
        "instrument": np.bytes_(meta.instrument.encode()),
        "Nants_telescope": meta.antennas,
        "Nants_data": meta.antennas,
        "antenna_names": np.array([name.encode() for name in meta.antenna_names]),
        "antenna_numbers": np.array(meta.antenna_numbers),
        "antenna_positions": meta.antenna_positions,
        "Nfeeds": len(meta.polarizations),
        "feed_array": np.array([[p.encode() for p in meta.polarizations]] * meta.antennas),
        "feed_angle": meta.feed_angles,
        "mount_type": np.array([meta.mount.encode()] * meta.antennas),
        "Nbls": baselines,
        "Nblts": 0,
        "Ntimes": 0,
        "Nfreqs": meta.channels,
        "Npols": polarizations,
        "Nspws": 1,
        "spw_array": np.array([0]),
        "flex_spw_id_array": np.zeros(meta.channels, np.int64),
        "freq_array": meta.frequencies[:: meta.sideband],
        "channel_width": np.full(meta.channels, meta.channel_width),
        "polarization_array": rows.polarizations,
        "vis_units": np.bytes_(meta.vis_units),
        "timesys": np.bytes_("UTC"),
        "Nphase": 1,
        "blts_are_rectangular": True,
        "time_axis_faster_than_bls": False,
        "history": np.bytes_(meta.history.encode()),
    }
    if meta.x_orientation is not None:  # feed_array and feed_angle say as much; older readers look for this
        fixed["x_orientation"] = np.bytes_(meta.x_orientation)
    if meta.antenna_diameters is not None:
        fixed["antenna_diameters"] = np.array(meta.antenna_diameters)
    if meta.vis_units != "uncalib":  # pyuvdata allows the header item for calibrated data only
        fixed["pol_convention"] = np.bytes_(meta.pol_convention)
    header = file.create_group("Header")
    for name, value in fixed.items():
        header[name] = value
    catalog = header.create_group("phase_center_catalog").create_group("0")
    for name, value in _catalog_entry(meta).items():
        catalog[name] = np.bytes_(value.encode()) if isinstance(value, str) else value
    keywords = header.create_group("extra_keywords")
    for name, value in {"stokconv": meta.pol_convention, **meta.extra_keywords}.items():
        keywords[name] = np.bytes_(value.encode()) if isinstance(value, str) else value
    own = file.create_group("Ryle")
    own["observation"] = meta.observation
    own.create_dataset("first_spectrum", (0,), np.int64, maxshape=(None,), chunks=(1024,))

    many = baselines * max(1, 1024 // baselines)
    for name in ("time_array", "integration_time", "lst_array", "phase_center_app_ra", "phase_center_app_dec"):
        header.create_dataset(name, (0,), np.float64, maxshape=(None,), chunks=(many,))
    header.create_dataset("phase_center_frame_pa", (0,), np.float64, maxshape=(None,), chunks=(many,))
    for name in ("ant_1_array", "ant_2_array", "phase_center_id_array"):
        header.create_dataset(name, (0,), np.int64, maxshape=(None,), chunks=(many,))
    header.create_dataset("uvw_array", (0, 3), np.float64, maxshape=(None, 3), chunks=(many, 3))

    chunks = chunk_shape(baselines, polarizations, meta.channels)
    shape, limit = (0, meta.channels, polarizations), (None, meta.channels, polarizations)
    data = file.create_group("Data")
    data.create_dataset("visdata", shape, np.complex64, maxshape=limit, chunks=chunks)
    for name, kind in (("flags", np.bool_), ("nsamples", np.float32)):
        data.create_dataset(
            name, shape, kind, maxshape=limit, chunks=chunks, compression="gzip", compression_opts=DEFLATE
        )


def _catalog_entry(meta: ObservationMetadata) -> dict[str, Any]:
    centre = meta.phase_centre
    if centre is None:
        return {
            "cat_name": "unprojected",
            "cat_type": "unprojected",
            "cat_lon": 0.0,
            "cat_lat": np.pi / 2,
            "cat_frame": "altaz",
            "info_source": "user",
        }
    return {
        "cat_name": centre.name,
        "cat_type": "sidereal",
        "cat_lon": centre.ra % (2 * np.pi),
        "cat_lat": centre.dec,
        "cat_frame": "icrs",
        "cat_epoch": 2000.0,
        "info_source": "user",
    }
