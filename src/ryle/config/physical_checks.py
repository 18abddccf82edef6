"""What no array on the Earth can have, however its tables agree: usually a slip of a unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from ryle.config.checking import reads
from ryle.config.rates import full_scale_spectra
from ryle.config.units import show
from ryle.problems import Problem

if TYPE_CHECKING:
    from ryle.config.observation import Observation

#: Samples/s, beyond the fastest digitizers (256 GS/s); sky frequency in Hz, where radio ends.
_FASTEST, _HIGHEST = 10**12, 10**13
#: Seconds of delay: light crosses the Earth in 0.043 s, and a fibre as long as its diameter in 0.064 s.
_LONGEST_DELAY = 0.1
_DAY, _YEAR = 86400, 366 * 86400
#: Metres: distances from the Earth's centre at which telescopes stand, and its diameter.
_LOWEST, _TOP, _ACROSS = 6.3e6, 6.5e6, 1.28e7
#: Largest count of spectra in a file.
_COUNTS = 2**32 - 1


@reads("array")
def _on_the_earth(o: Observation) -> Iterator[Problem]:
    where = o.array.location
    places = [("array.location.itrf", where.itrf)] + [
        (f"array.antennas[{i}].itrf", antenna.itrf) for i, antenna in enumerate(o.antennas)
    ]
    for key, itrf in places:
        if itrf is not None and not _LOWEST < math.hypot(*itrf) < _TOP:
            remedy = (
                f"lies {show(math.hypot(*itrf), 'm')} from the Earth's centre; its surface is 6357 to 6378 km from it"
            )
            yield Problem(key, None, remedy)
    if where.height is not None and not -12e3 < where.height < 100e3:
        yield Problem("array.location.height", show(where.height, "m"), "must lie between -12 km and 100 km")
    for i, antenna in enumerate(o.antennas):
        if antenna.enu is not None and math.hypot(*antenna.enu) > _ACROSS:
            remedy = f"{antenna.name} is {show(math.hypot(*antenna.enu), 'm')} away, more than the Earth is wide"
            yield Problem(f"array.antennas[{i}].enu", None, remedy)
        for delay in antenna.cable_delay:
            if abs(delay) > _LONGEST_DELAY:
                remedy = f"at most {show(_LONGEST_DELAY, 's')}: light needs 43 ms through the Earth"
                yield Problem(f"array.antennas[{i}].cable_delay", show(delay, "s"), remedy)


@reads("fengine")
def _delay(o: Observation) -> Iterator[Problem]:
    if o.fengine.max_delay > _LONGEST_DELAY:
        remedy = f"at most {show(_LONGEST_DELAY, 's')}: light needs 43 ms through the Earth"
        yield Problem("fengine.max_delay", show(o.fengine.max_delay, "s"), remedy)


@reads("band")
def _frequencies(o: Observation) -> Iterator[Problem]:
    if o.sample_rate > _FASTEST:
        remedy = f"at most {show(_FASTEST, 'Hz')}: no digitizer is as fast"
        yield Problem("band.sample_rate", show(o.sample_rate, "Hz"), remedy)
    if o.band.lo > _HIGHEST:
        yield Problem("band.lo", show(o.band.lo, "Hz"), f"at most {show(_HIGHEST, 'Hz')}")


@reads("band", "digitizer", "fengine")
def _above_zero(o: Observation) -> Iterator[Problem]:
    if (lowest := float(o.sky_frequencies.min())) < 0:
        remedy = f"puts channels at sky frequencies down to {lowest / 1e6:.10g} MHz; none may be below 0: raise it"
        yield Problem("band.lo", f"{float(o.band.lo) / 1e6:.10g} MHz", remedy)


@reads("observation")
def _duration(o: Observation) -> Iterator[Problem]:
    duration = o.observation.duration
    if duration is not None and duration > _YEAR:
        remedy = "at most 366 days; leave it out to observe until stopped"
        yield Problem("observation.duration", show(duration, "s"), remedy)


@reads("band", "catcher", "digitizer", "fengine", "xengine")
def _sums(o: Observation) -> Iterator[Problem]:
    """Exact sums are int64, their counts uint32; nobody integrates over more than a day."""
    if o.sample_rate > _FASTEST:
        return  # another mistake
    own = o.catcher.integration is None
    key = "xengine.integration" if own else "catcher.integration"
    most = min(full_scale_spectra(o, 64), _COUNTS)
    longest = most * o.step / o.sample_rate
    seconds = o.file_spectra * o.step / o.sample_rate
    allowed = longest if longest < _DAY else Fraction(_DAY)
    if seconds > allowed:
        why = "a day" if longest > _DAY else f"64-bit sums of full scale, and 32-bit counts, hold {most} spectra"
        yield Problem(key, show(seconds, "s"), f"at most {show(allowed, 's')}: {why}")
