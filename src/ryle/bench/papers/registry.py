"""The papers' tables and figures as data: what was published, on what, and how Ryle measures the same.

Everything is checked when it is read, and a mistake is told by file, entry and key: a number compared with a wrong one
is worse than none.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

FOLDER = Path(__file__).parent
COMMANDS = FOLDER / "commands.toml"
#: Which way of a value is better; "neither" is stated, such as a setting, and compared with nothing.
BETTER = ("more", "less", "neither")
#: What a command may need: `ryle.bench.papers.measure` knows how to look for it.
NEEDS = ("gpu", "dpdk", "repository")

At = str | float
Found = TypeVar("Found")


class RegistryError(ValueError):
    """A file of the registry is wrong; the message names file, entry and key."""


@dataclass(frozen=True)
class Point:
    """One published number.

    Parameters
    ----------
    at : str or float
        Where on the entry's axis: a setting, or a number in the axis' unit.
    value : float
        In the entry's unit.
    """

    at: At
    value: float


@dataclass(frozen=True)
class Lookup:
    """Where a measured value lies in files of results.

    Parameters
    ----------
    file : str
        Name of a committed file of results; empty if none has it yet.
    command : str
        Which command measures it, if not the entry's: its file is looked into first.
    rows : str
        Path to the rows within the file, by dots; an object there is one row.
    where : dict
        What a row's fields (paths by dots) must equal.
    key : str
        Field with the value.
    times : str
        Field that it is multiplied by.
    over : dict
        What fields of another row of the same file equal, whose `key` it is divided by.
    scale, offset : float
        From the file's unit to the entry's: value × scale + offset.
    at : str
        Field with the place on the entry's axis: all rows that fit are points of a curve.
    point : str or float
        Which published point it is compared with, where an entry has several and the lookup gives one.
    best : bool
        Of several rows that fit, the best rather than the first.
    differs : str
        How what was measured differs from what was published, beside the hardware.
    card, date : str
        What it was measured on, and when, where the file does not say.
    """

    key: str
    file: str = ""
    command: str = ""
    rows: str = "results"
    where: dict[str, Any] = field(default_factory=dict)
    times: str = ""
    over: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    offset: float = 0.0
    at: str = ""
    point: At | None = None
    best: bool = False
    differs: str = ""
    card: str = ""
    date: str = ""


@dataclass(frozen=True)
class Entry:
    """One column of a table, one curve of a figure, or one number of the text.

    Parameters
    ----------
    label : str
        "Table 1", "Fig. 6", "Sec. 5.5".
    name : str
        Which of the label's; distinct within it.
    unit : str
        Of the values.
    better : str
        One of `BETTER`.
    on : str
        Which of the paper's hardware.
    how : str
        How it was measured there, and where in the paper the numbers stand.
    ours : str
        How Ryle measures the same.
    points : tuple of Point
        Published numbers; empty for a curve of which the text gives none.
    axis : str
        What the points lie along, with its unit.
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    readings : bool
        Whether the points are readings of one quantity, one after the other: their median is compared.
    drawn : bool
        Whether a picture shows it; shares of another entry need none.
    command : str
        Key in `commands.toml` of what measures it.
    needs : str
        What is lacking to measure those points that no lookup is for.
    measured : tuple of Lookup
        Where measured values lie, the first that is there; one for each point where they have a `point`.
    """

    label: str
    name: str
    unit: str
    better: str
    on: str
    how: str
    ours: str
    points: tuple[Point, ...] = ()
    axis: str = ""
    log: str = ""
    readings: bool = False
    drawn: bool = True
    command: str = ""
    needs: str = ""
    measured: tuple[Lookup, ...] = ()


@dataclass(frozen=True)
class Paper:
    """One paper.

    Parameters
    ----------
    key : str
        Name of its file.
    title, authors, reference : str
        What it is called, whose it is, where it appeared.
    year : int
        When.
    hardware : dict of str
        Short name to what it was measured on.
    drawings : dict of str
        Labels that have no number, and what they show.
    entry : tuple of Entry
        Everything else.
    """

    key: str
    title: str
    authors: str
    reference: str
    year: int
    hardware: dict[str, str]
    drawings: dict[str, str]
    entry: tuple[Entry, ...]

    @property
    def labels(self) -> list[str]:
        """All labels, in order, each once."""
        return list(dict.fromkeys([*(entry.label for entry in self.entry), *self.drawings]))


@dataclass(frozen=True)
class Command:
    """One command that measures.

    Parameters
    ----------
    key : str
        Its name; its figures are ``key.json`` in a folder of measurements.
    run : str
        As one types it, in an empty folder (with need of a "repository": at its top).
    seconds : float
        What it may take.
    writes : str
        File that it writes there; empty if none, and its exit status is what it says.
    needs : tuple of str
        Of `NEEDS`.
    """

    key: str
    run: str
    seconds: float
    writes: str = ""
    needs: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command line."""
        return shlex.split(self.run)


def load_commands(path: Path = COMMANDS) -> dict[str, Command]:
    """Read which commands there are.

    Raises
    ------
    RegistryError
        If the file is wrong.
    """
    found = {}
    for key, given in _read(path).items():
        where = f"{path.name}: command {key!r}"
        command = _build(Command, {"key": key, **_object(given, where)}, where)
        for need in command.needs:
            if need not in NEEDS:
                raise RegistryError(f"{where}: needs: {need!r} is none of {', '.join(NEEDS)}")
        if command.seconds <= 0:
            raise RegistryError(f"{where}: seconds: {command.seconds:g} is not above 0")
        found[key] = command
    return found


def load_papers(folder: Path = FOLDER, commands: Mapping[str, Command] | None = None) -> list[Paper]:
    """Read all papers of a folder, the latest last.

    Parameters
    ----------
    folder : Path
        With a TOML file a paper, and ``commands.toml``.
    commands : mapping, optional
        What entries may name, if not what that file has.

    Raises
    ------
    RegistryError
        If a file is wrong.
    """
    commands = load_commands(folder / COMMANDS.name) if commands is None else commands
    paths = sorted(path for path in folder.glob("*.toml") if path.name != COMMANDS.name)
    return sorted((load_paper(path, commands) for path in paths), key=lambda paper: paper.year)


def load_paper(path: Path, commands: Mapping[str, Command]) -> Paper:
    """Read one paper.

    Raises
    ------
    RegistryError
        If the file is wrong.
    """
    given = _read(path)
    entries = given.pop("entry", [])
    if not isinstance(entries, list):
        raise RegistryError(f"{path.name}: entry: is not a list of tables [[entry]]")
    built = []
    for number, one in enumerate(entries, 1):
        named = " ".join(str(one.get(key, "")) for key in ("label", "name")) if isinstance(one, dict) else ""
        built.append(_entry(one, f"{path.name}: entry {number} ({named.strip()})"))
    paper = _build(Paper, {**given, "key": path.stem, "entry": tuple(built)}, path.name)
    _check(paper, path.name, commands)
    return paper


def _entry(given: Any, where: str) -> Entry:
    found = dict(_object(given, where))
    if not isinstance(found.get("points", []), list):
        raise RegistryError(f"{where}: points: is not a list of [at, value]")
    points = []
    for pair in found.get("points", []):
        if not (isinstance(pair, list) and len(pair) == 2 and _fits(pair[0], At) and _fits(pair[1], float)):
            raise RegistryError(f"{where}: points: {pair!r} is not [at, value]")
        points.append(Point(*pair))
    measured = found.get("measured", [])
    lookups = [
        _build(Lookup, _object(one, f"{where}: measured"), f"{where}: measured")
        for one in (measured if isinstance(measured, list) else [measured])
    ]
    entry = _build(Entry, found | {"points": tuple(points), "measured": tuple(lookups)}, where)
    if entry.better not in BETTER:
        raise RegistryError(f"{where}: better: {entry.better!r} is none of {', '.join(BETTER)}")
    if entry.log not in ("", "x", "y", "xy"):
        raise RegistryError(f"{where}: log: {entry.log!r} is none of '', x, y, xy")
    if len({point.at for point in points}) < len(points):
        raise RegistryError(f"{where}: points: two are at the same place")
    if entry.better != "neither" and not lookups and not entry.needs:
        raise RegistryError(f"{where}: needs: give it, or say in `measured` where the value lies")
    for lookup in lookups:
        if lookup.point is not None and all(point.at != lookup.point for point in points):
            raise RegistryError(f"{where}: measured: point: no point is at {lookup.point!r}")
    return entry


def _check(paper: Paper, name: str, commands: Mapping[str, Command]) -> None:
    """Find what one entry alone cannot show."""
    seen = set()
    for entry in paper.entry:
        where = f"{name}: entry ({entry.label} {entry.name})"
        if (entry.label, entry.name) in seen:
            raise RegistryError(f"{where}: name: there are two of it")
        seen.add((entry.label, entry.name))
        if entry.on not in paper.hardware:
            raise RegistryError(f"{where}: on: {entry.on!r} is none of {', '.join(paper.hardware)}")
        if entry.label in paper.drawings:
            raise RegistryError(f"{where}: label: is among the drawings too")
        for command in (entry.command, *(lookup.command for lookup in entry.measured)):
            if command and command not in commands:
                raise RegistryError(f"{where}: command: {command!r} is none of {', '.join(commands)}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise RegistryError(f"{path.name}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"{path.name}: {error}") from None


def _object(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise RegistryError(f"{where}: is not a table")
    return given


def _build(kind: type[Found], given: Mapping[str, Any], where: str) -> Found:
    """Make a dataclass of a table: no key too many, none missing, each of its type."""
    types = get_type_hints(kind)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise RegistryError(f"{where}: {key}: there is no such key; there are {', '.join(known)}")
    for key, one in known.items():
        if key not in given and one.default is MISSING and one.default_factory is MISSING:
            raise RegistryError(f"{where}: {key}: is missing")
    made = {}
    for key, value in given.items():
        made[key] = tuple(value) if isinstance(value, list) and get_origin(types[key]) is tuple else value
        if not _fits(made[key], types[key]):
            raise RegistryError(f"{where}: {key}: {value!r} is not {_called(types[key])}")
    return kind(**made)


def _fits(value: Any, kind: Any) -> bool:
    """Say whether a value is of a type, of those that the dataclasses here have."""
    if kind is Any:
        return True
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(one, inner[1]) for one in value.values())
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _called(kind: Any) -> str:
    names: Sequence[tuple[Any, str]] = ((str, "a text"), (float, "a number"), (int, "a whole number"), (bool, "a bool"))
    return next((name for one, name in names if kind is one), f"{kind}".replace("typing.", ""))
