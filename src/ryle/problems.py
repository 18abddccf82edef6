"""Every mistake of an observation file at once: which key, what stands there, what is allowed, how to mend it."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

Location = tuple[int | str, ...]

_MISSING = object()
#: What to do about an error of the operating system.
_ADVICE = {
    errno.ENOENT: "look at the name, or make the directory first",
    errno.EISDIR: "name a file, not a directory",
    errno.ENOTDIR: "a part of that path is a file, not a directory; choose another",
    errno.EACCES: "choose a place and files that you may use, or ask their owner",
    errno.EPERM: "this needs rights that you do not have here; ask the administrator",
    errno.EEXIST: "choose another name; where a directory is asked for, a file must not be",
    errno.ENOSPC: "make room there or choose another place",
    errno.EDQUOT: "make room there or choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links go round in a circle; name the file itself",
    errno.EMFILE: "allow more open files: ulimit -n 4096",
    errno.ENOMEM: "free memory, or ask for less at a time",
    errno.EADDRINUSE: "another program has it: end that one, or choose another port",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address: `ip address` lists those there are",
    errno.ENETUNREACH: "no route leads there: `ip route` lists those there are",
    errno.ENODEV: "there is no such device: `ip link` lists network interfaces",
    errno.ENXIO: "it is a pipe or device that nobody serves; name a file",
    errno.EINVAL: "it is no ordinary file; choose another",
    errno.ESPIPE: "it is a pipe or device; name a file",
}


@dataclass(frozen=True)
class Problem:
    """One mistake: the dotted key, the value found there (None if nothing), and what to write instead."""

    key: str
    value: Any
    remedy: str

    def __str__(self) -> str:
        found = "" if self.value is None else f" = {toml(self.value)}"
        return f"{self.key}{found}\n    {self.remedy}"


class ConfigError(Exception):
    """An observation file that cannot be used.

    Attributes
    ----------
    source : str
        The file.
    problems : list of Problem
        All of them, in file order.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = list(problems)
        if len(self.problems) == 1:
            text = str(self.problems[0]).removeprefix("(file)").lstrip("\n ")
        else:
            text = f"{len(problems)} mistakes\n" + "\n".join(f"  {p}" for p in self.problems)
        super().__init__(f"{source}: {text}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, list[Problem]]]:
        """Let it go from one process to another."""
        return ConfigError, (self.source, self.problems)


def toml(value: Any) -> str:
    """Write a value as it stands in a TOML file, on one short line."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case datetime() | date() | time():
            text = value.isoformat()
        case list() | tuple():
            text = "[" + ", ".join(toml(v) for v in value) + "]"
        case dict():
            text = "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
        case _:
            text = str(value)
    return text if len(text) <= 100 else text[:99] + "…"


def of_system(error: OSError) -> str:
    """Write an error of the operating system with its file, and what to do about it."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    what = " and ".join(names) + ": " if names else ""
    said = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0)
    return f"{what}{said[:1].lower()}{said[1:]}" + (f"; {advice}" if advice else "")


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name a file in the system's errors of writing to it, which know only its descriptor."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def listed(names: Iterable[str]) -> str:
    """Write some names, at most eight of them: ``A0, A1, A2``."""
    names = list(names)
    return ", ".join(names[:8]) + (f" … ({len(names)} in all)" if len(names) > 8 else "")


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """Say which of the `known` words was meant, or nothing if none is close."""
    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).lower(), folded, n=1)
    return f"did you mean {folded[close[0]]}? " if close else ""


def file_order(problems: Iterable[Problem], raw: Mapping[str, Any]) -> list[Problem]:
    """Sort problems by where their keys stand in the file; a missing key comes after those of its table."""

    def place(problem: Problem) -> list[int]:
        places, here = [], raw
        for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", problem.key):
            if index:
                places.append(int(index))
                here = here[int(index)] if isinstance(here, list) and int(index) < len(here) else {}
            else:
                keys = list(here) if isinstance(here, dict) else []
                places.append(keys.index(name) if name in keys else len(keys))
                here = here.get(name, {}) if isinstance(here, dict) else {}
        return places

    return sorted(problems, key=place)


def explain(error: ValidationError, model: type[BaseModel], raw: Mapping[str, Any]) -> list[Problem]:
    """Turn pydantic's errors into problems that say how to mend them.

    Parameters
    ----------
    error : ValidationError
        What validating `raw` raised.
    model : type of BaseModel
        What `raw` was validated as.
    raw : mapping
        The file as TOML, where the values found are looked up as they were written.
    """
    problems: dict[str, Problem] = {}
    for e in error.errors():
        key, value = _dotted(e["loc"]) or "(file)", _found(raw, e["loc"])
        remedy = _remedy(e["type"], e["msg"], e["loc"], value, e.get("ctx", {}), model)
        shown = None if value is _MISSING or isinstance(value, dict) else value
        problems.setdefault(key, Problem(key, shown, remedy))  # one key, one problem: the first
    return list(problems.values())


def _remedy(
    kind: str, message: str, location: Location, value: Any, context: Mapping[str, Any], model: type[BaseModel]
) -> str:
    match kind:
        case "missing":
            return _missing(location, model)
        case "extra_forbidden":
            return _unknown(location, model)
        case "value_error":
            return str(context.get("error", message))
        case "literal_error":
            expected = str(context["expected"])
            choices = re.findall(r"'([^']*)'", expected) or re.findall(r"\d+", expected)
            shown = expected.replace("'", '"').replace(" or ", ", ")
            return f"must be one of {shown}" + (f"; {hint.strip()}" if (hint := did_you_mean(value, choices)) else "")
        case "string_type":
            return "must be text in quotes" + (f": write {toml(str(value))}" if isinstance(value, int | float) else "")
        case "int_type":
            unquoted = f": write {value} without quotes" if isinstance(value, str) and value.isdecimal() else ""
            return f"must be a whole number{unquoted}"
        case "float_type":
            return "must be a number, without quotes"
        case "bool_type":
            return "must be true or false, without quotes"
        case "list_type":
            return f"must be a list, in square brackets; for tables write [[{_dotted(location)}]] above each"
        case "model_type" | "model_attributes_type":
            return f"must be a table: write [{_dotted(location)}] above its keys"
        case "string_pattern_mismatch":
            field = _field(model, location)
            return f"is not allowed{_described(field)} (pattern {context.get('pattern')})"
        case "too_short":
            return f"needs at least {context['min_length']}"
        case "too_long":
            return f"takes at most {context['max_length']}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return _range(_field(model, location))
        case _:
            return message[0].lower() + message[1:]


def _range(field: FieldInfo | None) -> str:
    """All bounds at once, so that mending one does not run into the other."""
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    bounds = [
        f"{word} {getattr(m, name)}"
        for name, word in words.items()
        for m in (field.metadata if field else ())
        if getattr(m, name, None) is not None
    ]
    return f"must be {' and '.join(bounds)}{_described(field)}"


def _missing(location: Location, model: type[BaseModel]) -> str:
    field, name = _field(model, location), location[-1]
    table = _model_in(field.annotation) if field else None
    if field and field.examples:
        return f"is missing{_described(field)}; add {name} = {field.examples[0]}"
    if table is not None:
        needed = [f"{k} = {f.examples[0]}" for k, f in table.model_fields.items() if f.is_required() and f.examples]
        return f"the table is missing; add [{_dotted(location)}]" + (f" with {', '.join(needed)}" if needed else "")
    return f"is missing{_described(field)}; add it"


def _unknown(location: Location, model: type[BaseModel]) -> str:
    name, table = str(location[-1]), _table(model, location[:-1])
    allowed = list(table.model_fields) if table else []
    if hint := did_you_mean(name, allowed):
        return f"unknown key; {hint}allowed here: {', '.join(allowed)}"
    homes = [path for path, other in _tables(model) if name in other.model_fields]
    hint = f"it belongs in {' or '.join(f'[{h}]' if h else 'the top of the file' for h in homes)}; " if homes else ""
    return f"unknown key; {hint}allowed here: {', '.join(allowed)}"


def _described(field: FieldInfo | None) -> str:
    return f": {field.description}" if field and field.description else ""


def _dotted(location: Location) -> str:
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _found(raw: Any, location: Location) -> Any:
    """Look up what the file has at a location."""
    for part in location:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return raw


def _table(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Find the model that a location points to."""
    for part in location:
        if isinstance(part, str):
            field = model.model_fields.get(part)
            inner = _model_in(field.annotation) if field else None
            if inner is None:
                return None
            model = inner
    return model


def _field(model: type[BaseModel], location: Location) -> FieldInfo | None:
    names = [part for part in location if isinstance(part, str)]
    table = _table(model, tuple(names[:-1]))
    return table.model_fields.get(names[-1]) if table and names else None


def _tables(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Walk all tables with their dotted names."""
    yield path, model
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None and "extra" in inner.model_config:
            yield from _tables(inner, f"{path}.{name}" if path else name)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model inside an annotation such as ``list[Table] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (model := _model_in(inner)) is not None:
            return model
    return None
