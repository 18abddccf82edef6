"""A UVH5 file as a Measurement Set, UVFITS file or MIRIAD dataset, through pyuvdata.

pyuvdata knows the sign rules of each format: rows (a, b) of MS and UVFITS hold X_a·conj(X_b) with uvw = r_a − r_b, the
opposite of UVH5 and MIRIAD; the sky is the same in all four.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from astropy.time import Time
from pyuvdata import UVData

import ryle.array.earth  # noqa: F401  keeps astropy off the network
from ryle.products import feeds, measurement_set, uvfits
from ryle.products.provenance import Provenance
from ryle.products.readable import UVH5Error

Format = Literal["ms", "uvfits", "miriad"]

#: Ending of the files of each format.
SUFFIXES: dict[Format, str] = {"ms": ".ms", "uvfits": ".uvfits", "miriad": ".mir"}


class ExportError(RuntimeError):
    """A file could not be exported; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Exported:
    """One exported file.

    Parameters
    ----------
    path : Path
        What was written: a directory for MS and MIRIAD.
    format : str
        ``"ms"``, ``"uvfits"`` or ``"miriad"``.
    notes : tuple of str
        What the user should be told: a phase centre that had to be chosen, pyuvdata's warnings.
    """

    path: Path
    format: Format
    notes: tuple[str, ...]


def export(
    path: str | Path,
    form: Format,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    polarization: str | None = None,
    as_recorded: bool = False,
) -> Exported:
    """Write a UVH5 file in another format. All that is written is read into memory.

    Data that were not phase-tracked (``unprojected``) are phased to the zenith at mid-file for MS and UVFITS, which
    cannot hold them otherwise; the notes say so. The output appears under its name only when it is complete.

    Parameters
    ----------
    path : str or Path
        UVH5 file.
    form : {"ms", "uvfits", "miriad"}
        Format to write.
    output : str or Path, optional
        Default: the input's name with the ending of the format.
    overwrite : bool
        Replace an existing output.
    polarization : str, optional
        Only this product, one of `polarizations`, which then stands in the default name; all if absent.
    as_recorded : bool
        Leave the feeds as they were recorded, rather than call x the one to the north, as readers do
        (`ryle.products.feeds`); the notes say what was done.

    Returns
    -------
    Exported
        Where it is, and what to tell the user.

    Raises
    ------
    FileNotFoundError, FileExistsError, ValueError
        If the input is missing, the output exists and ``overwrite`` is false, or the format is unknown.
    ExportError
        If pyuvdata cannot read the input or write the output.
    """
    source = Path(path)
    if form not in get_args(Format):
        raise ValueError(f"unknown format {form!r}; choose one of {', '.join(get_args(Format))}")
    ending = SUFFIXES[form] if polarization is None else f".{polarization}{SUFFIXES[form]}"
    target = source.with_suffix(ending) if output is None else Path(output)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; give the name of a UVH5 file")
    if target.resolve() == source.resolve():
        raise ValueError(f"{target} is the input itself; choose another output")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; choose another name or allow it to be overwritten")
    partial = target.with_name(target.name + ".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove(partial)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data, notes = feeds.read(source, form, polarization, as_recorded)
            provenance = Provenance.of(source, data)
            notes += [] if form == "miriad" else phase_if_unprojected(data)
            notes += _write(data, form, partial, provenance)
    except UVH5Error:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        _remove(partial)
        raise ExportError(f"{source} cannot be written as {form} to {target}: {error}") from error
    _remove(target)
    partial.rename(target)
    heard = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return Exported(target, form, (*notes, *heard))


def _write(data: UVData, form: Format, path: Path, provenance: Provenance) -> list[str]:
    """Write one format with what pyuvdata leaves out; gives what to tell the user."""
    if form == "ms":
        measurement_set.number_from_zero(data)
        data.write_ms(str(path))
        measurement_set.finish(path, data, provenance)
        unknown = measurement_set.unknown_observatory(data.telescope.name)
        return [] if unknown is None else [unknown]
    data.history = provenance.text
    if form == "uvfits":
        uvfits.centre_on_antennas(data)
        data.write_uvfits(str(path))
        uvfits.finish(path, data, provenance)
    else:
        measurement_set.number_from_zero(data)
        data.write_miriad(str(path))
    return []


def polarizations(path: str | Path, as_recorded: bool = False) -> list[str]:
    """List the polarization products that `export` writes of a UVH5 file, such as ``["xx", "yy", "xy", "yx"]``."""
    return feeds.products(path, as_recorded)


def phase_if_unprojected(data: UVData) -> list[str]:
    """Phase data that follow no source to the zenith at mid-file, in place.

    Parameters
    ----------
    data : pyuvdata.UVData
        Visibilities.

    Returns
    -------
    list of str
        One sentence saying what was done, or nothing if the data have a phase centre.
    """
    if not any(entry["cat_type"] == "unprojected" for entry in data.phase_center_catalog.values()):
        return []
    middle = Time((np.min(data.time_array) + np.max(data.time_array)) / 2, format="jd")
    data.phase_to_time(middle, phase_frame="icrs")
    return [f"the data follow no source: they were phased to the zenith at mid-file, {middle.utc.isot} UTC"]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
