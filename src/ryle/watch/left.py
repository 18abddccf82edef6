"""What engines leave beside their pages for who watches: glances at visibilities, and histograms of ADC values, joined.

What lies in shared memory, anybody may have put there: what makes no sense is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ryle.config import Observation
from ryle.monitor.page import Page
from ryle.monitor.page_files import GLANCE, HISTOGRAMS
from ryle.products.glance import Glance, GlanceError
from ryle.products.histograms import HistogramError, Histograms
from ryle.store.shared import open_shared
from ryle.watch import codes
from ryle.watch.fringes import joined
from ryle.watch.run_pages import Run, role_of

_LONGEST = 256 << 20  # bytes of a file
_FORMER = 4  # glances of each band that are kept, for those of others to match
_File = tuple[int, int]  # inode, time of change


@dataclass(frozen=True)
class _Glances:
    """A glance that lies beside a page, and which file it was."""

    file: _File
    glances: tuple[Glance, ...]  # the newest last


@dataclass(frozen=True)
class Adc:
    """Histograms of ADC values of all inputs.

    Parameters
    ----------
    key : tuple of int
        Which of the engines' they are made of.
    histograms : Histograms or None
        None if nobody left any.
    verdicts : sequence of (str or None)
        What is said of each input's codes (`ryle.watch.codes.verdicts`).
    """

    key: tuple[int, ...] = ()
    histograms: Histograms | None = None
    verdicts: Sequence[str | None] = ()


class Left:
    """Reads it, from one thread; what is not new is not read again."""

    def __init__(self) -> None:
        self._glances: dict[str, _Glances] = {}
        self._joined: tuple[tuple[int, ...], Glance] | None = None
        self._histograms: dict[str, tuple[_File, Histograms]] = {}
        self._adc = Adc()

    def clear(self) -> None:
        """Forget everything: it is another run."""
        self._glances.clear()
        self._joined = None
        self._histograms.clear()

    def forget(self, pages: Iterable[Page]) -> None:
        """Forget what is of none of these pages; of ADC values, of engines that do not live any more."""
        alive = {page.name: page.alive for page in pages}
        self._glances = {name: some for name, some in self._glances.items() if name in alive}
        self._histograms = {name: some for name, some in self._histograms.items() if alive.get(name)}

    def glance(self, run: Run, observation: Observation | None) -> Glance | None:
        """Read new glances; join those of several bands that are of the same integration, the newest that all have."""
        for page in run.pages:
            if role_of(page) is not None and "integrations" in page.values:
                self._read(page, observation)
        by_time: dict[int, list[Glance]] = {}
        for left in self._glances.values():
            for glance in left.glances:
                by_time.setdefault(glance.first_spectrum, []).append(glance)
        if not by_time:
            return None
        _, newest = max((len(some), first) for first, some in by_time.items())
        some = by_time[newest]
        key = tuple(sorted(id(glance) for glance in some))
        if self._joined is None or self._joined[0] != key:  # the same object as long as it is the same
            try:
                self._joined = key, joined(some)
            except ValueError:
                self._joined = key, some[0]
        return self._joined[1]

    def _read(self, page: Page, observation: Observation | None) -> None:
        left = self._glances.get(page.name)
        newer = _newer(page.path / GLANCE, None if left is None else left.file)
        if newer is None:
            return
        file, data = newer
        try:
            glance = Glance.from_bytes(data)
        except GlanceError:
            return
        if not consistent(glance, observation):
            return
        former = () if left is None else left.glances
        if former and former[-1].first_spectrum >= glance.first_spectrum:  # it began again
            former = ()
        self._glances[page.name] = _Glances(file, (*former[1 - _FORMER :], glance))

    def adc(self, run: Run, observation: Observation | None) -> Adc:
        """Read new histograms of ADC values, and join those of all engines; the same object as long as none is new."""
        for page in run.pages:
            if not page.alive or "first_input" not in page.values:
                continue
            known = self._histograms.get(page.name)
            if (newer := _newer(page.path / HISTOGRAMS, None if known is None else known[0])) is not None:
                with suppress(HistogramError):
                    self._histograms[page.name] = newer[0], Histograms.from_bytes(newer[1])
        some = [found for _, found in self._histograms.values()]
        key = tuple(id(found) for found in some)
        if key != self._adc.key:
            o = observation
            most = max((h.first_input + len(h.lately) for h in some), default=0)
            whole = codes.joined(some, most if o is None else o.n_inputs)
            self._adc = Adc(key, whole, () if whole is None else codes.verdicts(whole))
        return self._adc


def _newer(path: Path, known: _File | None) -> tuple[_File, bytes] | None:
    """Read what was put in a file's place since it was known; None if nothing was, or it cannot be read."""
    try:
        found = path.stat(follow_symlinks=False)
        if (file := (found.st_ino, found.st_mtime_ns)) == known:
            return None
        with open_shared(path, _LONGEST) as opened:
            return file, opened.read(_LONGEST)
    except OSError:
        return None


def consistent(glance: Glance, observation: Observation | None = None) -> bool:
    """Say whether the arrays of a glance have the shapes that its numbers ask for, and fit an observation if given."""
    g = glance
    if not (g.antennas > 0 and g.pols in (1, 2) and g.channels > 0 and g.integration > 0 and g.first_channel >= 0):
        return False
    if not 0 <= g.first_spectrum < 1 << 62:
        return False
    inputs, products = g.antennas * g.pols, g.antennas * (g.antennas + 1) // 2 * g.pols**2
    bins, parts = len(g.power_channels) - 1, len(g.coarse_edges) - 1
    shapes = (
        (g.power.shape, (inputs, bins)),
        (g.coarse.shape, (parts, products)),
        (g.present.shape, (inputs,)),
        (g.spectra.shape, (g.chosen.size, bins)),
        (g.chosen.shape, (g.chosen.size,)),
    )
    if bins < 1 or parts < 1 or any(found != wanted for found, wanted in shapes):
        return False
    for edges in (g.power_channels, g.coarse_edges):
        if edges.ndim != 1 or edges[0] != 0 or edges[-1] != g.channels or (np.diff(edges) <= 0).any():
            return False
    if g.chosen.size and not (0 <= g.chosen.min() and g.chosen.max() < products):
        return False
    o = observation
    whole = o is None or g.first_channel + g.channels <= o.fengine.channels
    return whole and (o is None or (g.antennas, g.pols) == (len(o.antennas), o.pols))
