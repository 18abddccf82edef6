"""What was seen lately, in bounded memory: the newest looks whole, older ones without what is large."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from ryle.watch.sight import EngineSight, Sight

#: Looks that are kept, ten minutes of two a second; those kept whole; glances, and bytes of them.
MOST, WHOLE, GLANCES, GLANCE_BYTES = 1200, 20, 120, 128 << 20
#: Figures of engines that older looks keep.
_KEPT = ("account", "ring_full", "resyncs")


class History:
    """Looks in the order in which they were made; any thread adds and reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sights: deque[Sight] = deque(maxlen=MOST)

    def add(self, sight: Sight) -> None:
        """Take a look; what an older one has that is large goes."""
        with self._lock:
            if self._sights and self._sights[-1].histograms is not None:  # the newest are enough
                self._sights[-1] = replace(self._sights[-1], histograms=None)
            self._sights.append(sight)
            if len(self._sights) > WHOLE:
                old = len(self._sights) - 1 - WHOLE
                self._sights[old] = _lighter(self._sights[old])
            self._forget_glances()

    def _forget_glances(self) -> None:
        """Drop glances beyond what may be kept; one that several looks have counts once."""
        seen: set[int] = set()
        size = 0
        for at in range(len(self._sights) - 1, -1, -1):
            glance = self._sights[at].glance
            if glance is None:
                continue
            if id(glance) not in seen:
                seen.add(id(glance))
                size += glance.power.nbytes + glance.coarse.nbytes + glance.spectra.nbytes
            if len(seen) > 1 and (len(seen) > GLANCES or size > GLANCE_BYTES):
                self._sights[at] = replace(self._sights[at], glance=None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._sights.clear()

    def sights(self) -> tuple[Sight, ...]:
        """Give all, oldest first."""
        with self._lock:
            return tuple(self._sights)


def _lighter(sight: Sight) -> Sight:
    return replace(sight, engines=tuple(_light(e) for e in sight.engines), log=())


def _light(engine: EngineSight) -> EngineSight:
    kept = {key: engine.values[key] for key in _KEPT if key in engine.values}
    return replace(engine, values=kept, kinds={}, controls={})
