"""Cores of a processor, as they stand in an observation file: ``7``, or ``"0-3,8"``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

_MOST = 1024
_WANTED = 'write a list, an entry an engine: a core such as 2, or several such as "4-7,12"; cores are 0 to 1023'
_RUN = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


def read_cores(value: Any) -> tuple[int, ...]:
    """Read one entry: the cores that an engine runs on, each once, in the order that they were written in.

    Raises
    ------
    ValueError
        If it is none; says how to write one.
    """
    if isinstance(value, tuple):  # read already
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(_WANTED)
    cores: list[int] = []
    for part in str(value).split(","):
        if (run := _RUN.fullmatch(part.strip())) is None:
            raise ValueError(_WANTED)
        first, last = int(run[1]), int(run[2] or run[1])
        if not first <= last < _MOST:
            raise ValueError(_WANTED)
        cores += range(first, last + 1)
    return tuple(dict.fromkeys(cores))


def _read_sets(value: Any) -> list[tuple[int, ...]]:
    if not isinstance(value, list):
        raise ValueError(_WANTED)
    return [read_cores(entry) for entry in value]


def _read_node(value: Any) -> Any:
    known = value is None or value == "auto" or (type(value) is int and 0 <= value < _MOST)
    if not known:
        raise ValueError(f'write the number of a node, 0 to {_MOST - 1}, or "auto"')
    return value


#: Of engines of a kind, which take entries in turn.
CoreSets = Annotated[
    list[tuple[int, ...]],
    BeforeValidator(_read_sets),
    WithJsonSchema({"kind": 'list such as `[2, 3]` or `["0-7", "8-15"]`'}),
]
#: A part of a computer's memory, by its number; or the part that is near what an engine uses.
Node = Annotated[
    int | Literal["auto"] | None, BeforeValidator(_read_node), WithJsonSchema({"kind": 'whole number or `"auto"`'})
]
