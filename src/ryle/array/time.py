"""Between UTC and counts of ADC samples, exactly, leap seconds included.

A digitizer counts samples through a leap second as through any other second, while Unix time repeats one. Everything is
therefore kept as TAI: an exact number of TAI seconds since 1970-01-01T00:00:00 TAI, a `fractions.Fraction`.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import erfa
import numpy as np
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

import ryle.array.earth  # noqa: F401  keeps astropy off the network

_DAY = 86400
_UNIX_JD = 2440587.5  # Julian date of 1970-01-01T00:00:00
_FIRST_DAY = (datetime.date(1972, 1, 1) - datetime.date(1970, 1, 1)).days
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?)?\s*(Z|UTC)?", re.ASCII)


def _tai_utc(day: int) -> int:
    """TAI−UTC in seconds on a UTC day counted from 1970-01-01."""
    if day < _FIRST_DAY:
        raise ValueError(
            "times before 1972-01-01 UTC are not supported (UTC had no whole leap seconds); give a later time"
        )
    date = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + day)
    offset, _ = erfa.ufunc.dat(date.year, date.month, date.day, 0.0)
    return int(offset)


def _day_start(day: int) -> int:
    """TAI second at which a UTC day (counted from 1970-01-01) begins."""
    return day * _DAY + _tai_utc(day)


def _split(tai: Fraction) -> tuple[int, Fraction]:
    """UTC day since 1970-01-01 and seconds into it (86400 to 86401 during a leap second) of a TAI instant."""
    day = int(tai // _DAY)
    while _day_start(day) > tai:
        day -= 1
    return day, tai - _day_start(day)


def parse_utc(value: str | int | Decimal | Fraction) -> Fraction:
    """Exact TAI seconds since 1970-01-01T00:00:00 TAI of a UTC instant.

    Parameters
    ----------
    value : str, int, Decimal or Fraction
        Unix seconds (a string of decimal digits keeps them exact), or an ISO 8601 UTC string such as
        ``"2026-03-20T20:00:00.25Z"``; ``23:59:60`` is accepted where there was a leap second. Unix seconds cannot
        name a leap second: they mean the second after it.

    Raises
    ------
    TypeError
        If `value` is a float: Unix seconds as a float are exact to 0.2 µs only.
    ValueError
        If `value` is not a UTC instant or lies before 1972.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal, Fraction)):
        raise TypeError(
            f"time {value!r} is a {type(value).__name__}, which cannot hold Unix seconds exactly; "
            'write it as a string: "1774036800.25" or "2026-03-20T20:00:00.25Z"'
        )
    if isinstance(value, str) and (match := _ISO.fullmatch(value.strip())):
        return _parse_iso(value, match)
    try:
        unix = Fraction(Decimal(value.strip())) if isinstance(value, str) else Fraction(value)
    except (InvalidOperation, ValueError, OverflowError) as error:
        raise ValueError(
            f'time {value!r} is neither Unix seconds ("1774036800.25") nor ISO 8601 UTC ("2026-03-20T20:00:00.25Z"; '
            "no time zones other than Z)"
        ) from error
    return unix + _tai_utc(int(unix // _DAY))


def _parse_iso(value: str, match: re.Match[str]) -> Fraction:
    try:
        date = datetime.date.fromisoformat(match[1])
    except ValueError as error:
        raise ValueError(f"time {value!r}: there is no such date ({error})") from error
    day = date.toordinal() - datetime.date(1970, 1, 1).toordinal()
    hour, minute, second = int(match[2] or 0), int(match[3] or 0), Fraction(match[4] or 0)
    start = _day_start(day)
    leap = _day_start(day + 1) - start - _DAY if (hour, minute) == (23, 59) else 0
    if hour > 23 or minute > 59 or second >= 60 + leap:
        raise ValueError(f"time {value!r}: there is no such time of day (a second of 60 exists in leap seconds only)")
    return start + 3600 * hour + 60 * minute + second


def vdif_tai(epoch: int, second: int) -> Fraction:
    """TAI instant of a VDIF header's time: elapsed seconds since the start (UTC) of a half-year.

    The VDIF specification (release 1.1.1, word 0 and 1) counts seconds from the reference epoch as they pass, a leap
    second counted like any other; the conversion therefore goes through TAI, not by adding to a calendar date.

    Parameters
    ----------
    epoch : int
        Reference epoch, 0 to 63: half-years since 2000-01-01. (The six bits start again in 2032.)
    second : int
        Whole seconds since the reference epoch, 0 to 2³⁰−1.

    Raises
    ------
    ValueError
        If either is out of range.
    """
    if not 0 <= epoch < 64:
        raise ValueError(f"VDIF reference epoch {epoch} is not in 0…63: the header is damaged or is not VDIF")
    if not 0 <= second < 1 << 30:
        raise ValueError(f"VDIF second {second} is not in 0…2**30−1: the header is damaged or is not VDIF")
    date = datetime.date(2000 + epoch // 2, 7 if epoch % 2 else 1, 1)
    return Fraction(_day_start(date.toordinal() - datetime.date(1970, 1, 1).toordinal()) + second)


class SyncTime:
    """The instant of ADC sample 0 and the rate that samples are counted at.

    Parameters
    ----------
    sync_time : str, int, Decimal or Fraction
        UTC instant of sample 0 (see `parse_utc`).
    sample_rate : str, int, Decimal, Fraction or float
        Samples a second. A float is taken at its exact value.

    Raises
    ------
    ValueError
        If the rate is not positive and finite, or the time is not one.
    """

    __slots__ = ("sample_rate", "tai")

    def __init__(
        self, sync_time: str | int | Decimal | Fraction, sample_rate: str | int | Decimal | Fraction | float
    ) -> None:
        #: TAI seconds since 1970-01-01T00:00:00 TAI of sample 0.
        self.tai: Fraction = parse_utc(sync_time)
        try:
            #: Samples a second, exact.
            self.sample_rate: Fraction = Fraction(sample_rate)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"sample rate {sample_rate!r} is not a number of hertz, such as 1712000000") from error
        if self.sample_rate <= 0:
            raise ValueError(f"sample rate {sample_rate!r} Hz is not positive")

    def __repr__(self) -> str:
        return f"SyncTime({self.iso(0)!r}, {str(self.sample_rate)!r})"

    @property
    def unix(self) -> Fraction:
        """Exact Unix seconds of sample 0."""
        return self.unix_seconds(0)

    def elapsed(self, count: int) -> Fraction:
        """Exact seconds from sample 0 to sample `count`."""
        return int(count) / self.sample_rate

    def unix_seconds(self, count: int) -> Fraction:
        """Exact Unix seconds of a sample; during a leap second those of the second that follows, as POSIX has it."""
        day, second = _split(self.tai + self.elapsed(count))
        return day * _DAY + second

    def iso(self, count: int, digits: int = 9) -> str:
        """ISO 8601 UTC time of a sample, rounded down to `digits` decimals; 23:59:60 in a leap second."""
        day, second = _split(self.tai + self.elapsed(count))
        ticks = int(second * 10**digits)
        whole, fraction = divmod(ticks, 10**digits)
        hour, minute = min(whole // 3600, 23), min(whole // 60 - 60 * min(whole // 3600, 23), 59)
        date = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + day)
        text = f"{date.isoformat()}T{hour:02d}:{minute:02d}:{whole - 3600 * hour - 60 * minute:02d}"
        return f"{text}.{fraction:0{digits}d}Z" if digits else f"{text}Z"

    def time(self, counts: ArrayLike) -> Time:
        """Astropy UTC time of samples, to a few picoseconds (the resolution of `Time` itself).

        Parameters
        ----------
        counts : int or array of int
            ADC sample counts.
        """
        whole, fraction = self._tai_seconds(counts)
        day, second = np.divmod(whole, _DAY)
        return Time(_UNIX_JD + day, (second + fraction) / _DAY, format="jd", scale="tai").utc

    def _tai_seconds(self, counts: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """TAI seconds of samples as whole seconds and a remainder of a second or two."""
        samples = np.asarray(counts)
        if samples.dtype.kind not in "iu":
            raise TypeError(f"sample counts must be integers, not {samples.dtype}")
        samples = samples.astype(np.int64)
        origin = int(samples.flat[0]) if samples.size else 0
        start = self.tai + self.elapsed(origin)
        # `rate.numerator` samples last exactly `rate.denominator` seconds: take those out as integers.
        periods, rest = np.divmod(samples - origin, self.sample_rate.numerator)
        seconds = rest * (1 / float(self.sample_rate))
        whole = np.floor(seconds)
        return (
            int(start // 1) + periods * self.sample_rate.denominator + whole.astype(np.int64),
            float(start % 1) + (seconds - whole),
        )

    def count_at_tai(self, tai: Fraction) -> int:
        """Sample nearest to an exact TAI instant (halves to even)."""
        return round((tai - self.tai) * self.sample_rate)

    def count(self, time: str | int | Decimal | Fraction) -> int:
        """Sample nearest to an exact UTC instant (see `parse_utc`)."""
        return self.count_at_tai(parse_utc(time))

    def count_at_time(self, times: Time) -> NDArray[np.int64]:
        """Count of the samples nearest to astropy times, of the same shape; exact in both halves of each time."""
        tai = times.tai
        origin = Fraction(_UNIX_JD)
        pairs = zip(np.ravel(tai.jd1), np.ravel(tai.jd2), strict=True)
        counts = [self.count_at_tai((Fraction(float(a)) - origin + Fraction(float(b))) * _DAY) for a, b in pairs]
        return np.array(counts, np.int64).reshape(np.shape(tai.jd1))

    def count_at_vdif(self, epoch: int, second: int, offset: Fraction | int = 0) -> int:
        """Sample nearest to a VDIF time (see `vdif_tai`) plus an exact `offset` in seconds (frame in second, clock)."""
        return self.count_at_tai(vdif_tai(epoch, second) + offset)
