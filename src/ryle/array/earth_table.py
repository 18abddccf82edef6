"""The installed IERS table as astropy has parsed it, kept on disk.

Astropy takes a second to read it, and each process of a correlator needs it; what is kept is read in a hundredth of
that. It is named by all that it depends on (the files and the versions of who made and read them), so that it is never
out of date, and may be deleted at any time. Where nothing can be kept, or what is kept cannot be read, astropy reads
the table as it would without.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import zipfile
from pathlib import Path
from typing import Any

import astropy
import numpy as np
from astropy import units
from astropy.utils import iers

from ryle.kept import kept_folder, write_whole

_log = logging.getLogger(__name__)
_FORM = "1"  # a change of what is kept changes this
_VALUES = ("MJD", "UT1_UTC", "PM_x", "PM_y", "dX_2000A", "dY_2000A")
_FLAGS = ("UT1Flag", "PolPMFlag", "NutFlag")
_META = ("predictive_index", "predictive_mjd")
_LOOKED_AT = "looked at by ryle"
_LOCAL = "finals2000A.all"  # in the current directory it is read in place of the installed one


def use_kept_table(folder: Path | None = None) -> bool:
    """Let astropy have the table that is kept, if there is one, in place of reading the installed one.

    Parameters
    ----------
    folder : Path, optional
        Where it lies; below the user's cache if not given.

    Returns
    -------
    bool
        Whether astropy has a table now.
    """
    if iers.IERS_Auto.iers_table is None and not os.path.exists(_LOCAL):
        iers.IERS_Auto.iers_table = _read(_path(folder))
    return iers.IERS_Auto.iers_table is not None


def installed_table(folder: Path | None = None) -> Any:
    """Give the table that astropy uses, an `astropy.utils.iers.IERS`; keep it if it had to be read.

    Parameters
    ----------
    folder : Path, optional
        As of `use_kept_table`.
    """
    use_kept_table(folder)
    table = iers.earth_orientation_table.get()
    # Looked at once in a process; one that astropy has read from elsewhere, or that somebody set, is not kept.
    if table is iers.IERS_Auto.iers_table and _LOOKED_AT not in table.meta:
        table.meta[_LOOKED_AT] = True
        if table.meta.get("data_path") == iers.IERS_A_FILE:
            path = _path(folder)
            try:
                write_whole(path, _written(table))
            except OSError as error:
                _log.info("the IERS table cannot be kept in %s (%s); it is parsed at every start", path.parent, error)
    return table


def _path(folder: Path | None) -> Path:
    made_by = [_FORM, astropy.__version__, np.__version__]
    for file in (iers.IERS_A_FILE, iers.IERS_B_FILE):
        about = os.stat(file)
        made_by += [str(file), str(about.st_size), str(about.st_mtime_ns)]
    name = hashlib.sha256("\0".join(made_by).encode()).hexdigest()[:40]
    return (kept_folder("earth") if folder is None else folder) / f"iers-{name}.npz"


def _written(table: Any) -> bytes:
    about = {
        "units": {name: str(table[name].unit) for name in _VALUES},
        "meta": {name: float(table.meta[name]) for name in _META},
    }
    arrays = {name: np.asarray(table[name].value) for name in _VALUES}
    arrays |= {name: np.asarray(table[name]).astype("U1") for name in _FLAGS}
    file = io.BytesIO()
    np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _read(path: Path) -> Any:
    """Make the table of what was kept; None if there is nothing, or not what was written."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            about = json.loads(str(kept["about"]))
            columns = {name: kept[name] * units.Unit(about["units"][name]) for name in _VALUES}
            columns |= {name: kept[name] for name in _FLAGS}
            meta = {name: about["meta"][name] for name in _META}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        _log.info("%s is damaged (%s); the installed table is read", path, error)
        return None
    table = iers.IERS_Auto(columns)
    table.meta |= meta | {"predictive_index": int(meta["predictive_index"])}
    table.meta |= {"data_path": iers.IERS_A_FILE, "readme_path": iers.IERS_A_README, _LOOKED_AT: True}
    return table
