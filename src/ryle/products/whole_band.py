"""One UVH5 file over those of several catchers: the whole band, its data left where they are.

Catchers write bands of channels, to disks of their own. The file made here has the header, and HDF5 virtual datasets in
which readers find the data of all of them. Integrations are matched by their first spectrum, which each file keeps;
what one band lacks, because its catcher came late or was killed, reads as zero, flagged, with ``nsamples`` 0. Of each
integration the time is that of the longest exposure that any band has, and ``nsamples`` is relative to a band's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ryle.products.joining import CHANNELS, FILL, check_arrays, check_room, put_at_once
from ryle.products.readable import UVH5Error, open_uvh5
from ryle.products.uvh5_layout import ROWS

_SIZES = ("Nblts", "Ntimes", "Nfreqs")


@dataclass(frozen=True)
class _Band:
    """What a band's file says: its name in the virtual file, place in the band, and integrations."""

    path: Path
    channels: slice
    first_spectra: NDArray[np.int64]  # (integration,)
    exposures: NDArray[np.float64]  # s
    file: h5py.File


def join_bands(path: Path, bands: Sequence[Path], *, overwrite: bool = False) -> int:
    """Make a file of the whole band over files of bands, which must stay where they are.

    Parameters
    ----------
    path : Path
        File to make. Bands in its directory are found by their names, so that all can be moved together; others by
        where they are.
    bands : sequence of Path
        Files of bands of one observation, as catchers write them, in any order. They may be being written: what they
        hold now is joined.
    overwrite : bool
        Replace an existing file, at once: readers find the old one or the new one.

    Returns
    -------
    int
        Integrations that it has, of all bands together.

    Raises
    ------
    FileExistsError
        If the file exists and ``overwrite`` is false.
    UVH5Error
        If a band cannot be read, is no catcher's, or overlaps another or differs from it in baselines; says which.
    """
    check_room(path, bands, overwrite)
    opened = [(band, open_uvh5(band)) for band in bands]
    try:
        try:
            found = list(_bands(path, opened))
        except (KeyError, IndexError, TypeError) as error:  # of headers that lack what each file has
            raise UVH5Error(f"{path} cannot be made: a band's header is damaged ({error})") from error
        with put_at_once(path, "the files of the bands") as file:
            integrations = _write(file, found)
    finally:
        for _, each in opened:
            each.close()
    return integrations


def _bands(path: Path, opened: Sequence[tuple[Path, h5py.File]]) -> Iterator[_Band]:
    """Say what each file has, in the order of frequency."""
    low, first = 0, None
    for band, file in sorted(opened, key=lambda each: float(each[1]["Header/freq_array"][0])):
        header = file["Header"]
        check_arrays(band, file)
        baselines = int(header["Nbls"][()])
        same = [header[name][()].tobytes() for name in ("antenna_numbers", "polarization_array")]
        if first is None:
            first = band, same, -np.inf
        if same != first[1]:
            raise UVH5Error(f"{band} and {first[0]} differ in antennas or polarizations: name bands of one observation")
        if float(header["freq_array"][0]) <= first[2]:
            raise UVH5Error(f"{band} has channels that {first[0]} has: name each band once")
        first = band, same, float(header["freq_array"][-1])
        channels = int(header["Nfreqs"][()])
        near = band.resolve().parent == path.resolve().parent
        yield _Band(
            Path(band.name) if near else band.resolve(),
            slice(low, low + channels),
            file["Ryle/first_spectrum"][()],
            header["integration_time"][::baselines],
            file,
        )
        low += channels


def _write(file: h5py.File, bands: Sequence[_Band]) -> int:
    head = bands[0].file["Header"]
    header = file.create_group("Header")
    for name in head:
        if name not in (*ROWS, *CHANNELS, *_SIZES):
            head.copy(name, header)
    for name in CHANNELS:
        header[name] = np.concatenate([band.file["Header"][name][()] for band in bands])
    firsts = np.unique(np.concatenate([band.first_spectra for band in bands]))
    baselines = int(head["Nbls"][()])
    header["Nfreqs"], header["Ntimes"], header["Nblts"] = bands[-1].channels.stop, firsts.size, firsts.size * baselines
    _write_rows(header, bands, firsts, baselines)
    _write_data(file.create_group("Data"), bands, firsts, baselines)
    kept = file.create_group("Ryle")
    for band in bands:  # what is of the whole observation is in any of them; statistics of inputs in one
        for name in band.file["Ryle"]:
            if name not in kept and name != "first_spectrum":
                band.file["Ryle"].copy(name, kept)
    kept["first_spectrum"] = firsts
    return int(firsts.size)


def _write_rows(header: h5py.Group, bands: Sequence[_Band], firsts: NDArray[np.int64], baselines: int) -> None:
    """Take each integration's rows from the band that has the longest exposure of it."""
    exposures = np.full((len(bands), firsts.size), -1.0)
    for n, band in enumerate(bands):
        exposures[n, np.searchsorted(firsts, band.first_spectra)] = band.exposures
    best = exposures.argmax(axis=0)
    for name in ROWS:
        example = bands[0].file["Header"][name]
        rows = np.zeros((firsts.size, baselines, *example.shape[1:]), example.dtype)
        for n, band in enumerate(bands):
            wanted = np.flatnonzero(best == n)
            if wanted.size:
                here = band.file["Header"][name][()].reshape(-1, *rows.shape[1:])
                rows[wanted] = here[np.searchsorted(band.first_spectra, firsts[wanted])]
        header[name] = rows.reshape(-1, *example.shape[1:])


def _write_data(data: h5py.Group, bands: Sequence[_Band], firsts: NDArray[np.int64], baselines: int) -> None:
    for name, fill in FILL.items():
        example = bands[0].file["Data"][name]
        shape = firsts.size * baselines, bands[-1].channels.stop, example.shape[2]
        layout = h5py.VirtualLayout(shape, example.dtype)
        for band in bands:
            found: Any = band.file["Data"][name]
            source = h5py.VirtualSource(str(band.path), f"Data/{name}", found.shape, found.dtype)
            at = np.searchsorted(firsts, band.first_spectra)
            for low, high in _runs(at):  # integrations that follow each other in both files, as almost all do
                to = slice(int(at[low]) * baselines, (int(at[high - 1]) + 1) * baselines)
                layout[to, band.channels, :] = source[low * baselines : high * baselines, :, :]
        data.create_virtual_dataset(name, layout, fillvalue=example.dtype.type(fill))


def _runs(at: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Split places into runs without a gap: (first, behind the last), as indices."""
    cuts = np.flatnonzero(np.diff(at) != 1) + 1
    edges = [0, *cuts.tolist(), at.size]
    yield from ((low, high) for low, high in pairwise(edges) if high > low)
