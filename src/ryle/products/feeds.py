"""Feeds as readers of Measurement Sets, UVFITS files and MIRIAD datasets take them: x to the north, y to the east.

CASA, AIPS, MIRIAD and WSClean form Stokes parameters of what is called x and y as if x pointed north (to the zenith if
steered) and y 90 degrees from it through east: Q from XX − YY, V from XY − YX. Recorded feeds may have others. Names
exchanged and voltages negated, all is right to within a rotation about the line of sight, which the file's angles say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pyuvdata import UVData

from ryle.problems import listed
from ryle.products.metadata import AIPS_POLARIZATIONS
from ryle.products.readable import damaged, reading

Form = Literal["ms", "uvfits", "miriad"]

_NAMES = {number: name for name, number in AIPS_POLARIZATIONS.items()}
_LINEAR = ("x", "y")
#: Radians within which an angle counts as a multiple of 45 degrees, or as that of other antennas.
_SAME = 1e-6

#: Rows whose products are exchanged at a time.
_ROWS = 4096

#: Where a format keeps the angles, and what takes them and the turning of feeds on the sky into account.
_ANGLES_IN = {"ms": "RECEPTOR_ANGLE", "uvfits": "POLAA and POLAB", "miriad": "evector"}
_UNTURN = {
    "ms": "CASA's applycal(parang=True)",
    "uvfits": "CASA's applycal(parang=True)",
    "miriad": "MIRIAD's uvredo options=chi",
}


@dataclass(frozen=True)
class Placement:
    """Which recorded feed stands for which feed of an exported file.

    Parameters
    ----------
    recorded : tuple of str
        Feeds as they were recorded, in the order of the file.
    feeds : tuple of str
        Those of the exported file.
    source : ndarray of int, shape (antenna, feed)
        Recorded feed, by index, that becomes each.
    sign : ndarray of float64, shape (antenna, feed)
        −1 where it points the other way: its voltage is negated.
    angles : ndarray of float64, shape (antenna, feed)
        Position angle of each afterwards, radians.
    """

    recorded: tuple[str, ...]
    feeds: tuple[str, ...]
    source: NDArray[np.intp]
    sign: NDArray[np.float64]
    angles: NDArray[np.float64]

    @classmethod
    def as_recorded(cls, feeds: Sequence[str], angles: NDArray[np.float64]) -> Placement:
        """Leave all as it is."""
        source = np.tile(np.arange(len(feeds)), (len(angles), 1))
        return cls(tuple(feeds), tuple(feeds), source, np.ones(angles.shape), angles)

    @classmethod
    def northward(cls, feeds: Sequence[str], angles: NDArray[np.float64], products: int) -> Placement:
        """Call the feed nearest the north x and the other, 90 degrees from it through east, y.

        Circular feeds stay. Antennas whose feeds are to be exchanged and others are in one file only if it has all four
        products; without, none are exchanged.

        Parameters
        ----------
        feeds : sequence of str
            As recorded, of every antenna.
        angles : ndarray of float64, shape (antenna, feed)
            Position angles, radians.
        products : int
            How many products the file has.
        """
        kept = cls.as_recorded(feeds, angles)
        if not set(feeds) <= set(_LINEAR):
            return kept
        as_x = np.array([f == "x" for f in feeds])
        # How far x, or y alone, is from its axis: up to 45 degrees through east, and less than that through west, so
        # that feeds on the diagonals are called the same at all antennas.
        k = int(np.argmax(as_x))
        off = _wrapped(angles[:, k] - (0 if as_x[k] else np.pi / 2), np.pi)
        exchanged = (off > np.pi / 4 + _SAME) | (off <= -np.pi / 4 + _SAME)
        if exchanged.any() and not exchanged.all() and products < 4:
            exchanged[:] = False
        names = [[_other(f) if swap else f for f in feeds] for swap in exchanged]
        new = tuple(sorted(set(names[0]))) if len(feeds) == 1 else _LINEAR
        source = np.array([[row.index(f) for f in new] for row in names])
        pointing = np.take_along_axis(angles, source, axis=1)
        sign, placed = np.ones(pointing.shape), pointing.copy()
        for k, feed in enumerate(new):
            # y is to be 90 degrees from x, wherever x is; alone it is to be east.
            wanted = 0.0 if feed == "x" else np.pi / 2 + (placed[:, 0] if len(new) == 2 else 0.0)
            away = _wrapped(pointing[:, k] - wanted, 2 * np.pi)
            sign[:, k] = np.where(np.abs(away) > np.pi / 2 + _SAME, -1, 1)
            placed[:, k] = wanted + np.where(sign[:, k] < 0, away - np.copysign(np.pi, away), away)
        return cls(tuple(feeds), new, source, sign, placed)

    @classmethod
    def of(cls, data: UVData, as_recorded: bool = False) -> Placement | None:
        """Placement for visibilities, or for the header of a file; None if it does not say where feeds point."""
        feeds, angles = data.telescope.feed_array, data.telescope.feed_angle
        if feeds is None or angles is None or any(list(row) != list(feeds[0]) for row in feeds):
            return None
        names, angles = [str(f) for f in feeds[0]], np.asarray(angles, np.float64)
        return cls.as_recorded(names, angles) if as_recorded else cls.northward(names, angles, int(data.Npols))

    @property
    def exchanged(self) -> NDArray[np.bool_]:
        """Which antennas have feeds of another name than recorded, shape (antenna,)."""
        names = np.array(self.recorded)[self.source]
        return np.asarray((names != np.array(self.feeds)).any(axis=1))

    @property
    def _from_axis(self) -> NDArray[np.float64]:
        """Angle of each antenna's feeds from where readers take them."""
        return self.angles[:, 0] - (np.pi / 2 if self.feeds == ("y",) else 0.0)

    def products(self, recorded: Sequence[str]) -> list[str]:
        """Products of an exported file, in AIPS order, from those of the recorded one."""
        names = dict(zip(self.recorded, self.recorded, strict=True))
        if self.exchanged.all():
            names = {f: _other(f) for f in self.recorded}
        return sorted((names[n[0]] + names[n[1]] for n in recorded), key=lambda name: -AIPS_POLARIZATIONS[name])

    def needed(self, product: str) -> list[str] | None:
        """Find the recorded products that one of an exported file is made from; None for all."""
        if not self.exchanged.any():
            return [product]
        return ["".join(_other(f) for f in product)] if self.exchanged.all() else None

    def apply(self, data: UVData) -> None:
        """Exchange, negate and rename the products of visibilities, in place."""
        old = [_NAMES[int(number)] for number in data.polarization_array]
        new = self.products(old)
        index = np.array([[old.index(p + q) if p + q in old else -1 for q in self.recorded] for p in self.recorded])
        pairs = [(self.feeds.index(name[0]), self.feeds.index(name[1])) for name in new]
        numbers = np.asarray(data.telescope.antenna_numbers)
        order = np.argsort(numbers)
        first, second = (order[np.searchsorted(numbers[order], n)] for n in (data.ant_1_array, data.ant_2_array))
        for start in range(0, data.Nblts, _ROWS):
            rows = slice(start, start + _ROWS)
            a, b = first[rows], second[rows]
            columns = np.stack([index[self.source[a, p], self.source[b, q]] for p, q in pairs], axis=-1)
            sign = np.stack([self.sign[a, p] * self.sign[b, q] for p, q in pairs], axis=-1)
            for array in (data.data_array, data.flag_array, data.nsample_array):
                if (columns != columns[0]).any():
                    array[rows] = np.take_along_axis(array[rows], columns[:, np.newaxis], axis=-1)
                elif columns[0].tolist() != list(range(len(old))):
                    array[rows] = array[rows][..., columns[0]]
            if (sign < 0).any():
                data.data_array[rows] *= sign[:, np.newaxis].astype(data.data_array.real.dtype)
        data.polarization_array = np.array([AIPS_POLARIZATIONS[name] for name in new])
        data.telescope.feed_array = np.array([self.feeds] * len(self.angles))
        data.telescope.feed_angle = self.angles.copy()

    def miriad_variables(self, data: UVData) -> dict[str, float]:
        """Position angle of x as MIRIAD has it: to the vertical, and on the sky if feeds do not turn there.

        Empty if that of antennas differs, which pyuvdata cannot write.
        """
        x = self._from_axis
        if np.ptp(x) > _SAME:
            return {}
        fixed = str(data.telescope.mount_type[0]) == "equatorial"
        return {"evector": float(x[0])} | ({"chi": float(x[0])} if fixed else {})

    def notes(self, data: UVData, form: Form, as_recorded: bool) -> list[str]:
        """Say what was exchanged and negated, and what a reader of the exported file has to know, a sentence each."""
        telescope = data.telescope
        names = np.array([str(name) for name in telescope.antenna_names])
        if as_recorded:
            angles = ", ".join(f"{f} {_degrees(a)}" for f, a in zip(self.feeds, self.angles[0], strict=True))
            same = "" if np.ptp(self.angles, axis=0).max() < _SAME else f" of {names[0]}"
            return [
                f"feeds{same} are as recorded, {angles} from north through east: {_ANGLES_IN[form]} says so; readers "
                "take x to the north and y to the east, whatever it says"
            ]
        notes = []
        if self.exchanged.any():
            whose = "" if self.exchanged.all() else f" of {listed(names[self.exchanged])}"
            products = "" if len(self.feeds) == 1 else ", xy and yx"
            notes.append(
                f"feeds x and y{whose} are exchanged, and with them xx and yy{products}: readers take x to the north "
                "(the zenith if steered) and y to the east; --as-recorded leaves them"
            )
        if (self.sign < 0).any():
            turned = listed(f"{names[a]} {self.feeds[k]}" for a, k in np.argwhere(self.sign < 0))
            notes.append(f"feeds that point the other way are negated: {turned}; --as-recorded leaves them")
        return notes + self._caveats(names, str(telescope.mount_type[0]), form)

    def _caveats(self, names: NDArray[np.str_], mount: str, form: Form) -> list[str]:
        notes, linear, x = [], set(self.feeds) <= set(_LINEAR), self._from_axis
        where, how = _ANGLES_IN[form], _UNTURN[form]
        if np.ptp(x) > _SAME:
            known = f"{where} says so and {how} uses it; without, as in WSClean," if form != "miriad" else "in MIRIAD"
            notes.append(
                f"feeds of antennas point in different directions, {_degrees(x.min())} to {_degrees(x.max())} from "
                f"where readers take them: {known} Q and U are mixed"
            )
        elif abs(x[0]) > _SAME:
            notes.append(
                f"feeds are {_degrees(x[0])} from where readers take them, through east: {where} says so and {how} "
                f"uses it; without, as in WSClean, add {_degrees(x[0])} to position angles of polarization"
            )
        if linear and len(self.feeds) == 2:
            apart = np.abs(self.angles[:, 1] - self.angles[:, 0])
            if (askew := np.abs(apart - np.pi / 2) > _SAME).any():
                notes.append(f"feeds of {listed(names[askew])} are not perpendicular, which readers take them to be")
        if len(self.feeds) == 2 and mount != "equatorial":
            notes.append(
                f"feeds turn on the sky ({mount} mount): Q and U are right after {_UNTURN[form]}; WSClean does none"
            )
        return notes


def read(path: Path, form: Form, product: str | None = None, as_recorded: bool = False) -> tuple[UVData, list[str]]:
    """Read a UVH5 file, its feeds placed as readers of a format take them.

    Parameters
    ----------
    path : Path
        UVH5 file.
    form : {"ms", "uvfits", "miriad"}
        Format that it will be written in.
    product : str, optional
        Only this one of `products`; all if absent.
    as_recorded : bool
        Leave feeds as they were recorded.

    Returns
    -------
    data : pyuvdata.UVData
        Visibilities.
    notes : list of str
        What was done, and what a reader of the exported file has to know.
    """
    data = UVData()
    if product is None:
        with reading(Path(path)):
            data.read(str(path), file_type="uvh5")
        placement = Placement.of(data, as_recorded)
    else:
        placement = Placement.of(_header(path), as_recorded)
        chosen = [product] if placement is None else placement.needed(product)
        with reading(Path(path)):
            data.read(str(path), file_type="uvh5", polarizations=chosen)
    if placement is None:
        notes = ["the file does not say where its feeds point; readers take x to the north and y to the east"]
    else:
        placement.apply(data)
        notes = placement.notes(data, form, as_recorded)
        if form == "miriad":
            data.extra_keywords |= placement.miriad_variables(data)
    if product is not None:
        data.select(polarizations=[product])
    return data, notes


def products(path: str | Path, as_recorded: bool = False) -> list[str]:
    """List the products of a UVH5 file, such as ``["xx", "yy", "xy", "yx"]``, as an export has them."""
    header = _header(path)
    placement = Placement.of(header, as_recorded)
    names = [_NAMES[int(number)] for number in header.polarization_array]
    return names if placement is None else placement.products(names)


def _header(path: str | Path) -> UVData:
    header = UVData()
    with reading(Path(path)):
        header.read(str(path), file_type="uvh5", read_data=False, run_check=False)
        if unknown := set(header.polarization_array.tolist()) - set(_NAMES):
            raise damaged(Path(path), f"Header/polarization_array has {min(unknown)}, which is no product of two feeds")
    return header


def _degrees(angle: float) -> str:
    return f"{np.degrees(angle):.6g} deg"


def _other(feed: str) -> str:
    return {"x": "y", "y": "x"}.get(feed, feed)


def _wrapped(angle: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Angle less whole periods, from −period/2 up to period/2."""
    return np.asarray(angle - period * np.rint(angle / period))
