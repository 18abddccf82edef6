"""What the web page draws of ADC values, in parts as `ryle.serve.pictures` packs them: all inputs, and one."""

from __future__ import annotations

import threading

import numpy as np

from ryle.products.histograms import Histograms
from ryle.serve.pictures import hundredths, packed
from ryle.watch import codes

_BINS = 256  # of the map of all inputs, at most


class LevelPictures:
    """Parts of the same histograms, each made when the first viewer wants it, once.

    Parameters
    ----------
    histograms : Histograms
        Of all inputs.
    """

    def __init__(self, histograms: Histograms) -> None:
        self.histograms = histograms
        self._lock = threading.Lock()
        self._made: dict[str, bytes] = {}

    def part(self, name: str) -> bytes:
        """Give a part: "levels", of all inputs, or "levels/N", of one; whatever goes wrong is said in it."""
        which = name.partition("/")[2]
        with self._lock:
            if name not in self._made:
                try:
                    self._made[name] = self._one(int(which)) if which else self._all()
                except Exception as error:  # histograms lie in shared memory, where anybody may have written
                    self._made[name] = packed(name, {"problem": str(error) or type(error).__name__})
            return self._made[name]

    def _all(self) -> bytes:
        """Pack what share of the values of each input lately had a level, dB; several levels a bin: the largest."""
        h = self.histograms
        count = h.lately.shape[1]
        firsts = np.unique(np.arange(_BINS) * count // _BINS) if count > _BINS else np.arange(count)
        most = np.maximum.reduceat(h.lately, firsts, axis=1)
        whole = h.lately.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = 10 * np.log10(np.where(most > 0, most / whole, np.nan))
        axis = (h.levels[firsts] + np.append(h.levels[firsts[1:] - 1], h.levels[-1])) / 2
        return packed("levels", {"clips": h.clips}, {"axis": axis, "share": hundredths(share)})

    def _one(self, index: int) -> bytes:
        """Pack how often each level of an input came, and what is said of it."""
        h = self.histograms
        if index >= len(h.lately):
            raise ValueError("there is no such input")
        level, share = float(codes.rms(h)[index]), float(codes.clipped(h)[index])
        header = {
            "input": index,
            "clips": h.clips,
            "bits": h.bits,
            "rms": level if np.isfinite(level) else None,
            "clipped": share if np.isfinite(share) and h.clips else None,
        }
        arrays = {
            "axis": h.levels.astype(np.float64),
            "lately": h.lately[index].astype(np.float64),
            "in_all": h.in_all[index].astype(np.float64),
            "ends": codes.at_ends(h).astype(np.uint8),
            "missing": codes.missing(h)[index].astype(np.uint8),
        }
        return packed(f"levels/{index}", header, arrays)
