"""TOML files as people save them: byte order marks, other encodings, and what is no text at all."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ryle.problems import ConfigError, Problem, of_system

_LONGEST = 16 << 20  # bytes; a device without an end is not read for ever
_OTHERS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x89HDF": "HDF5", b"PK\x03\x04": "ZIP", b"\x1f\x8b": "gzip"}


def read_text(path: Path, source: str, absent: Callable[[], str]) -> str:
    """Read a file's text.

    Parameters
    ----------
    path : Path
        The file, in UTF-8, with a byte order mark or without.
    source : str
        What the file is called in errors.
    absent : callable
        Says what could have been meant if there is no such file.

    Raises
    ------
    ConfigError
        If it cannot be read or is no text; it says why and what to do.
    """

    def refused(remedy: str) -> ConfigError:
        return ConfigError(source, [Problem("(file)", None, remedy)])

    try:
        with path.open("rb") as file:
            found = file.read(_LONGEST + 1)
    except FileNotFoundError:
        raise refused(absent()) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise refused(f"cannot be read: {of_system(error) if isinstance(error, OSError) else error}") from None
    if len(found) > _LONGEST:
        raise refused(f"is longer than {_LONGEST >> 20} MiB, so it is no TOML file; name the one that you wrote")
    for start, kind in _OTHERS.items():
        if found.startswith(start):
            other = "save it as UTF-8" if kind == "UTF-16" else "name the TOML file that describes what you want"
            raise refused(f"is a {kind} file; {other}")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found[: error.start].count(b"\n") + 1
        raise refused(f"line {line} is not UTF-8 text; save the file as UTF-8") from None


def read_toml(text: str, source: str) -> dict[str, Any]:
    """Read TOML text.

    Raises
    ------
    ConfigError
        If it is none; it shows the line.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: integers of thousands of digits
        remedy = f"not valid TOML: {error}"
        if match := re.search(r"\(at line (\d+), column \d+\)", str(error)):
            line = text.split("\n")[int(match.group(1)) - 1].strip()
            remedy += f"; the line reads: {line[:100]}"
            if re.search(r"=\s*[-+]?[\d.]+\s*[A-Za-zµ]+\s*(#.*)?$", line):
                remedy += "\n    quantities stand in quotes, with their units"
        raise ConfigError(source, [Problem("(file)", None, remedy)]) from None
