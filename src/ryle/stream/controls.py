"""Controls: keys of a status page that others may set, with the type and the range that they may have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_YES, _NO = ("true", "on", "yes", "1"), ("false", "off", "no", "0")
#: Types that a control may have, as they are called on a page.
TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str, "json": object}


class StatusError(ValueError):
    """What was asked of a status page cannot be; says what can."""


class Late(ValueError):  # noqa: N818 - a refusal, told to whoever asked
    """What was asked for was to hold from a time on that has passed."""


def sample_of(value: dict[str, Any], key: str = "sample") -> int | None:
    """Give the time stamp that a request names, if it names one; ValueError if it is none."""
    sample = value.get(key)
    if sample is not None and (type(sample) is not int or not 0 <= sample < 1 << 62):
        raise ValueError(f"{key} is {sample!r}: it is a time stamp, a count of samples since sync")
    return sample


def _nobody(*_: Any) -> Any:
    """Stand in for what only the owner of a control has."""
    raise TypeError("only the owner of a control gets and sets it")


@dataclass(frozen=True)
class Control:
    """A key that others may set.

    Parameters
    ----------
    type : str
        "bool", "int", "float", "str", or "json": whatever its `set` takes.
    minimum, maximum : float, optional
        The least and the most that a number may be.
    choices : tuple of str, optional
        All that a text may be.
    means : str
        What it does, with its unit, for people.
    get, set : callable
        Give and take the value; only the process that owns it has them. `set` may raise ValueError to refuse, and may
        give what whoever asked is told, such as the sample count from which on data reflect it. It is called from a
        thread of its own.
    """

    type: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    means: str = ""
    get: Callable[[], Any] = field(default=_nobody, compare=False, repr=False)
    set: Callable[[Any], dict[str, Any] | None] = field(default=_nobody, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"a control cannot be a {self.type}: {', '.join(TYPES)} can")

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type == "bool":
            return "true or false"
        what = {"int": "a whole number", "float": "a number", "str": "any text", "json": "JSON"}[self.type]
        if self.minimum is not None and self.maximum is not None:
            return f"{what} from {self.minimum:.12g} to {self.maximum:.12g}"
        if self.minimum is not None:
            return f"{what}, {self.minimum:.12g} or more"
        if self.maximum is not None:
            return f"{what}, {self.maximum:.12g} or less"
        return what

    def parsed(self, key: str, text: str) -> Any:
        """Read a value as people write it.

        Raises
        ------
        StatusError
            If it is of another type or beyond the range; says what is allowed.
        """
        value: Any = text
        try:
            if self.type == "bool":
                value = True if text.lower() in _YES else False if text.lower() in _NO else text
            elif self.type == "int":
                value = int(text, 0)
            elif self.type == "float":
                value = float(text)
            elif self.type == "json":
                value = json.loads(text)
        except (ValueError, RecursionError):
            pass  # `checked`, or the owner, says what is wrong
        return self.checked(key, value)

    def checked(self, key: str, value: Any) -> Any:
        """Give a value back if it is allowed.

        Raises
        ------
        StatusError
            If it is of another type or beyond the range; says what is allowed.
        """
        kind = TYPES[self.type]
        if self.type == "float" and type(value) is int:
            value = float(value)
        ok = type(value) is kind or self.type == "json"
        if ok and self.type in ("int", "float"):
            low = self.minimum if self.minimum is not None else float("-inf")
            high = self.maximum if self.maximum is not None else float("inf")
            ok = low <= value <= high  # a NaN is not
        if ok and self.choices:
            ok = value in self.choices
        if not ok:
            raise StatusError(f"{key} cannot be {value!r}: allowed is {self.allowed}")
        return value

    def as_dict(self) -> dict[str, Any]:
        """All that others may know, ready for JSON."""
        return {
            "type": self.type,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "choices": list(self.choices),
            "means": self.means,
        }

    @classmethod
    def from_dict(cls, parts: dict[str, Any]) -> Control:
        """Read what `as_dict` gave; ValueError if its type is unknown."""
        if parts["type"] not in TYPES:
            raise ValueError(f"{parts['type']!r} is no type of control")
        return cls(parts["type"], parts["minimum"], parts["maximum"], tuple(parts["choices"]), parts["means"])
