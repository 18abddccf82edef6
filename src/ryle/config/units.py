"""Quantities with written units, as they stand in an observation file: ``"1.712 GHz"``, ``"8 m"``, ``"12h30m"``."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator

# Exact decimal scales: a sample rate must not pick up a rounding error on its way from the file to a sample count.
_SCALES: dict[str, dict[str, str]] = {
    "frequency": {"Hz": "1", "kHz": "1e3", "MHz": "1e6", "GHz": "1e9"},
    "time": {"s": "1", "ms": "1e-3", "us": "1e-6", "µs": "1e-6", "ns": "1e-9", "ps": "1e-12", "min": "60", "h": "3600"},
    "length": {"m": "1", "km": "1e3", "cm": "1e-2", "mm": "1e-3"},
    "angle": {"deg": "1", "arcmin": "1", "arcsec": "1", "rad": "1"},
    "flux density": {"Jy": "1", "mJy": "1e-3", "kJy": "1e3"},
    "data": {"B": "1", "KiB": "1024", "MiB": "1048576"},
}
_EXAMPLES = {
    "frequency": '"1.712 GHz"',
    "time": '"0.5 s"',
    "length": '"8 m"',
    "angle": '"-30.7 deg"',
    "flux density": '"2.5 Jy"',
    "data": '"8192 B"',
}
_ANGLES = {"deg": 1.0, "arcmin": 1 / 60, "arcsec": 1 / 3600, "rad": 57.29577951308232}
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ]+)\s*")
_HOURS = re.compile(r"\s*(\d+)h(?:(\d+)m)?(?:(\d+(?:\.\d*)?)s)?\s*")
_DEGREES = re.compile(r"\s*([-+]?)(\d+)d(?:(\d+)m)?(?:(\d+(?:\.\d*)?)s)?\s*")


def parse_quantity(text: Any, kind: str) -> Fraction:
    """Read one quantity exactly.

    Parameters
    ----------
    text : str
        Number and unit, for example ``"1.712 GHz"``.
    kind : str
        One of frequency, time, length, angle, flux density, data.

    Returns
    -------
    Fraction
        The value in Hz, s, m, degrees, Jy or bytes.

    Raises
    ------
    ValueError
        If it is no string, has no unit or one of another kind.
    """
    allowed = f"a {kind} with its unit ({', '.join(_SCALES[kind])}), in quotes, such as {_EXAMPLES[kind]}"
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or match.group(2) not in _SCALES[kind]:
        raise ValueError(f"write {allowed}")
    number, unit = Decimal(match.group(1)), match.group(2)
    if kind == "angle":
        return Fraction(number) * Fraction(_ANGLES[unit]).limit_denominator(10**15)
    return Fraction(number * Decimal(_SCALES[kind][unit]))


def parse_angle(text: Any) -> float:
    """Read an angle in degrees: ``"12h30m49.4s"``, ``"-30d43m17.5s"`` or a number with deg, arcmin, arcsec or rad."""
    if isinstance(text, str):
        if match := _HOURS.fullmatch(text):
            h, m, s = (float(x or 0) for x in match.groups())
            return 15 * (h + m / 60 + s / 3600)
        if match := _DEGREES.fullmatch(text):
            d, m, s = (float(x or 0) for x in match.groups()[1:])
            return (-1 if match.group(1) == "-" else 1) * (d + m / 60 + s / 3600)
    try:
        return float(parse_quantity(text, "angle"))
    except ValueError:
        raise ValueError(
            'write an angle such as "12h30m49.4s" (right ascension), "-30d43m17.5s" or "187.7 deg"'
        ) from None


def _reader(kind: str, exact: bool) -> BeforeValidator:
    def read(value: Any) -> Fraction | float:
        if isinstance(value, Fraction | float) and not isinstance(value, bool):
            return value  # already read: a model copied with changes, or a default
        quantity = parse_quantity(value, kind)
        return quantity if exact else float(quantity)

    return BeforeValidator(read)


def _read_angle(value: Any) -> float:
    return value if isinstance(value, float) else parse_angle(value)


#: Exact rational Hz and seconds; float metres, degrees and Jy; whole bytes.
Frequency = Annotated[Fraction, _reader("frequency", exact=True)]
Duration = Annotated[Fraction, _reader("time", exact=True)]
Seconds = Annotated[float, _reader("time", exact=False)]
Hertz = Annotated[float, _reader("frequency", exact=False)]
Length = Annotated[float, _reader("length", exact=False)]
Angle = Annotated[float, BeforeValidator(_read_angle)]
Flux = Annotated[float, _reader("flux density", exact=False)]


def _read_bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else int(parse_quantity(value, "data"))


Bytes = Annotated[int, BeforeValidator(_read_bytes)]


def show(value: float | Fraction, unit: str) -> str:
    """Write a value with an SI prefix and four significant digits, for people: ``show(1.712e9, "Hz")``.

    Parameters
    ----------
    value : float
        In the base unit.
    unit : str
        Base unit, such as ``"Hz"``, ``"s"``, ``"b/s"`` or ``"B"``.
    """
    value = float(value)
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "µ"), (-9, "n"), (-12, "p")):
        if abs(value) >= 10**power * 0.9999999:
            return f"{value / 10**power:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"
