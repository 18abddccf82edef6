"""The command-line reference, from the commands themselves, so that it cannot go stale."""

from __future__ import annotations

import re

import typer.main
from typer.core import TyperGroup

from ryle import cli


def application() -> TyperGroup:
    """Return the whole command as click sees it."""
    if not cli.app.registered_commands:
        cli._register()
    command = typer.main.get_command(cli.app)
    assert isinstance(command, TyperGroup)
    return command


def page() -> str:
    """Write every subcommand with its arguments and options as MyST."""
    root = application()
    parts = []
    for name, command in root.commands.items():
        if isinstance(command, TyperGroup):
            parts.append(f"## `ryle {name}`\n\n{_prose(command.help)}\n")
            parts += [_section(f"ryle {name} {n}", c, "###") for n, c in command.commands.items()]
        else:
            parts.append(_section(f"ryle {name}", command, "##"))
    return "\n".join(parts)


def _section(name: str, command: object, heading: str) -> str:
    parameters = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]  # type: ignore[attr-defined]
    rows = [_row(p) for p in parameters]
    table = "\n".join(["| | | default |", "|---|---|---|", *rows]) + "\n" if rows else ""
    return f"{heading} `{name}`\n\n{_prose(command.help)}\n\n{table}"  # type: ignore[attr-defined]


def _row(parameter: object) -> str:
    p = parameter
    if p.param_type_name == "argument":  # type: ignore[attr-defined]
        name = f"`{(p.metavar or p.name).upper().strip('{}[]')}`"  # type: ignore[attr-defined]
    else:
        names = [*p.opts, *p.secondary_opts]  # type: ignore[attr-defined]
        name = ", ".join(f"`{n}`" for n in sorted(names, key=len))
    choices = getattr(p.type, "choices", None)  # type: ignore[attr-defined]
    text = _prose(p.help)  # type: ignore[attr-defined]
    if choices:
        text += " One of " + ", ".join(f"`{getattr(c, 'value', c)}`" for c in choices) + "."
    default = p.default  # type: ignore[attr-defined]
    shown = "required" if p.required else ""  # type: ignore[attr-defined]
    if not p.required and default not in (None, "", False, ()) and not callable(default):  # type: ignore[attr-defined]
        shown = f"`{getattr(default, 'value', default)}`"
    return f"| {name} | {text} | {shown} |"


def _prose(text: str | None) -> str:
    return re.sub(r"\[(?=\w)", r"\\[", (text or "").strip()).replace("|", "\\|")
