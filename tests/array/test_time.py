from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from astropy.time import Time

from ryle.array.time import SyncTime, unix_of
from ryle.config.utc import parse_utc, vdif_tai


def test_unix_and_iso_name_the_same_instant() -> None:
    # 20532 days from 1970-01-01 to 2026-03-20, and 37 s between UTC and TAI.
    unix = 20532 * 86400 + 20 * 3600
    assert unix == 1774036800
    expected = unix + 37
    for value in (
        unix,
        str(unix),
        Decimal(unix),
        Fraction(unix),
        "2026-03-20T20:00:00Z",
        "2026-03-20 20:00",
        "2026-03-20T20:00:00",
    ):
        assert parse_utc(value) == expected
    assert parse_utc("1774036800.000000000123") == expected + Fraction(123, 10**12)
    assert parse_utc("2026-03-20T20:00:00.000000000123Z") == expected + Fraction(123, 10**12)
    assert parse_utc("2026-03-20") == 20532 * 86400 + 37


def test_counts_are_exact() -> None:
    sync = SyncTime("1774036800.25", 1712000000)
    assert sync.count("2026-03-20T20:00:01.5Z") == 2140000000
    assert sync.iso(2140000000) == "2026-03-20T20:00:01.500000000Z"
    assert sync.iso(2140000001) == "2026-03-20T20:00:01.500000000Z"
    assert sync.iso(2140000002) == "2026-03-20T20:00:01.500000001Z"
    assert sync.iso(0, 0) == "2026-03-20T20:00:00Z"
    assert sync.unix == Fraction("1774036800.25")
    # One sample at a count of 1e15 (a week later) is not lost.
    assert sync.unix_seconds(10**15 + 1) - sync.unix_seconds(10**15) == Fraction(1, 1712000000)


def test_sampling_goes_on_through_a_leap_second() -> None:
    sync = SyncTime("2016-12-31T23:59:59Z", 1000)
    assert sync.unix == 1483228799
    assert sync.count("2016-12-31T23:59:60Z") == 1000
    assert sync.count("2016-12-31T23:59:60.5Z") == 1500
    assert sync.count("2017-01-01T00:00:00Z") == 2000
    assert sync.count("1483228800") == 2000
    assert [sync.iso(count, 3)[11:] for count in (999, 1000, 1500, 1999, 2000)] == [
        "23:59:59.999Z", "23:59:60.000Z", "23:59:60.500Z", "23:59:60.999Z", "00:00:00.000Z",
    ]  # fmt: skip
    assert [sync.unix_seconds(count) - 1483228799 for count in (999, 1000, 1500, 2000)] == [
        Fraction("0.999"), 1, Fraction("1.5"), 1,
    ]  # fmt: skip
    assert sync.time([999, 1500, 2000]).iso.tolist() == [
        "2016-12-31 23:59:59.999",
        "2016-12-31 23:59:60.500",
        "2017-01-01 00:00:00.000",
    ]
    assert sync.count_at_time(Time("2016-12-31T23:59:60.500", scale="utc")) == 1500
    assert sync.count_at_time(Time(["2017-01-01T00:00:00", "2016-12-31T23:59:59"], scale="utc")).tolist() == [2000, 0]


def test_unix_seconds_of_julian_dates() -> None:
    """On the day of a leap second, and on others."""
    sync = SyncTime("2016-12-31T12:00:00Z", 1000)
    counts = np.array([0, 1000, 43199000, 43200250, 43201000, 86401000])
    found = unix_of(sync.time(counts).jd)
    assert found == pytest.approx([float(sync.unix_seconds(int(c))) for c in counts], abs=50e-6)
    assert unix_of(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("rate", ["1712000000", "156250000/3", "4000000000", "0.5", "1953125000/7"])
def test_astropy_times_hold_every_sample(rate: str, rng: np.random.Generator) -> None:
    sync = SyncTime(f"{rng.integers(1.0e9, 1.8e9)}.{rng.integers(10**9):09d}", Fraction(rate))
    largest = min(10**15, int(86400 * 300 * sync.sample_rate))
    counts = rng.integers(-largest // 100, largest, 200)
    times = sync.time(counts)
    assert times.scale == "utc"
    for time, count in zip(times.tai, counts, strict=True):
        tai = (Fraction(float(time.jd1)) - Fraction(2440587.5) + Fraction(float(time.jd2))) * 86400
        assert abs(tai - sync.tai - sync.elapsed(count)) < Fraction(2, 10**11)
    np.testing.assert_array_equal(sync.count_at_time(times), counts)
    for some in (slice(7, 8), slice(100, None), slice(50, None, -1)):  # a time does not depend on the others asked for
        again, same = sync.time(counts[some]), times[some]
        assert np.array_equal(again.jd1, same.jd1) and np.array_equal(again.jd2, same.jd2)
    for count in counts[:20].tolist():
        assert sync.count(sync.unix_seconds(count)) == count


def test_time_agrees_with_astropy(rng: np.random.Generator) -> None:
    for year in rng.integers(1973, 2027, 20):
        month, day, hour, minute = rng.integers([1, 1, 0, 0], [13, 29, 24, 60])
        text = f"{year}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:17.25"
        expected = (Time(text, scale="utc") - Time("1970-01-01T00:00:00", scale="tai")).to_value("s")
        assert float(parse_utc(text + "Z")) == pytest.approx(expected, abs=1e-6)
        assert SyncTime(text, 1).iso(0, 2) == text + "Z"


def test_days_begin_at_utc_midnight_whatever_the_leap_seconds_then() -> None:
    # TAI−UTC was 10 s in early 1972 and 25 s in 1990.
    for start in ("1972-01-01", "1990-03-01", "2026-03-01"):
        for second in ("00", "09", "59"):
            assert SyncTime(f"{start}T00:00:{second}Z", 1).iso(0, 0) == f"{start}T00:00:{second}Z"
    assert parse_utc("1972-01-01") == 730 * 86400 + 10
    assert parse_utc("1990-03-01") == 7364 * 86400 + 25


def test_scalar_and_empty_counts() -> None:
    sync = SyncTime("2026-03-20T20:00:00Z", 1000)
    assert sync.time(1500).isot == "2026-03-20T20:00:01.500"
    assert sync.time(np.zeros(0, np.int64)).shape == (0,)
    assert sync.time(np.array([[0], [1]])).shape == (2, 1)
    with pytest.raises(TypeError, match="must be integers, not float64"):
        sync.time(1.5)


def test_vdif_seconds_count_the_leap_second() -> None:
    # Epoch 33 begins 2016-07-01; 184 days of 86400 s later comes 23:59:60.
    sync = SyncTime("2016-12-31T23:59:58Z", 32000000)
    last = 184 * 86400 - 1
    assert sync.iso(sync.count_at_vdif(33, last), 0) == "2016-12-31T23:59:59Z"
    assert sync.iso(sync.count_at_vdif(33, last + 1), 0) == "2016-12-31T23:59:60Z"
    assert sync.iso(sync.count_at_vdif(33, last + 2), 0) == "2017-01-01T00:00:00Z"
    assert vdif_tai(33, last + 2) == vdif_tai(34, 0)
    assert sync.count_at_vdif(33, last + 1, Fraction(1, 1000)) == 2 * 32000000 + 32000
    # No leap second in this one: 181 days.
    assert vdif_tai(52, 181 * 86400) == vdif_tai(53, 0)
    assert vdif_tai(0, 0) == parse_utc("2000-01-01")


def test_vdif_agrees_with_baseband(rng: np.random.Generator) -> None:
    vdif = pytest.importorskip("baseband.vdif")
    sync = SyncTime("2016-01-01", 1000)
    fixed = {"edv": 0, "bps": 2, "nchan": 1, "complex_data": False, "frame_length": 629, "thread_id": 0, "station": 1}
    epochs = [33, 33, *rng.integers(0, 54, 10).tolist()]
    seconds = [184 * 86400, 184 * 86400 + 1, *rng.integers(0, 15_000_000, 10).tolist()]
    for epoch, second in zip(epochs, seconds, strict=True):
        header = vdif.VDIFHeader.fromvalues(ref_epoch=epoch, seconds=second, frame_nr=0, **fixed)
        assert sync.count_at_vdif(epoch, second) == sync.count_at_time(header.get_time())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("yesterday", "neither Unix seconds"),
        ("2026-03-20T20:00:00+02:00", "no time zones"),
        ("2026-02-30T00:00:00Z", "no such date"),
        ("2026-03-20T24:00:00Z", "no such time of day"),
        ("2026-03-20T23:59:60Z", "no such time of day"),
        ("2016-12-31T12:59:60Z", "no such time of day"),
        ("2016-12-31T23:59:61Z", "no such time of day"),
        ("1971-12-31", "before 1972"),
        ("nan", "neither Unix seconds"),
        ("Infinity", "neither Unix seconds"),
        (0, "before 1972"),
    ],
)
def test_bad_times_are_refused(value: str | int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_utc(value)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="write it as a string"):
        parse_utc(1774036800.25)  # type: ignore[arg-type]
    for rate in (0, -1, "0", "fast", float("nan"), float("inf")):
        with pytest.raises(ValueError, match="sample rate"):
            SyncTime("2026-03-20", rate)
    with pytest.raises(ValueError, match="epoch 64"):
        vdif_tai(64, 0)
    with pytest.raises(ValueError, match="second 1073741824"):
        vdif_tai(3, 1 << 30)
