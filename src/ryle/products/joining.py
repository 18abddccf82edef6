"""What it takes to make one UVH5 file of several: what its arrays follow, that they fit, a file put there at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from ryle.products.readable import UVH5Error, damaged
from ryle.products.uvh5_layout import ROWS

#: Datasets of a value for each channel.
CHANNELS = ("freq_array", "channel_width", "flex_spw_id_array")
#: What the file's arrays read as where nobody has written.
FILL = {"visdata": 0, "nsamples": 0, "flags": True}


def check_arrays(path: Path, file: h5py.File) -> None:
    """Refuse a file whose arrays are not as long as its integrations, baselines and channels say.

    Raises
    ------
    UVH5Error
        If they are not; names the array.
    """
    if "first_spectrum" not in file.get("Ryle", {}):
        raise damaged(path, "Ryle/first_spectrum, which says which integrations it holds, is missing")
    baselines, channels = int(file["Header/Nbls"][()]), int(file["Header/Nfreqs"][()])
    firsts = file["Ryle/first_spectrum"][()]
    if np.ndim(firsts) != 1 or not np.issubdtype(firsts.dtype, np.integer) or (np.diff(firsts) <= 0).any():
        raise damaged(path, "Ryle/first_spectrum does not count up")
    rows = firsts.size * baselines
    wanted = [(f"Header/{name}", (rows,)) for name in ROWS] + [(f"Header/{name}", (channels,)) for name in CHANNELS]
    for name, shape in (*wanted, *((f"Data/{name}", (rows, channels)) for name in FILL)):
        found = getattr(file.get(name), "shape", None)
        if found is None or found[: len(shape)] != shape:
            raise damaged(path, f"{name} has shape {found}, and {firsts.size} integrations need {shape}")


def check_room(path: Path, files: Sequence[Path], overwrite: bool) -> None:
    """Refuse to join nothing, or into a file that is there.

    Raises
    ------
    UVH5Error
        If there are no files.
    FileExistsError
        If the file exists and ``overwrite`` is false.
    """
    if not files:
        raise UVH5Error(f"{path} would be a file over none; name the files that it is to join")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another name or allow it to be overwritten")


@contextmanager
def put_at_once(path: Path, kept: str) -> Iterator[h5py.File]:
    """Write a file that readers find whole or not at all, in place of an earlier one.

    Parameters
    ----------
    path : Path
        Its name, once it is whole.
    kept : str
        What is as it was if that fails, for whoever reads why.

    Raises
    ------
    UVH5Error
        If the disk refuses.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with h5py.File(new, "w") as file:
            yield file
        os.replace(new, path)
    except OSError as error:
        raise UVH5Error(f"writing {path} failed: {error}; {kept} are as they were") from error
    finally:
        new.unlink(missing_ok=True)
