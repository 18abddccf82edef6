"""Every mistake of an observation file at once: which key, what stands there, what is allowed, how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError


@dataclass(frozen=True)
class Problem:
    """One mistake: the dotted key, the value found there (None if nothing), and what to write instead."""

    key: str
    value: Any
    remedy: str

    def __str__(self) -> str:
        found = "" if self.value is None else f" = {self.value!r}"
        return f"{self.key}{found}\n    {self.remedy}"


class ConfigError(Exception):
    """An observation file that cannot be used.

    Attributes
    ----------
    problems : list of Problem
        All of them, in file order.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = list(problems)
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {p}" for p in self.problems))


def _dotted(location: tuple[int | str, ...]) -> str:
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _allowed_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Keys allowed in the table that `location` (ending in the offending key) points into."""
    current: Any = model
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part)
        if field is None:
            return []
        current = _model_in(field.annotation)
        if current is None:
            return []
    return list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as ``list[Table] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (model := _model_in(inner)) is not None:
            return model
    return None


def explain(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Turn pydantic's errors into problems that say how to mend them."""
    problems = []
    for e in error.errors():
        location = tuple(part for part in e["loc"])
        key, value, context = _dotted(location) or "(file)", e.get("input"), e.get("ctx", {})
        match e["type"]:
            case "missing":
                field = _field(model, location)
                what = f": {field}" if field else ""
                value, remedy = None, f"is missing{what}; add it"
            case "extra_forbidden":
                allowed = _allowed_keys(model, location)
                close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                remedy = f"unknown key; {hint}allowed here: {', '.join(allowed)}"
            case "value_error":
                remedy = str(context.get("error", e["msg"]))
            case "literal_error":
                remedy = f"must be one of {context.get('expected')}"
            case _:
                remedy = e["msg"][0].lower() + e["msg"][1:]
        if isinstance(value, dict | list | BaseModel):
            value = None
        problems.append(Problem(key, value, remedy))
    return problems


def _field(model: type[BaseModel], location: tuple[int | str, ...]) -> str | None:
    current: Any = model
    for i, part in enumerate(location):
        if isinstance(part, int) or current is None:
            continue
        field = current.model_fields.get(part)
        if field is None:
            return None
        if i == len(location) - 1:
            return field.description
        current = _model_in(field.annotation)
    return None
