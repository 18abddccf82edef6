"""Packet formats as data: read from TOML, checked, and fixed by the numbers that a user supplies.

A description names the bit fields of the header, the order of the payload's axes, the code of its samples, what the
timestamp counts and what makes a packet valid. `ryle.wire.packets` compiles it. ``docs/howto/wire-formats.md`` shows
how to write one; those shipped are in ``src/ryle/wire/formats``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from ryle.problems import ConfigError, Problem, did_you_mean, explain, file_order, listed
from ryle.toml_file import read_text, read_toml
from ryle.wire.mistakes import mistakes
from ryle.wire.parameters import put_in, split
from ryle.wire.tables import AXES, PLACES, Description, HeaderField, Total, terms

__all__ = ["AXES", "FORMATS", "PLACES", "Format", "HeaderField", "Total", "names", "terms"]

FORMATS = Path(__file__).parent / "formats"
_USUAL = {"default", "example"}


class Format(Description):
    """A checked description of a packet format.

    A format with parameters is fixed by `given`. Until then it holds defaults and, where there are none, examples,
    with which it can be looked at but not used.

    Attributes
    ----------
    name : str
        Name of the shipped format, or of the file.
    lacking : tuple of str
        Parameters that must be given before the format can be used.
    """

    _name: str = "format"
    _raw: Mapping[str, Any] = {}
    _given: Mapping[str, int | str] = {}

    @property
    def name(self) -> str:
        """Name of the shipped format, or of the file."""
        return self._name

    @property
    def values(self) -> dict[str, int | str]:
        """Value of each parameter: as given, or its default or example."""
        usual = {n: p.example if p.default is None else p.default for n, p in self.parameters.items()}
        return {**{n: value for n, value in usual.items() if value is not None}, **self._given}

    @property
    def spelled(self) -> str:
        """The name, and behind it the parameters that are not as usual, as `load` reads them."""
        said = [f"{n}={value}" for n, value in self._given.items() if value != self.parameters[n].default]
        return self.name + (":" + ",".join(said) if said else "")

    @property
    def said(self) -> Mapping[str, int | str]:
        """Value of each parameter that was given."""
        return self._given

    @property
    def lacking(self) -> tuple[str, ...]:
        """Parameters that must be given before the format can be used."""
        return tuple(n for n, p in self.parameters.items() if p.default is None and n not in self._given)

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Self:
        """Read a description.

        Parameters
        ----------
        name_or_path : str or path
            Name of a shipped format (`names`), or a TOML file. Parameters may follow:
            ``meerkat_digitizer:bits=8,heap_samples=1024``.

        Raises
        ------
        ConfigError
            With every mistake found: key, value, what is allowed and how to mend it.
        """
        given, values = split(os.fspath(name_or_path))
        shipped = FORMATS / f"{given}.toml"
        path = shipped if re.fullmatch(r"\w+", given) and shipped.is_file() else Path(given)
        text = read_text(path, given, lambda: _no_format(given))
        found = cls.parse(text, path.stem if path == shipped else given)
        return found.given(**values) if values else found

    @classmethod
    def parse(cls, text: str, name: str = "format") -> Self:
        """Read a description from TOML text; see `load`."""
        return cls._of(read_toml(text, name), name, {})

    def given(self, **values: int | str) -> Self:
        """Supply parameters.

        Parameters
        ----------
        **values : int or str
            Values of `parameters`; those left out keep theirs.

        Returns
        -------
        Format
            With these numbers in place, checked anew.

        Raises
        ------
        ConfigError
            If there is no such parameter, or the format makes no sense with these numbers.
        """
        problems = [
            Problem(
                f"parameters.{n}",
                v,
                f"no such parameter; {did_you_mean(n, self.parameters)}there are {listed(self.parameters) or 'none'}",
            )
            for n, v in values.items()
            if n not in self.parameters
        ]
        if problems:
            raise ConfigError(self.name, problems)
        whole = {n: v if isinstance(v, str) else int(v) for n, v in values.items()}
        return self._of(self._raw, self.name, {**self._given, **whole})

    def usable(self) -> Self:
        """Give the format itself, if nothing is lacking.

        Raises
        ------
        ConfigError
            That names the parameters that must be given.
        """
        problems = [
            Problem(f"parameters.{n}", None, f"give {n}, {p.means}, such as {self.name}:{n}={p.example}")
            for n, p in self.parameters.items()
            if n in self.lacking
        ]
        if problems:
            raise ConfigError(self.name, problems)
        return self

    @classmethod
    def _of(cls, raw: Mapping[str, Any], name: str, given: Mapping[str, int | str]) -> Self:
        parameters = raw.get("parameters")
        made: dict[str, Any] = dict(raw)
        problems: list[Problem] = []
        if isinstance(parameters, dict):
            tables = {n: p for n, p in parameters.items() if isinstance(p, dict)}
            usual = {n: p["default"] if "default" in p else p["example"] for n, p in tables.items() if {*p} & _USUAL}
            if none := sorted(set(tables) - set(usual)):
                remedy = "say default, or example: a usual value"
                raise ConfigError(name, [Problem(f"parameters.{n}", None, remedy) for n in none])
            made, problems = put_in(raw, {**usual, **given})
        unknown = {problem.key for problem in problems}
        try:
            found = cls.model_validate(made)
        except ValidationError as error:
            explained = [p for p in explain(error, cls, made) if p.key not in unknown]
            raise ConfigError(name, file_order([*problems, *explained], made)) from None
        if problems := [*problems, *(p for p in mistakes(found) if p.key not in unknown)]:
            raise ConfigError(name, file_order(problems, made))
        found._name, found._raw, found._given = name, raw, given
        return found


def _no_format(given: str) -> str:
    """Say what could have been meant instead of a format that there is not."""
    return f"no such format, nor such a file; {did_you_mean(given, names())}shipped are {', '.join(names())}"


def names() -> list[str]:
    """Names of the shipped formats, sorted."""
    return sorted(path.stem for path in FORMATS.glob("*.toml"))
