"""Text files of antennas: ``name east north up``, in metres, and what an antenna has of its own, a line each."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ryle.problems import did_you_mean

_LONGEST = 16 << 20  # characters
_WORDS = "diameter=13.5 (m) and feed_angles=45,-45 (degrees, one a polarization)"


def read(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Read antennas as they would stand in ``[[array.antennas]]``, and the numbers of their lines.

    Values are separated by blanks or commas; # starts a comment. Behind the position may stand words ``key=value`` and
    the addresses that the antenna's digitizers send to.

    Parameters
    ----------
    path : Path
        Text in UTF-8.

    Raises
    ------
    OSError, UnicodeDecodeError
        If it cannot be read.
    ValueError
        Naming file and line, if one makes no sense, or if there is no antenna.
    """
    antennas: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        text = line.split("#")[0].split()
        if not text:
            continue
        try:
            antennas.append(_antenna(text))
        except ValueError as error:
            raise ValueError(f"line {number} of {path.name} {error}: {line!r}") from None
        lines.append(number)
    if not antennas:
        raise ValueError(f"{path.name} has no line of 'name east north up'")
    return antennas, lines


def _text(path: Path) -> str:
    with path.open(encoding="utf-8-sig") as file:
        text = file.read(_LONGEST + 1)  # a device without an end is not read for ever
    if len(text) > _LONGEST:
        raise ValueError(f"{path.name} is longer than {_LONGEST >> 20} MiB, so it is no table of antennas")
    return text


def _antenna(text: list[str]) -> dict[str, Any]:
    named = [t.rstrip(",") for t in text[1:] if "=" in t]
    words = " ".join(t for i, t in enumerate(text) if i == 0 or "=" not in t).replace(",", " ").split()
    try:
        name, *enu = words[:4]
        e, n, u = (float(x) for x in enu)
    except ValueError:
        raise ValueError("is not 'name east north up' in metres") from None
    antenna: dict[str, Any] = {"name": name, "enu": [f"{e!r} m", f"{n!r} m", f"{u!r} m"]}
    if words[4:]:
        antenna["digitizers"] = words[4:]
    for word in named:
        key, value = word.split("=", 1)
        if key not in _KEYS:
            raise ValueError(f"has {word}, which is not known; {did_you_mean(key, _KEYS)}there are {_WORDS}")
        if key in antenna:
            raise ValueError(f"gives {key} twice; once is enough")
        antenna[key] = _KEYS[key](word, value)
    return antenna


def _diameter(word: str, value: str) -> str:
    metres = _number(word, value)
    if metres <= 0:
        raise ValueError(f"has {word}; a diameter is above 0 m")
    return f"{metres!r} m"


def _feed_angles(word: str, value: str) -> list[str]:
    return [f"{_number(word, angle)!r} deg" for angle in value.split(",")]


def _number(word: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"has {word}; write numbers without blanks and units, such as {_WORDS}")
    return number


_KEYS: dict[str, Callable[[str, str], Any]] = {"diameter": _diameter, "feed_angles": _feed_angles}
