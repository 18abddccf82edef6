"""Quantities with written units, as they stand in an observation file: ``"1.712 GHz"``, ``"8 m"``, ``"12h30m"``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

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
_ANGLES = {"deg": Fraction(1), "arcmin": Fraction(1, 60), "arcsec": Fraction(1, 3600), "rad": Fraction(180 / math.pi)}
_SPELT = {  # what people write for a unit, by what it is called here
    "hertz": "Hz", "khz": "kHz", "mhz": "MHz", "ghz": "GHz",
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "usec": "us", "nsec": "ns", "psec": "ps",
    "minute": "min", "minutes": "min", "hr": "h", "hour": "h", "hours": "h",
    "metre": "m", "metres": "m", "meter": "m", "meters": "m",
    "degree": "deg", "degrees": "deg", "radian": "rad", "radians": "rad",
    "jansky": "Jy", "byte": "B", "bytes": "B", "kb": "KiB", "mb": "MiB",
}  # fmt: skip
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµμ]*)\s*", re.ASCII)
_HOURS = re.compile(r"\s*(\d+)h(?:(\d+)m)?(?:(\d+(?:\.\d*)?)s)?\s*", re.ASCII)
_DEGREES = re.compile(r"\s*([-+]?)(\d+)d(?:(\d+)m)?(?:(\d+(?:\.\d*)?)s)?\s*", re.ASCII)
_LONGEST = 80  # characters; nobody writes longer numbers, and exact arithmetic on them could take for ever


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
        If it is no string, has no unit or one of another kind; it says what was meant, where that can be guessed.
    """
    units = _SCALES[kind]
    allowed = f"{_article(kind)} with its unit ({', '.join(units)}), in quotes, such as {_EXAMPLES[kind]}"
    if isinstance(text, int | float) and not isinstance(text, bool):
        if not _QUANTITY.fullmatch(number := f"{text:.15g}"):  # not finite, or beyond all that can be meant
            raise ValueError(f"write {allowed}")
        raise ValueError(f"has no unit: write {_one_of(number, units)}, with the quotes")
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"write {allowed}")
    number, unit = match.group(1), match.group(2).replace("μ", "µ")
    if not unit:
        raise ValueError(f"has no unit: write {_one_of(number, units)}")
    if unit not in units:
        meant = _SPELT.get(unit.lower()) or next((u for u in units if u.lower() == unit.lower()), None)
        if meant in units:
            raise ValueError(f'no unit is written {unit}: did you mean "{number} {meant}"?')
        other = next((k for k, scales in _SCALES.items() if unit in scales), None)
        wrong = f"{unit} is a unit of {other}" if other else f"{unit} is no unit known here"
        raise ValueError(f"{wrong}: write {allowed}")
    return Fraction(number) * (_ANGLES[unit] if kind == "angle" else Fraction(units[unit]))


def _one_of(number: str, units: Iterable[str]) -> str:
    *most, last = (f'"{number} {u}"' for u in units)
    return f"{', '.join(most)} or {last}"


def _article(kind: str) -> str:
    return "data sizes" if kind == "data" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _sexagesimal(whole: str, minutes: str | None, seconds: str | None) -> float:
    if float(minutes or 0) >= 60 or float(seconds or 0) >= 60:
        raise ValueError("minutes and seconds of an angle are below 60")
    return float((Fraction(seconds or 0) / 60 + int(minutes or 0)) / 60 + int(whole))


def parse_angle(text: Any) -> float:
    """Read an angle in degrees: ``"12h30m49.4s"``, ``"-30d43m17.5s"`` or a number with deg, arcmin, arcsec or rad."""
    if isinstance(text, str) and len(text) <= _LONGEST:
        if match := _HOURS.fullmatch(text):
            return 15 * _sexagesimal(*match.groups())
        if match := _DEGREES.fullmatch(text):
            return (-1 if match.group(1) == "-" else 1) * _sexagesimal(*match.groups()[1:])
        if _QUANTITY.fullmatch(text):
            return float(parse_quantity(text, "angle"))
    elif isinstance(text, int | float):
        return float(parse_quantity(text, "angle"))
    raise ValueError('write an angle such as "12h30m49.4s" (right ascension), "-30d43m17.5s" or "187.7 deg"')


#: Validation context of text from a file, where each quantity must be written with its unit.
FROM_FILE = {"units": "written"}


def _reader(kind: str, convert: Callable[[Any], Any], parse: Callable[[Any], Any] | None = None) -> BeforeValidator:
    def read(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Fraction | float | int) and not isinstance(value, bool) and info.context != FROM_FILE:
            return convert(value)  # made in Python, where the base unit is understood
        return convert(parse(value) if parse else parse_quantity(value, kind))

    return BeforeValidator(read)


def _whole(value: Any) -> int:
    if value != int(value):
        raise ValueError("write a whole number of bytes")
    return int(value)


#: Exact rational Hz and seconds; float metres, degrees and Jy; whole bytes.
Frequency = Annotated[Fraction, _reader("frequency", Fraction), WithJsonSchema({"kind": "frequency"})]
Duration = Annotated[Fraction, _reader("time", Fraction), WithJsonSchema({"kind": "time"})]
Seconds = Annotated[float, _reader("time", float), WithJsonSchema({"kind": "time"})]
Hertz = Annotated[float, _reader("frequency", float), WithJsonSchema({"kind": "frequency"})]
Length = Annotated[float, _reader("length", float), WithJsonSchema({"kind": "length"})]
Angle = Annotated[float, _reader("angle", float, parse_angle), WithJsonSchema({"kind": "angle"})]
Flux = Annotated[float, _reader("flux density", float), WithJsonSchema({"kind": "flux density"})]
Bytes = Annotated[int, _reader("data", _whole), WithJsonSchema({"kind": "data"})]

_PREFIXES = {12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n", -12: "p"}


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
    for power, prefix in _PREFIXES.items():
        if abs(value) >= 10**power * 0.9999999:
            return f"{value / 10**power:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"
