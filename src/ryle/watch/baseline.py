"""One baseline out of a glance, so that what is drawn of it costs no more in a large array than in a small one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ryle.products.glance import Glance
from ryle.watch.fringes import product_of
from ryle.watch.sight import Sight


@dataclass(frozen=True)
class Baseline:
    """Two inputs of a glance, in the order of the engines' products.

    Parameters
    ----------
    first, second : int
        Inputs of the array.
    pols : int
        Polarizations of an antenna.
    """

    first: int
    second: int
    pols: int

    @classmethod
    def of(cls, i: int, j: int, pols: int) -> Baseline:
        """Put two inputs in the order that products have."""
        return cls(i, j, pols) if i // pols <= j // pols else cls(j, i, pols)

    @property
    def product(self) -> int:
        """Which product of the array it is."""
        (a1, p1), (a2, p2) = divmod(self.first, self.pols), divmod(self.second, self.pols)
        return product_of(a1, p1, a2, p2, self.pols)

    @property
    def antennas(self) -> list[int]:
        """Its antennas, each once."""
        return sorted({self.first // self.pols, self.second // self.pols})

    @property
    def here(self) -> int:
        """Which product it is of its own antennas alone (`of_antennas`)."""
        place = {a: n for n, a in enumerate(self.antennas)}
        (a1, p1), (a2, p2) = divmod(self.first, self.pols), divmod(self.second, self.pols)
        return product_of(place[a1], p1, place[a2], p2, self.pols)


def of_antennas(glance: Glance, antennas: Sequence[int]) -> Glance:
    """Cut some antennas out of a glance, in order, as if the array had no others."""
    p = glance.pols
    inputs = [a * p + q for a in antennas for q in range(p)]
    pairs = [(a1, a2) for n, a2 in enumerate(antennas) for a1 in antennas[: n + 1]]
    products = [p * p * (a2 * (a2 + 1) // 2 + a1) + k for a1, a2 in pairs for k in range(p * p)]
    place = {product: n for n, product in enumerate(products)}
    kept = [(n, place[k]) for n, k in enumerate(glance.chosen.tolist()) if k in place]
    return replace(
        glance,
        antennas=len(antennas),
        power=glance.power[inputs],
        coarse=glance.coarse[:, products],
        present=glance.present[inputs],
        spectra=glance.spectra[[n for n, _ in kept]],
        chosen=np.array([k for _, k in kept], np.int64),
    )


def newest_glance(sight: Sight, history: Sequence[Sight]) -> Glance | None:
    """Give the newest glance there is: not every look of a recorded session has one."""
    if sight.glance is not None or not sight.engines:
        return sight.glance
    return next((s.glance for s in reversed(history) if s.glance is not None), None)


def in_time(history: Sequence[Sight], until: float, glance: Glance, base: Baseline) -> list[Glance]:
    """Give what was seen of a baseline up to a time, a glance each, oldest first, cut out (`of_antennas`)."""
    seen = {id(s.glance): s.glance for s in history if s.glance is not None and s.time <= until}
    return [
        of_antennas(g, base.antennas) for g in seen.values() if (g.antennas, g.pols) == (glance.antennas, glance.pols)
    ]
