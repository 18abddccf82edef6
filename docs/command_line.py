"""The command-line reference, from the commands themselves, so that it cannot go stale."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from ryle import cli


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a subcommand; `names` of an option begin with dashes."""

    names: tuple[str, ...]
    help: str
    default: str
    choices: tuple[str, ...]
    flag: bool
    required: bool


def commands() -> dict[str, Callable[..., Any]]:
    """Functions behind all subcommands, by name ("run", "engine f")."""
    found: dict[str, Callable[..., Any]] = {}
    for name, entry in cli.COMMANDS.items():
        what = getattr(import_module(f"ryle.cli.{entry.module}"), entry.name)
        found |= _group(what, name) if isinstance(what, typer.Typer) else {name: what}
    return found


def _group(app: typer.Typer, name: str) -> dict[str, Callable[..., Any]]:
    own = app.registered_callback
    # A group may do something without a subcommand.
    found = {} if own is None or own.callback is None else {name: own.callback}
    found |= {f"{name} {c.name or c.callback.__name__}": c.callback for c in app.registered_commands if c.callback}
    for group in app.registered_groups:
        found |= _group(group.typer_instance, f"{name} {group.name}")
    return found


def parameters(command: Callable[..., Any]) -> list[Parameter]:
    """Arguments and options of a subcommand, hidden ones left out."""
    hints = typing.get_type_hints(command, include_extras=True)
    return [
        _parameter(name, hints[name], p.default)
        for name, p in inspect.signature(command).parameters.items()
        if hints[name] is not typer.Context and not _info(hints[name]).hidden
    ]


def _info(hint: Any) -> ArgumentInfo | OptionInfo:
    # An optional one is written Annotated[T, info] | None by get_type_hints of some Python versions.
    for part in (hint, *typing.get_args(hint)):
        for extra in getattr(part, "__metadata__", ()):
            if isinstance(extra, ArgumentInfo | OptionInfo):
                return extra
    raise TypeError(f"{hint} is no argument and no option")


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    info = _info(hint)
    kinds = {hint, *typing.get_args(hint)}
    kinds |= {k for kind in kinds for k in typing.get_args(kind)}
    enums = [k for k in kinds if isinstance(k, type) and issubclass(k, Enum)]
    required = default is inspect.Parameter.empty
    if isinstance(info, OptionInfo):
        long = f"--{name.replace('_', '-')}"
        # Typer takes the first of Annotated[T, Option("--output", "-o")] for a default.
        given = tuple(n for n in (info.default, *(info.param_decls or ())) if isinstance(n, str))
        given = tuple(n for both in given for n in both.split("/"))
        names = given or ((long, f"--no-{long[2:]}") if bool in kinds else (long,))
    else:
        names = ((info.metavar or name).upper(),)
    shown = "" if required or default in (None, "", False) else str(getattr(default, "value", default))
    shown = names[0] if default is True else shown
    choices = tuple(str(member.value) for kind in enums for member in kind)
    return Parameter(names, info.help or "", shown, choices, bool in kinds, required)


def page() -> str:
    """Write every subcommand with its arguments and options as MyST."""
    return "\n".join(_section(name, command) for name, command in commands().items())


def _section(name: str, command: Callable[..., Any]) -> str:
    rows = [_row(p) for p in parameters(command)]
    table = "\n".join(["| | | default |", "|---|---|---|", *rows])
    return f"## `ryle {name}`\n\n{_escaped(inspect.getdoc(command) or '')}\n\n{table}\n"


def _row(p: Parameter) -> str:
    text = p.help[:1].upper() + p.help[1:].rstrip(".") + "."
    if p.choices:
        text += f" One of {', '.join(f'`{c}`' for c in p.choices)}."
    shown = "required" if p.required else f"`{p.default}`" if p.default else ""
    return f"| {', '.join(f'`{n}`' for n in p.names)} | {_escaped(text)} | {shown} |"


def _escaped(text: str) -> str:
    return text.replace("[", "\\[").replace("|", "\\|")
