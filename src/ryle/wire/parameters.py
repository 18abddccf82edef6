"""Numbers in a description that its user supplies, put in place before it is checked.

Wherever a description has a number it may have a string such as ``"(complex + 1) * samples * bits / 8"`` instead, of
numbers, of names that its table ``[parameters]`` lists, of + - * / and brackets. What a field must be, at least or at
most, is not demanded if the parameter that says it is `ANY`.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from fractions import Fraction
from typing import Any

from ryle.problems import Problem, did_you_mean, listed

#: Where numbers stand; ``*`` is any key or index.
_NUMBERS = tuple(
    path.split(".")
    for path in (
        "header.field.*.equals", "header.field.*.min", "header.field.*.max", "header.field.*.default",
        "payload.size.*", "payload.trailer_bytes.*", "heap.length.*", "heap.offset.*", "heap.bytes.*", "heap.unit",
        "sample.bits", "sample.complex", "sample.code", "sample.bit_order", "timestamp.count.*", "timestamp.step",
        "placement.*.*", "validity.length.*",
    )
)  # fmt: skip
#: Value of a parameter that stands for no demand.
ANY = "any"
_DEMANDS = ("equals", "min", "max")
_EXPRESSION = re.compile(r"[\w\s+*/()-]+")
_SUFFIX = re.compile(r"(?P<name>[^:]*(?::[^=]*)?):(?P<values>\w+=-?\w+(?:,\w+=-?\w+)*)")


def split(name: str) -> tuple[str, dict[str, int | str]]:
    """Part a name such as ``meerkat_f:channels=64,spectra=256`` from the parameters that it gives."""
    found = _SUFFIX.fullmatch(name)
    if not found:
        return name, {}
    given = dict(pair.split("=") for pair in found["values"].split(","))
    return found["name"], {k: int(v, 0) if re.match(r"-?\d", v) else v for k, v in given.items()}


def put_in(raw: Mapping[str, Any], values: Mapping[str, int | str]) -> tuple[dict[str, Any], list[Problem]]:
    """Put the values of parameters where a description names them.

    Parameters
    ----------
    raw : mapping
        The description as TOML.
    values : mapping of str to int or str
        A value of each parameter.

    Returns
    -------
    raw : dict
        A copy with numbers.
    problems : list of Problem
        Names that are no parameters, and values that make no whole number.
    """
    made = copy.deepcopy(dict(raw))
    problems: list[Problem] = []
    for path in _NUMBERS:
        for key, holder, at in _places(made, path, ""):
            text = holder[at]
            if not isinstance(text, str) or (
                path == ["payload", "size", "*"]
                and text.strip() not in values
                and re.fullmatch(r"\s*[a-z]\w*\s*", text)
            ):
                continue  # the field that says it  # fmt: skip
            if at in _DEMANDS and values.get(text) == ANY:
                del holder[at]
            elif text in values:
                holder[at] = bool(values[text]) if at == "complex" else values[text]
            elif at not in ("code", "bit_order") and _EXPRESSION.fullmatch(text):
                worked = _worked_out(key, text, values)
                if isinstance(worked, Problem):
                    problems.append(worked)
                else:
                    holder[at] = worked
    return made, problems


def _places(holder: Any, path: list[str], key: str) -> Iterator[tuple[str, Any, Any]]:
    """Give the key, table and index of everything at a path."""
    first, rest = path[0], path[1:]
    found: list[tuple[str, Any]]
    if isinstance(holder, MutableSequence) and first == "*":
        found = [(f"{key}[{i}]", i) for i in range(len(holder))]
    elif isinstance(holder, MutableMapping):
        found = [(f"{key}.{k}".lstrip("."), k) for k in (list(holder) if first == "*" else [first]) if k in holder]
    else:
        found = []
    for name, at in found:
        if rest:
            yield from _places(holder[at], rest, name)
        else:
            yield name, holder, at


def _worked_out(key: str, text: str, values: Mapping[str, int | str]) -> int | Problem:
    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int(number)):
                return Fraction(number)
            case ast.Name(id=name):
                if isinstance(found := values.get(name), int):
                    return Fraction(found)
                guess = did_you_mean(name, values)
                raise ValueError(f"{name} is no parameter that has a number; {guess}there are {listed(values)}")
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, right=right):
                a, b = value(left), value(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                if not b:
                    raise ValueError(f"divides by {ast.unparse(right)} = 0")
                return a / b
        raise ValueError("must be made of numbers, parameters, + - * / and brackets")

    try:
        result = value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        return Problem(key, text, "must be made of numbers, parameters, + - * / and brackets")
    except ValueError as error:
        return Problem(key, text, str(error))
    if result.denominator != 1:
        given = ", ".join(f"{w} = {values[w]}" for w in dict.fromkeys(re.findall(r"[a-z]\w*", text)))
        return Problem(key, text, f"is {result} with {given}; it must be a whole number")
    return int(result)
