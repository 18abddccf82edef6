"""UTC instants and VDIF's times as exact TAI seconds, leap seconds included.

A digitizer counts samples through a leap second as through any other second, while Unix time repeats one. Everything is
therefore kept as TAI: an exact number of TAI seconds since 1970-01-01T00:00:00 TAI, a `fractions.Fraction`.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import erfa

DAY = 86400
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
    return day * DAY + _tai_utc(day)


def day_length(day: int) -> int:
    """Seconds of a UTC day counted from 1970-01-01: one more if it ends with a leap second."""
    return _day_start(day + 1) - _day_start(day)


def split(tai: Fraction) -> tuple[int, Fraction]:
    """Give the UTC day since 1970-01-01 and seconds into it (86400 to 86401 during a leap second) of a TAI instant."""
    day = int(tai // DAY)
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
    return unix + _tai_utc(int(unix // DAY))


def _parse_iso(value: str, match: re.Match[str]) -> Fraction:
    try:
        date = datetime.date.fromisoformat(match[1])
    except ValueError as error:
        raise ValueError(f"time {value!r}: there is no such date ({error})") from error
    day = date.toordinal() - datetime.date(1970, 1, 1).toordinal()
    hour, minute, second = int(match[2] or 0), int(match[3] or 0), Fraction(match[4] or 0)
    start = _day_start(day)
    leap = day_length(day) - DAY if (hour, minute) == (23, 59) else 0
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


def vdif_epoch(tai: Fraction) -> int:
    """Find the last of VDIF's reference epochs, half-years since 2000, that began before an instant or at it."""
    day, _ = split(tai)
    date = datetime.date.fromordinal(day + datetime.date(1970, 1, 1).toordinal())
    return 2 * (date.year - 2000) + (date.month > 6)


def iso(tai: Fraction, digits: int = 9) -> str:
    """ISO 8601 UTC time of an instant, rounded down to `digits` decimals; 23:59:60 in a leap second."""
    day, second = split(tai)
    ticks = int(second * 10**digits)
    whole, fraction = divmod(ticks, 10**digits)
    hour, minute = min(whole // 3600, 23), min(whole // 60 - 60 * min(whole // 3600, 23), 59)
    date = datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + day)
    text = f"{date.isoformat()}T{hour:02d}:{minute:02d}:{whole - 3600 * hour - 60 * minute:02d}"
    return f"{text}.{fraction:0{digits}d}Z" if digits else f"{text}Z"
