"""``ryle doctor``: what is mis-tuned on this machine for an observation, and what mends it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ryle.cli.completion import files

if TYPE_CHECKING:
    from ryle.config import Observation
    from ryle.config.observation import Engine
    from ryle.doctor import Finding, Machine, Needs

_MARKS = {
    "good": ("✔", "green"),
    "note": ("•", "cyan"),
    "poor": ("▲", "yellow"),
    "bad": ("✖", "red"),
    "unknown": ("?", "dim"),
}
_SAID = {"bad": "lose packets or stop", "poor": "cost speed", "note": "to know of", "unknown": "cannot be seen here"}


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="observation file: what is wanted follows from it; without it, what any correlator wants",
            autocompletion=files(".toml"),
        ),
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            "--engine", "-e", metavar="NAME", help="one that runs here (f0, x3, catcher0, fx0); may be repeated; all"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="say why of what is good too")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", "-m", help="measure for some 10 s what findings cost here")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="print a script that mends what it can, and change nothing")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Find what is mis-tuned on this machine for an observation: found, wanted, why, and what mends it.

    Nothing is changed. The exit status is 1 if there is something to mend.
    """
    from ryle.config import load
    from ryle.doctor import Machine, Needs, examine

    if engine and file is None:
        raise typer.BadParameter("engines are of an observation: name its file too", param_hint="--engine")
    needs, machine = Needs(), Machine()
    if file is not None:
        observation = load(file)
        needs = Needs.of(observation, _engines(observation, engine or []))
    found = examine(machine, needs)
    if measure:
        found = _measured(found, machine, needs)
    every = [f for part in found.values() for f in part]
    if fix:
        from ryle.doctor.fix import script

        typer.echo(script(every), nl=False)
    elif as_json:
        typer.echo(json.dumps({part: [f.plain() for f in of] for part, of in found.items()}, indent=2))
    else:
        Console().print(report(found, everything))
    if any(f.wrong for f in every):
        raise typer.Exit(1)


def _engines(o: Observation, names: Iterable[str]) -> list[tuple[Engine, int]]:
    """Read engines' names."""
    found: list[tuple[Engine, int]] = []
    for name in names:
        kinds: dict[str, Engine] = {str(kind): kind for kind in o.engines}
        read = re.fullmatch(r"([a-z]+)(\d+)", name)
        if read is None or read[1] not in kinds or int(read[2]) >= o.engines[kinds[read[1]]]:
            have = ", ".join(
                f"{kind}0{f' to {kind}{count - 1}' if count > 1 else ''}" for kind, count in o.engines.items()
            )
            raise typer.BadParameter(f"{name} is none of this observation: it has {have}", param_hint="--engine")
        found.append((kinds[read[1]], int(read[2])))
    return found


def _measured(found: Mapping[str, list[Finding]], machine: Machine, needs: Needs) -> dict[str, list[Finding]]:
    from ryle.doctor.measure import measured
    from ryle.monitor.progress import status_line

    with status_line() as say:
        told = measured(machine, needs, lambda what: say(f"measuring {what}"))
    return {part: [replace(f, measured=told.get(f.key, "")) for f in of] for part, of in found.items()}


def report(found: Mapping[str, Sequence[Finding]], everything: bool = False) -> RenderableType:
    """Lay out findings by part: what is wrong with why and what mends it, the rest in a line each."""
    lines: list[RenderableType] = []
    for part, of in found.items():
        if not of:
            continue
        lines.append(Text(f"\n{part}", style="bold"))
        for f in of:
            lines += _told(f, everything or f.wrong or bool(f.measured))
    every = [f for of in found.values() for f in of]
    counts = {state: sum(f.state == state for f in every) for state in ("bad", "poor", "note", "unknown")}
    said = ", ".join(f"{n} {_SAID[state]}" for state, n in counts.items() if n)
    good = sum(f.state == "good" for f in every)
    lines.append(Text(f"\n{good} of {len(every)} are as they should be{f'; {said}' if said else ''}.", style="bold"))
    if any(f.wrong for f in every):
        lines.append(Text("A script that mends what it can: ryle doctor … --fix", style="dim"))
    return Group(*lines)


def _told(f: Finding, whole: bool) -> list[RenderableType]:
    mark, style = _MARKS[f.state]
    head = Text.assemble((f.key, "bold" if f.wrong else ""), f" {f.where}" if f.where else "", f": {f.found}")
    if f.wanted and f.state != "good":
        head.append(f"; wanted: {f.wanted}")
    below = [head]
    if whole:
        below += [Text(f.why)] if f.why else []
        below += [Text(f"measured by others: {f.effect}", style="dim")] if f.effect else []
        below += [Text(f"measured here: {f.measured}", style="cyan")] if f.measured else []
        below += [Text(f"→ {mend}", style="green") for mend in f.mends]
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column()
    for text, line in zip((mark, *[""] * len(below)), below, strict=False):
        grid.add_row(Text(f" {text}", style=style), line)
    return [grid]
