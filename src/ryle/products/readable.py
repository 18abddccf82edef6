"""Whether a file is one of visibilities, in words, before anything trusts it: not cut, of another kind, or absurd."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ryle.problems import of_system
from ryle.products.metadata import AIPS_POLARIZATIONS

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_YEARS = (2_400_000.5, 2_500_000.5)  # Julian dates between which radio astronomy has data, and times have names


class UVH5Error(OSError):
    """A visibility file could not be written or read; the message says what is left and what to do."""

    usage = False


def no_uvh5(path: Path, why: str) -> UVH5Error:
    """Make the error that a file is not of visibilities."""
    error = UVH5Error(f"{path} {why}; name a UVH5 file, such as `ryle run` writes")
    error.usage = True
    return error


def damaged(path: Path, why: str) -> UVH5Error:
    """Make the error that a file of visibilities contradicts itself."""
    return UVH5Error(f"{path} is damaged or not of visibilities: {why}; use another copy of it")


def open_uvh5(path: Path) -> h5py.File:
    """Open a UVH5 file to read it.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    UVH5Error
        If it is none, or cut short; says what to do. A file that is not understood is never said to be worthless.
    """
    if path.is_dir():
        raise no_uvh5(path, "is a directory, not a UVH5 file")
    try:
        with path.open("rb") as file:
            start = file.read(len(_SIGNATURE))
    except OSError as error:
        raise UVH5Error(of_system(error)) from None
    if start != _SIGNATURE:
        raise no_uvh5(path, "is empty" if not start else "is no HDF5 file, so it is no UVH5 file")
    try:
        found = h5py.File(path, "r")
    except (OSError, RuntimeError, ValueError) as error:
        if "truncated" in str(error):
            size = path.stat().st_size
            why = f"is cut short: {size} bytes are there and its index says that there were more"
            raise UVH5Error(f"{path} {why}; copy it anew from where it was written") from None
        raise damaged(path, f"HDF5 finds that {_first_line(error)}") from None
    if not all(isinstance(found.get(name), h5py.Group) for name in ("Header", "Data")):
        found.close()
        raise no_uvh5(path, "is an HDF5 file without the groups Header and Data of UVH5")
    return found


def check_uvh5(path: Path, file: h5py.File) -> None:
    """See that an open file holds what its pictures need, in the shapes and types that UVH5 has.

    Raises
    ------
    UVH5Error
        That names the first dataset that is absent or wrong.
    """
    times = _numbers(path, file, "Header/time_array", (None,))
    frequencies = _numbers(path, file, "Header/freq_array", (None,))
    products = _numbers(path, file, "Header/polarization_array", (None,))
    rows = len(times)
    if rows and not ((times > _YEARS[0]) & (times < _YEARS[1])).all():
        raise damaged(path, "Header/time_array has values that are no Julian dates of our time")
    if not len(frequencies) or not (np.isfinite(frequencies) & (frequencies > 0)).all():
        raise damaged(path, "Header/freq_array has no frequencies")
    if unknown := set(products.tolist()) - set(AIPS_POLARIZATIONS.values()):
        raise damaged(path, f"Header/polarization_array has {sorted(unknown)[0]}, which is no product of two feeds")
    numbers = _numbers(path, file, "Header/antenna_numbers", (None,))
    for name in ("ant_1_array", "ant_2_array"):
        if absent := set(_numbers(path, file, f"Header/{name}", (rows,)).tolist()) - set(numbers.tolist()):
            raise damaged(path, f"Header/{name} has {sorted(absent)[0]}, which is no antenna of Header/antenna_numbers")
    _numbers(path, file, "Header/integration_time", (rows,))
    _numbers(path, file, "Header/channel_width", None)
    if not np.isfinite(_numbers(path, file, "Header/uvw_array", (rows, 3))).all():
        raise damaged(path, "Header/uvw_array has values that are no lengths")
    for name in ("visdata", "flags", "nsamples"):
        _dataset(path, file, f"Data/{name}", (rows, len(frequencies), len(products)))
    _dataset(path, file, "Header/antenna_names", (len(numbers),))
    catalog = file.get("Header/phase_center_catalog")
    entry = catalog[next(iter(catalog))] if isinstance(catalog, h5py.Group) and len(catalog) else None
    if not isinstance(entry, h5py.Group) or not {"cat_name", "cat_type"} <= entry.keys():
        raise damaged(path, "Header/phase_center_catalog names no source")


def _dataset(path: Path, file: h5py.File, name: str, shape: tuple[int | None, ...] | None) -> h5py.Dataset:
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise damaged(path, f"{name} is missing" if found is None else f"{name} is no array")
    have = found.shape
    if shape is not None and (
        have is None or len(have) != len(shape) or any(s not in (None, h) for s, h in zip(shape, have, strict=True))
    ):
        wanted = ", ".join("n" if s is None else str(s) for s in shape)
        raise damaged(path, f"{name} has shape {have}, where the header makes it ({wanted})")
    return found


def _numbers(path: Path, file: h5py.File, name: str, shape: tuple[int | None, ...] | None) -> NDArray[Any]:
    found = _dataset(path, file, name, shape)
    if found.dtype.kind not in "iuf":
        raise damaged(path, f"{name} holds no numbers")
    return np.asarray(found[()])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Read a UVH5 file by a library's means, which damage upsets in many ways.

    Raises
    ------
    UVH5Error
        If the file is none, or the library fails; with the first line of what that says.
    """
    if not (path.is_dir() and any(path.glob("table.dat"))):  # a MeasurementSet
        open_uvh5(path).close()
    try:
        yield
    except UVH5Error:
        raise
    except Exception as error:
        words = _first_line(error).split(". Please file")[0].rstrip(".")  # it would have this reported to itself
        raise damaged(path, words.strip("'\"")[:300]) from error
