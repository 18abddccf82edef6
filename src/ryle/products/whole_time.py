"""One UVH5 file of those of parts of an observation, one behind the other: what one run would have written.

Compressed blocks are copied as they are, so that joining takes the time of a copy and the memory of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ryle.products.joining import FILL, check_arrays, check_room, put_at_once
from ryle.products.readable import UVH5Error, open_uvh5
from ryle.products.uvh5_layout import ROWS

_SIZES = ("Nblts", "Ntimes")
#: What is counted of inputs: of the whole it is what all parts have counted together.
_COUNTED = ("adc_histogram", "adc_samples", "adc_power", "spectra_values", "spectra_saturated")


def join_times(path: Path, parts: Sequence[Path], *, overwrite: bool = False) -> int:
    """Make one file of those of parts of an observation, which are not needed any more then.

    Parameters
    ----------
    path : Path
        File to make.
    parts : sequence of Path
        Complete files of `ryle.config.part` of one observation, in order of time; each may be empty.
    overwrite : bool
        Replace an existing file, at once: readers find the old one or the new one.

    Returns
    -------
    int
        Integrations that it has.

    Raises
    ------
    FileExistsError
        If the file exists and ``overwrite`` is false.
    UVH5Error
        If a part cannot be read, is of another observation or Ryle, or is out of order; says which.
    """
    check_room(path, parts, overwrite)
    with put_at_once(path, "the parts") as file:
        for number, part in enumerate(parts):
            with open_uvh5(part) as found:
                try:
                    check_arrays(part, found)
                    if number == 0:
                        _begin(file, found)
                    else:
                        _fits(part, file, found)
                    _append(file, found)
                    _add(file["Ryle"], found["Ryle"])
                except (KeyError, IndexError, TypeError) as error:
                    raise UVH5Error(f"{path} cannot be made: the header of {part} is damaged ({error})") from error
        integrations = int(file["Ryle/first_spectrum"].size)
        if not integrations:  # one run would have had nothing to write
            for name in set(file["Ryle"]) - {"observation", "first_spectrum"}:
                del file["Ryle"][name]
    return integrations


def _begin(file: h5py.File, part: h5py.File) -> None:
    """Take what does not grow from the first part, and make what does, laid out alike and empty."""
    for group, growing in (("Header", ROWS), ("Data", tuple(FILL)), ("Ryle", ("first_spectrum",))):
        made = file.create_group(group)
        for name, item in part[group].items():
            if name in growing:
                made.create_dataset(
                    name,
                    (0, *item.shape[1:]),
                    item.dtype,
                    maxshape=item.maxshape,
                    chunks=item.chunks,
                    compression=item.compression,
                    compression_opts=item.compression_opts,
                    fillvalue=item.fillvalue,
                )
            elif name not in _COUNTED:
                part[group].copy(name, made)
    for name in _SIZES:
        file["Header"][name][()] = 0


def _fits(path: Path, file: h5py.File, part: h5py.File) -> None:
    """Refuse a part that another observation or another Ryle has made, or that does not follow."""
    there, here = _said(file), _said(part)
    differs = [name for name in there | here if there.get(name) != here.get(name)]
    if differs:
        raise UVH5Error(
            f"{path} differs from the parts before it in {', '.join(sorted(differs))}: correlate all parts with the "
            "same observation file and version of Ryle"
        )
    before, after = file["Ryle/first_spectrum"], part["Ryle/first_spectrum"]
    if before.size and after.size and after[0] <= before[-1]:
        raise UVH5Error(f"{path} begins before the parts before it end: name them in order of time, and each once")


def _said(file: h5py.File) -> dict[str, Any]:
    """Give what a file says that all parts must say alike, by name."""
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = (item.dtype.str, item.shape, item[()].tobytes() if item.dtype.kind != "O" else item[()])

    for name, item in file["Header"].items():
        if isinstance(item, h5py.Group):
            item.visititems(lambda inner, each, outer=name: note(f"{outer}/{inner}", each))
        elif name not in (*ROWS, *_SIZES):
            note(name, item)
    note("observation", file["Ryle/observation"])
    return found


def _append(file: h5py.File, part: h5py.File) -> None:
    """Put a part's integrations behind those that are there."""
    firsts = part["Ryle/first_spectrum"][()]
    rows = firsts.size * int(part["Header/Nbls"][()])
    for name in ROWS:
        _extend(file["Header"][name], part["Header"][name][()])
    _extend(file["Ryle/first_spectrum"], firsts)
    for name in FILL:
        there, found = file["Data"][name], part["Data"][name]
        start = there.shape[0]
        there.resize(start + rows, axis=0)
        for index in range(found.id.get_num_chunks()):
            at = found.id.get_chunk_info(index).chunk_offset
            mask, content = found.id.read_direct_chunk(at)
            there.id.write_direct_chunk((start + at[0], *at[1:]), content, mask)
    header = file["Header"]
    header["Ntimes"][()] += firsts.size
    header["Nblts"][()] += rows


def _extend(dataset: h5py.Dataset, values: np.ndarray[Any, Any]) -> None:
    start = dataset.shape[0]
    dataset.resize(start + len(values), axis=0)
    dataset[start:] = values


def _add(to: h5py.Group, part: h5py.Group) -> None:
    """Add what was counted of inputs."""
    for name in _COUNTED:
        if name in part:
            counted = part[name][()] + (to[name][()] if name in to else 0)
            if name in to:
                del to[name]
            to[name] = counted
