"""Quantities are read exactly, and what is nearly a quantity is answered with what was meant."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryle.config.units import parse_angle, parse_quantity, show

SCALES = {
    "frequency": {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "time": {
        "s": 1,
        "ms": Fraction(1, 10**3),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),
        "μs": Fraction(1, 10**6),
        "ns": Fraction(1, 10**9),
        "ps": Fraction(1, 10**12),
        "min": 60,
        "h": 3600,
    },
    "length": {"m": 1, "km": 1000, "cm": Fraction(1, 100), "mm": Fraction(1, 1000)},
    "flux density": {"Jy": 1, "mJy": Fraction(1, 1000), "kJy": 1000},
    "data": {"B": 1, "KiB": 1024, "MiB": 1024**2},
    "angle": {"deg": 1, "arcmin": Fraction(1, 60), "arcsec": Fraction(1, 3600)},
}
UNITS = [(kind, unit, scale) for kind, scales in SCALES.items() for unit, scale in scales.items()]


@given(
    st.sampled_from(UNITS),
    st.integers(-(10**35), 10**35),
    st.integers(0, 34),
    st.integers(-40, 40),
    st.sampled_from(["", " ", "  "]),
)
def test_exact(unit, digits, places, exponent, space):
    kind, name, scale = unit
    sign, text = "-" if digits < 0 else "", str(abs(digits)).rjust(places + 1, "0")
    number = f"{sign}{text[: len(text) - places]}.{text[len(text) - places :]}e{exponent}"
    exact = Fraction(digits, 10**places) * Fraction(10) ** exponent
    assert parse_quantity(f"{number}{space}{name}", kind) == exact * scale


def test_meerkat_sample_rate_has_no_rounding():
    assert parse_quantity("1.712 GHz", "frequency") == 1_712_000_000
    assert parse_quantity("1.712 GHz", "frequency").denominator == 1


@pytest.mark.parametrize(
    ("value", "kind", "hint"),
    [
        ("8", "frequency", '"8 MHz"'),
        (8, "frequency", '"8 MHz"'),
        (1.5, "length", '"1.5 km"'),
        ("8 Mhz", "frequency", 'did you mean "8 MHz"'),
        ("8 MHZ", "frequency", 'did you mean "8 MHz"'),
        ("3 seconds", "time", 'did you mean "3 s"'),
        ("3 usec", "time", 'did you mean "3 us"'),
        ("3 mjy", "flux density", 'did you mean "3 mJy"'),
        ("8 KB", "data", 'did you mean "8 KiB"'),
        ("8 m", "frequency", "m is a unit of length"),
        ("8 furlong", "length", "furlong is no unit"),
        ("eight MHz", "frequency", "write a frequency with its unit (Hz, kHz, MHz, GHz)"),
        ("1,7 GHz", "frequency", "write a frequency"),
        ("", "time", "write a time"),
        (True, "time", "write a time"),
        (None, "time", "write a time"),
        ("1e999999999 s", "time", "write a time"),
        ("0e999999999 s", "time", "write a time"),
        ("9" * 5000 + " s", "time", "write a time"),
        ("٣ s", "time", "write a time"),
    ],
)
def test_nearly(value, kind, hint):
    with pytest.raises(ValueError) as error:
        parse_quantity(value, kind)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("12h30m49.4s", 187.70583333333333),
        ("07h00m00s", 105.0),
        ("-30d43m17.5s", -30.721527777777776),
        ("-0d30m", -0.5),
        ("90 arcmin", 1.5),
        ("3.141592653589793 rad", 180.0),
    ],
)
def test_angles(text, degrees):
    assert parse_angle(text) == pytest.approx(degrees, rel=1e-15)


@pytest.mark.parametrize("text", ["12h60m", "12h30m60s", "-30d99m", "12:30:49", "", None, [], "9" * 400 + "d"])
def test_no_angle(text):
    with pytest.raises(ValueError, match="angle"):
        parse_angle(text)


def test_show():
    assert show(1.712e9, "Hz") == "1.712 GHz"
    assert show(Fraction(1, 2000), "s") == "500 µs"
    assert show(0, "B") == "0 B"
    assert show(1e12, "b/s") == "1 Tb/s"
    assert show(999.99999999, "Hz") == "1 kHz"
