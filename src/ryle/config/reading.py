"""From a TOML file to an `Observation`, or to every mistake in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ryle.config import antenna_file, checks
from ryle.config.observation import Observation
from ryle.config.units import FROM_FILE
from ryle.problems import ConfigError, Problem, did_you_mean, explain, file_order, of_system
from ryle.toml_file import read_text, read_toml

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(path: str | Path) -> Observation:
    """Read an observation file.

    Parameters
    ----------
    path : path-like
        A TOML file; ``docs/reference/observation-file.md`` lists what may stand in it.

    Raises
    ------
    ConfigError
        With every mistake found: key, value, what is allowed and how to mend it.
    """
    path = Path(path)
    text = read_text(path, str(path), lambda: _no_file(path))
    return parse(text, str(path))


def example_names() -> list[str]:
    """Names of the shipped examples, sorted."""
    return sorted(p.stem for p in EXAMPLES.glob("*.toml"))


def example(name: str) -> Path:
    """Find a shipped example, such as ``example("demo")``.

    Raises
    ------
    ConfigError
        If there is none of that name; it lists those that there are.
    """
    path = EXAMPLES / f"{name}.toml"
    if not re.fullmatch(r"[a-z0-9_]+", name) or not path.is_file():
        names = example_names()
        remedy = f"no such example; {did_you_mean(name, names)}there are {', '.join(names)}"
        raise ConfigError("examples", [Problem("(name)", name, remedy)])
    return path


def example_files(name: str) -> list[Path]:
    """List a shipped example and the files that it reads, which must lie beside it."""
    path = example(name)
    files = read_toml(path.read_text(), str(path)).get("array", {})
    return [path, *(path.with_name(files[key]) for key in ("antenna_file",) if key in files)]


def example_title(name: str) -> str:
    """Say in one line what a shipped example observes: the beginning of its own first comment."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), example(name).read_text().splitlines())
    return re.split(r"[.:] ", " ".join(line[1:].strip() for line in lines) + " ", maxsplit=1)[0]


def parse(text: str, source: str = "observation") -> Observation:
    """Read an observation from TOML text; files that it names are looked for beside `source`. See `load`."""
    raw = read_toml(text, source)
    problems, places = _insert_antenna_file(raw, source)
    unread = {"array"} if problems else set()
    try:
        observation = Observation.model_validate(raw, context=FROM_FILE)
        valid = set(Observation.model_fields)
    except ValidationError as error:
        problems += explain(error, Observation, raw)
        tables = _valid_tables(raw)
        observation, valid = Observation.model_construct(**tables), set(tables)
    observation._source, observation._text = source, text
    problems += checks.run(observation, valid - unread)
    if problems:
        raise ConfigError(source, [_placed(p, places) for p in file_order(problems, raw)])
    return observation


def _no_file(path: Path) -> str:
    """Say what could have been meant instead of a missing file."""
    near = sorted(p.name for p in path.parent.glob("*.toml")) if path.parent.is_dir() else []
    if near:
        return f"no such file; {did_you_mean(path.name, near)}there: {', '.join(near[:8])}"
    where = "no TOML file there either" if path.parent.is_dir() else f"nor is there a directory {path.parent}"
    return f"no such file, {where}; to begin, copy {EXAMPLES / 'demo.toml'}"


def _insert_antenna_file(raw: dict[str, Any], source: str) -> tuple[list[Problem], list[str]]:
    """Put the antennas of ``array.antenna_file`` where ``[[array.antennas]]`` would stand; say where each was read."""
    array = raw.get("array")
    if not isinstance(array, dict) or not isinstance(array.get("antenna_file"), str) or "antennas" in array:
        return [], []
    name = array["antenna_file"]
    try:
        antennas, lines = antenna_file.read(Path(source).parent / name)
    except OSError as error:
        return [Problem("array.antenna_file", name, f"cannot be read: {of_system(error)}")], []
    except UnicodeDecodeError:
        return [Problem("array.antenna_file", name, "is not UTF-8 text; save the file as UTF-8")], []
    except ValueError as error:
        return [Problem("array.antenna_file", name, f"cannot be read: {error}")], []
    raw["array"] = {("antennas" if k == "antenna_file" else k): v for k, v in array.items()} | {"antennas": antennas}
    return [], [f"line {line} of {name}" for line in lines]


def _placed(problem: Problem, places: Sequence[str]) -> Problem:
    """Say where in the antenna file a mistake stands."""
    match = re.match(r"array\.antennas\[(\d+)\]", problem.key)
    if match is None or not places:
        return problem
    return replace(problem, remedy=f"{places[int(match.group(1))]}: {problem.remedy}")


def _valid_tables(raw: dict[str, Any]) -> dict[str, Any]:
    """Read what tables are right by themselves, absent ones with defaults among them."""
    tables = {}
    for name, field in Observation.model_fields.items():
        if name not in raw and field.is_required():
            continue
        try:
            if name in raw:
                reader: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
                tables[name] = reader.validate_python(raw[name], context=FROM_FILE)
            else:
                tables[name] = field.get_default(call_default_factory=True)
        except ValidationError:
            continue  # reported already
    return tables
