"""A kernel's parameters by name: launches name what they pass, and a wrong name is an error at once.

A compiled kernel knows how many parameters it has and how large they are, not what they are called. Its source says
that, which is read once, when the kernel is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["in_order", "parameter_names"]

Argument = TypeVar("Argument")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONDITIONAL = re.compile(r"^\s*#\s*if.*?^\s*#\s*endif[^\n]*$", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*#[^\n]*$", re.MULTILINE)


def parameter_names(source: str, kernel: str, count: int) -> tuple[str, ...]:
    """Read what a kernel's parameters are called, in order.

    Parameters
    ----------
    source : str
        CUDA C++ with the kernel's definition.
    kernel : str
        Its name.
    count : int
        How many parameters it was compiled with: some may stand between ``#if`` and ``#endif``.

    Raises
    ------
    ValueError
        If the source defines no such kernel of so many parameters.
    """
    text = _COMMENT.sub(" ", source)
    head = re.search(rf"\b(?:KERNEL\s*\([^()]*\)|__global__\b[^;{{}}]*?\bvoid)\s*{kernel}\s*\(", text)
    if head is None:
        raise ValueError(f"the source defines no kernel {kernel!r}")
    listed = text[head.end() : _closing(text, head.end())]
    found = [_names(_CONDITIONAL.sub(" ", listed)), _names(_DIRECTIVE.sub(" ", listed))]
    for names in found:
        if len(names) == count:
            return names
    raise ValueError(f"kernel {kernel!r} was compiled with {count} parameters; its source names {', '.join(found[-1])}")


def _closing(text: str, begin: int) -> int:
    """Find the parenthesis that closes the one just before `begin`."""
    depth = 1
    for found in re.compile(r"[()]").finditer(text, begin):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.start()
    return len(text)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(words[-1] for one in listed.split(",") if (words := re.findall(r"\w+", one)))


def in_order(kernel: str, names: Sequence[str], given: Mapping[str, Argument]) -> list[Argument]:
    """Put the arguments of a launch in the order of the kernel's parameters.

    Raises
    ------
    TypeError
        If one is missing, or there is no parameter of a name.
    """
    try:
        found = [given[name] for name in names]
    except KeyError:
        found = []
    if len(found) != len(names) or len(given) != len(names):
        missing = [f"lacks {name}" for name in names if name not in given]
        unknown = [f"has no parameter {name}" for name in given if name not in names]
        raise TypeError(f"{kernel} {', '.join([*missing, *unknown])}; it takes {', '.join(names)}")
    return found
