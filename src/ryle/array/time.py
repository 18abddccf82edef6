"""Between UTC and counts of ADC samples, exactly, leap seconds included; see `ryle.config.utc`."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

import ryle.array.earth  # noqa: F401  keeps astropy off the network
from ryle.config.utc import DAY, day_length, iso, parse_utc, split, vdif_tai

_UNIX_JD = 2440587.5  # Julian date of 1970-01-01T00:00:00


def unix_of(jd: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unix seconds of UTC Julian dates as files hold them: ERFA's, whose days are 86401 s long with a leap second.

    Parameters
    ----------
    jd : ndarray of float64, shape (time,)
        Julian dates from 1972 on.
    """
    day, part = np.divmod(jd - _UNIX_JD, 1)
    which, index = np.unique(day, return_inverse=True)
    lengths = np.array([day_length(int(d)) for d in which])
    return np.asarray(day * DAY + part * (lengths[index] if lengths.size else 1), np.float64)


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
        day, second = split(self.tai + self.elapsed(count))
        return day * DAY + second

    def iso(self, count: int, digits: int = 9) -> str:
        """ISO 8601 UTC time of a sample, rounded down to `digits` decimals; 23:59:60 in a leap second."""
        return iso(self.tai + self.elapsed(count), digits)

    def time(self, counts: ArrayLike) -> Time:
        """Astropy UTC time of samples, to a few picoseconds (the resolution of `Time` itself).

        Parameters
        ----------
        counts : int or array of int
            ADC sample counts.
        """
        whole, fraction = self._tai_seconds(counts)
        day, second = np.divmod(whole, DAY)
        return Time(_UNIX_JD + day, (second + fraction) / DAY, format="jd", scale="tai").utc

    def instant(self, sample: int | Fraction) -> Time:
        """Astropy UTC time of one sample, or of an instant between two: exact to 10 ps.

        Parameters
        ----------
        sample : int or Fraction
            ADC samples since sync.
        """
        day, second = divmod(self.tai + Fraction(sample) / self.sample_rate, DAY)
        return Time(_UNIX_JD + day, float(second) / DAY, format="jd", scale="tai").utc

    def _tai_seconds(self, counts: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """TAI seconds of samples as whole seconds and a remainder of a second or two."""
        samples = np.asarray(counts)
        if samples.dtype.kind not in "iu":
            raise TypeError(f"sample counts must be integers, not {samples.dtype}")
        # Counted exactly to the start of about a second's block, so that no sample depends on the others asked for.
        block = ceil(self.sample_rate)
        number, rest = np.divmod(samples.astype(np.int64), block)
        which, index = np.unique(number, return_inverse=True)
        starts = [self.tai + self.elapsed(n * block) for n in which.tolist()]
        whole = np.array([start // 1 for start in starts], np.int64)[index].reshape(rest.shape)
        fraction = np.array([float(start % 1) for start in starts], np.float64)[index].reshape(rest.shape)
        return whole, fraction + rest * (1 / float(self.sample_rate))

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
        counts = [self.count_at_tai((Fraction(float(a)) - origin + Fraction(float(b))) * DAY) for a, b in pairs]
        return np.array(counts, np.int64).reshape(np.shape(tai.jd1))

    def count_at_vdif(self, epoch: int, second: int, offset: Fraction | int = 0) -> int:
        """Sample nearest to a VDIF time (see `vdif_tai`) plus an exact `offset` in seconds (frame in second, clock)."""
        return self.count_at_tai(vdif_tai(epoch, second) + offset)
