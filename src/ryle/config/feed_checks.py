"""What the angles of an antenna's feeds must be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ryle.config.checking import reads
from ryle.problems import Problem, listed

if TYPE_CHECKING:
    from ryle.config.observation import Observation

#: Degrees between the feeds of an antenna that are parallel to all purposes.
_PARALLEL = 1.0


@reads("array")
def _feed_angles(o: Observation) -> Iterator[Problem]:
    """One angle a polarization, and two feeds of an antenna that tell polarizations apart."""
    array = o.array
    yield from _wrong("array.feed_angles", array.feed_angles, array.polarizations)
    for i, antenna in enumerate(array.antennas):
        yield from _wrong(f"array.antennas[{i}].feed_angles", antenna.feed_angles, array.polarizations)


def _wrong(key: str, given: Sequence[float], polarizations: Sequence[str]) -> Iterator[Problem]:
    if not given:
        return
    shown = [f"{angle:g} deg" for angle in given]
    if len(given) != len(polarizations):
        remedy = f"one angle a polarization is needed: {len(polarizations)}, of {listed(polarizations)}"
        yield Problem(key, shown, remedy)
    elif {"x", "y"} == set(polarizations):
        apart = math.degrees(math.asin(abs(math.sin(math.radians(given[1] - given[0])))))
        if apart < _PARALLEL:
            remedy = "x and y are parallel and cannot tell polarizations apart; they are 90 deg apart as a rule"
            yield Problem(key, shown, remedy)
