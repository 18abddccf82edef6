"""The reference page of the observation file, written from the tables themselves.

``python -m ryle.config.reference > docs/reference/observation-file.md``
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ryle.config import tables
from ryle.config.endpoints import Endpoint
from ryle.config.observation import Observation
from ryle.problems import toml

_INTRODUCTION = """\
# The observation file

<!-- Written by `python -m ryle.config.reference`; edit the tables in src/ryle/config instead. -->

One [TOML](https://toml.io) file describes an observation. `ryle check FILE` reads it, reports every mistake in it at
once, and prints the rates, sizes and memory that follow from it. Shipped examples: {examples}.

Quantities stand in quotes with their units: `"1.712 GHz"`, `"0.5 s"`, `"8 m"`. They are read exactly. Units are

| kind | units |
|---|---|
| frequency | `Hz`, `kHz`, `MHz`, `GHz` |
| time | `s`, `ms`, `us` or `µs`, `ns`, `ps`, `min`, `h` |
| length | `m`, `km`, `cm`, `mm` |
| angle | `deg`, `arcmin`, `arcsec`, `rad`, and `12h30m49.4s` (hours) or `-30d43m17.5s` (degrees) |
| flux density | `Jy`, `mJy`, `kJy` |
| data | `B`, `KiB`, `MiB` |

Addresses are `"address:port"`, the first of a run: unicast counts the port up, multicast the group. An address range is
one address, or `"239.102.0.64+7:7148"`: that group and the 7 after it. A key without a default must be given. Tables
marked optional may be absent.
"""


def page() -> str:
    """Write the page in Markdown (MyST)."""
    from ryle.config.reading import EXAMPLES

    names = ", ".join(f"`{p.name}`" for p in sorted(EXAMPLES.glob("*.toml")))
    parts = [_INTRODUCTION.format(examples=names)]
    shared: dict[type[BaseModel], list[str]] = {}
    for path, model, _ in sections():
        shared.setdefault(model, []).append(f"`{path}`")
    optional = {model: may for _, model, may in sections()}
    parts += [_section(", ".join(paths), model, optional[model]) for model, paths in shared.items()]
    return "\n".join(parts)


def sections(model: type[BaseModel] = Observation, path: str = "") -> Iterator[tuple[str, type[BaseModel], bool]]:
    """Walk the tables: heading such as ``[[simulate.sources]]``, model, whether it may be absent."""
    for name, field in model.model_fields.items():
        inner, many = _table_in(field.annotation)
        if inner is not None:
            key = f"{path}.{name}" if path else name
            yield f"[[{key}]]" if many else f"[{key}]", inner, not field.is_required()
            yield from sections(inner, key)


def _section(heading: str, model: type[BaseModel], optional: bool) -> str:
    about = " ".join((model.__doc__ or "").split(": ", 1)[1].split()).replace("``", "`").rstrip(".")
    note = " Optional." if optional else ""
    lines = [f"## {heading}", "", f"{about[0].upper()}{about[1:]}.{note}", ""]
    rows = [_row(key, field) for key, field in model.model_fields.items() if _table_in(field.annotation)[0] is None]
    if rows:
        lines += ["| key | value | default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(key: str, field: FieldInfo) -> str:
    kind = _kind(field.annotation, field.metadata)
    bounds = _bounds(field)
    about = (field.description or "").replace("[", "\\[")  # no link
    return f"| `{key}` | {kind}{bounds} | {_default(field, kind)} | {about} |"


def _bounds(field: FieldInfo) -> str:
    signs = {"gt": "> ", "ge": "≥ ", "lt": "< ", "le": "≤ "}
    found = [
        f"{sign}{getattr(m, name)}"
        for m in field.metadata
        for name, sign in signs.items()
        if getattr(m, name, None) is not None
    ]
    return f", {', '.join(found)}" if found else ""


def _default(field: FieldInfo, kind: str) -> str:
    if field.is_required():
        return f"required, e.g. `{field.examples[0]}`" if field.examples else "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return "absent"
    units = {"frequency": "Hz", "time": "s", "length": "m", "angle": "deg", "flux density": "Jy", "data": "B"}
    if kind in units and isinstance(value, int | float | Fraction):
        return f'`"{float(value):.10g} {units[kind]}"`'
    if isinstance(value, Endpoint):
        return f'`"{value}"`'
    return f"`{toml(value)}`"


def _kind(annotation: Any, metadata: Any = ()) -> str:
    """Name a type as a writer of TOML would."""
    for m in metadata:
        if isinstance(m, WithJsonSchema) and m.json_schema:
            return str(m.json_schema["kind"])
    if hasattr(annotation, "__metadata__"):
        return _kind(annotation.__origin__, annotation.__metadata__)
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false", Endpoint: "address"}
    if annotation in plain:
        return plain[annotation]
    origin, inner = get_origin(annotation), [a for a in get_args(annotation) if a is not type(None)]
    if origin is Literal:
        return " or ".join(f"`{toml(a)}`" for a in inner)
    if origin is list:
        return f"list of {_kind(inner[0])}"
    if origin is tuple:
        return f"three of {_kind(inner[0])}"
    return " or ".join(_kind(a) for a in inner)


def _table_in(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Find the table that a field holds, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, tables.Table):
        return annotation, False
    for inner in get_args(annotation):
        found, many = _table_in(inner)
        if found is not None:
            return found, many or get_origin(annotation) is list
    return None, False


if __name__ == "__main__":
    print(page(), end="")
