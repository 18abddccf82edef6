"""What the pictures read: one UVH5 file, a baseline or a block of rows at a time."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.time import unix_of
from ryle.products.metadata import AIPS_POLARIZATIONS
from ryle.products.readable import check_uvh5, open_uvh5

_NAMES = {number: name.upper() for name, number in AIPS_POLARIZATIONS.items()}

#: Waterfalls are averaged down to about so many cells a side: more than a screen shows is wasted.
CELLS = 1024
#: Values of one polarization read at a time in a pass over the file.
_BLOCK = 1 << 22


class VisibilityFile:
    """A UVH5 file open for reading.

    Parameters
    ----------
    path : str or Path
        UVH5 file with at least one integration.

    Raises
    ------
    UVH5Error
        If it cannot be opened, or contradicts itself.
    ValueError
        If it holds no integration.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open_uvh5(self.path)
        try:
            check_uvh5(self.path, self._file)
        except BaseException:
            self._file.close()
            raise
        header = self._file["Header"]
        if not len(header["time_array"]):
            self._file.close()
            raise ValueError(f"{self.path} holds no integration yet; there is nothing to draw")
        self.telescope = header["telescope_name"][()].decode()
        self.frequencies: NDArray[np.float64] = np.atleast_1d(header["freq_array"][()])
        self.channel_width = float(np.atleast_1d(header["channel_width"][()])[0])
        self.polarizations = [_NAMES[int(k)] for k in header["polarization_array"][()]]
        self.antenna_1: NDArray[np.int64] = header["ant_1_array"][()]
        self.antenna_2: NDArray[np.int64] = header["ant_2_array"][()]
        jd, self.row_time = np.unique(header["time_array"][()], return_inverse=True)
        self.times: NDArray[np.float64] = unix_of(jd)
        self.integration_time = float(header["integration_time"][()].max())  # of one that is whole
        self.uvw: NDArray[np.float64] = header["uvw_array"][()]
        numbers = [int(k) for k in header["antenna_numbers"][()]]
        names = [name.decode() for name in header["antenna_names"][()]]
        present = set(np.unique(np.concatenate([self.antenna_1, self.antenna_2])).tolist())
        self.antennas = [k for k in numbers if k in present]
        self.names = dict(zip(numbers, names, strict=True))
        catalog = header["phase_center_catalog"]
        entry = catalog[next(iter(catalog))]
        self.target = entry["cat_name"][()].decode()
        self.tracked = entry["cat_type"][()].decode() != "unprojected"

    def __enter__(self) -> VisibilityFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def subtitle(self) -> str:
        """File, target and time span, for titles."""
        start = np.datetime64(int((self.times[0] - self.integration_time / 2) * 1e3), "ms")
        stop = np.datetime64(int((self.times[-1] + self.integration_time / 2) * 1e3), "ms")
        first, last = str(start)[:19].replace("T", " "), str(stop)[:19].replace("T", " ")
        last = last[11:] if first[:10] == last[:10] else last
        target = self.target if self.tracked else "not phase-tracked"
        return f"{self.path.name}  ·  {self.telescope}  ·  {target}  ·  {first} – {last} UTC"

    @property
    def parallel(self) -> list[int]:
        """Indices of the parallel-hand polarization products."""
        return [k for k, name in enumerate(self.polarizations) if name[0] == name[1]]

    @cached_property
    def in_band(self) -> NDArray[np.bool_]:
        """Channels that are neither at the edge of the band nor at DC, shape (channel,).

        Those where autocorrelations, in the median of some antennas, have a quarter of the band's median power; all
        channels if there is no power.
        """
        some = spread(self.antennas, 8)
        power = np.array([np.abs(mean(self.waterfall(a, a, self.parallel[0]), 0)) for a in some])
        level = np.nan_to_num(np.median(power, axis=0))
        good: NDArray[np.bool_] = level >= 0.25 * np.median(level)
        good[0] &= len(good) <= 3  # a spectrum's first and last channel hold half a channel's width of signal
        good[-1] &= len(good) <= 3
        return good if good.any() and level.any() else np.ones(len(level), bool)

    def baseline_name(self, baseline: tuple[int, int]) -> str:
        """Names of both antennas."""
        return f"{self.names[baseline[0]]} – {self.names[baseline[1]]}"

    def baselines(self, most: int) -> list[tuple[int, int]]:
        """Cross baselines spread over the range of lengths, shortest first, at most so many."""
        pairs, first = np.unique(np.stack([self.antenna_1, self.antenna_2], axis=1), axis=0, return_index=True)
        length = np.linalg.norm(self.uvw[first], axis=1)
        cross = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
        order = cross[np.argsort(length[cross])]
        take: Any = (
            np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int)) if len(order) else []
        )
        return [(int(pairs[k, 0]), int(pairs[k, 1])) for k in order[take]]

    def waterfall(self, a: int, b: int, polarization: int) -> NDArray[np.complex64]:
        """Visibilities conj(X_a)·X_b of one baseline, NaN where flagged or absent.

        Parameters
        ----------
        a, b : int
            Antenna numbers, in either order: the reversed row is conjugated.
        polarization : int
            Index into `polarizations` of the row as stored.

        Returns
        -------
        ndarray of complex64, shape (time, channel)
        """
        rows = self._rows(a, b)
        values = np.full((len(self.times), len(self.frequencies)), np.nan, np.complex64)
        if rows.size == 0 and a != b:
            return self.waterfall(b, a, polarization).conj() if self._rows(b, a).size else values
        data = self._take("visdata", rows, polarization).astype(np.complex64)
        data[self._take("flags", rows, polarization)] = np.nan
        values[self.row_time[rows]] = data
        return values

    def averages(self, polarization: int) -> dict[tuple[int, int], complex]:
        """Average every baseline over time and band, in one pass over the file; NaN where all is flagged."""
        data = self._file["Data"]
        total = np.zeros(len(self.antenna_1), np.complex128)
        count = np.zeros(len(self.antenna_1), np.int64)
        step = max(1, _BLOCK // len(self.frequencies))
        for start in range(0, len(total), step):
            rows = slice(start, start + step)
            good = ~data["flags"][rows, :, polarization]
            total[rows] = np.where(good, data["visdata"][rows, :, polarization], 0).sum(axis=1, dtype=np.complex128)
            count[rows] = good.sum(axis=1)
        pairs, index = np.unique(np.stack([self.antenna_1, self.antenna_2], axis=1), axis=0, return_inverse=True)
        index = index.ravel()
        size = np.bincount(index, count)
        with np.errstate(invalid="ignore", divide="ignore"):
            real, imag = (np.bincount(index, part) / size for part in (total.real, total.imag))
        return {(int(a), int(b)): complex(re, im) for (a, b), re, im in zip(pairs, real, imag, strict=True)}

    def valid(self, a: int, b: int) -> NDArray[np.float32]:
        """Read the valid fraction of one baseline, averaged over polarizations: shape (time, channel)."""
        rows = self._rows(a, b)
        values = np.zeros((len(self.times), len(self.frequencies)), np.float32)
        for k in range(len(self.polarizations)):
            values[self.row_time[rows]] += self._take("nsamples", rows, k) / len(self.polarizations)
        return values

    def record(self, name: str) -> NDArray[Any] | None:
        """Read an array that the writer kept under ``/Ryle``; None if there is none."""
        group = self._file.get("Ryle")
        return None if group is None or name not in group else np.asarray(group[name][()])

    def _rows(self, a: int, b: int) -> NDArray[np.intp]:
        return np.flatnonzero((self.antenna_1 == a) & (self.antenna_2 == b))

    def _take(self, name: str, rows: NDArray[np.intp], polarization: int) -> NDArray[Any]:
        data = self._file["Data"][name]
        steps = np.unique(np.diff(rows))
        if len(steps) == 1:  # regular files: a strided read, much faster than a list of rows
            return np.asarray(data[rows[0] : rows[-1] + 1 : int(steps[0]), :, polarization])
        return np.asarray(data[rows, :, polarization])


def spread(names: list[int], most: int) -> list[int]:
    """Choose at most so many of a list, evenly, the first and the last among them."""
    take = np.unique(np.linspace(0, len(names) - 1, min(most, len(names))).round().astype(int))
    return [names[k] for k in take]


def averaged(values: NDArray[Any], axis: int, cells: int = CELLS) -> NDArray[Any]:
    """Mean of neighbours, NaN left out, so that at most about so many cells are left along an axis."""
    step = -(-values.shape[axis] // cells)
    if step == 1:
        return values
    moved = np.moveaxis(values, axis, 0)
    missing = np.isnan(moved)
    starts = np.arange(0, len(moved), step)
    count = np.add.reduceat(~missing, starts, axis=0, dtype=np.int64)
    total = np.add.reduceat(np.where(missing, 0, moved), starts, axis=0)
    return np.moveaxis(np.where(count > 0, total / np.maximum(count, 1), np.nan), 0, axis)


def mean(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """Mean over an axis with NaN left out, NaN where nothing is left; says nothing about it."""
    missing = np.isnan(values)
    count = (~missing).sum(axis=axis)
    total = np.where(missing, 0, values).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))
