"""Arguments that several subcommands take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ryle.cli.completion import files

ObservationFile = Annotated[
    Path, typer.Argument(help="Observation file (TOML).", metavar="FILE", autocompletion=files(".toml"))
]
#: Endings of recordings.
RECORDINGS = (".vdif", ".pcap", ".pcapng", ".chunks")
OutputDirectory = Annotated[
    Path | None, typer.Option("--output", "-o", help="Directory for what is written; [output] directory if absent.")
]

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what an earlier run left; else it gets a new name, such as x-2.")
]


Record = Annotated[Path | None, typer.Option(help="Write what is seen to this file.", dir_okay=False, metavar="FILE")]
Replay = Annotated[
    Path | None, typer.Option(help="Show what was written so.", dir_okay=False, exists=True, metavar="FILE")
]
Speed = Annotated[float, typer.Option(help="--replay: how many times faster.", min=0.01, max=1000)]


class Cluster(StrEnum):
    """What may do work on other hosts."""

    RAY = "ray"


On = Annotated[Cluster | None, typer.Option(help="Work on the hosts of a cluster instead of this one.")]
RayHead = Annotated[
    str | None,
    typer.Option(
        "--ray", metavar="HOST:PORT", help="With --on ray: the cluster's head; RAY_ADDRESS, or this host's, if absent."
    ),
]


class Payload(StrEnum):
    """What payloads hold."""

    RANDOM = "random"
    RAMP = "ramp"
    ZEROS = "zeros"


def recordings(names: list[str] | None) -> list[str]:
    """Take recordings that are here, and those behind URLs."""
    for name in names or []:
        if "://" not in name and not Path(name).exists():
            raise typer.BadParameter(f"Path {name!r} does not exist.")
    return names or []


def refuse_infinite(command: Any) -> None:
    """Have all options of a command, and of those below it, refuse numbers that are not finite: no range does."""

    def finite(context: Any, parameter: Any, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            raise typer.BadParameter(f"{value} is no number to count with; give another", context, parameter)
        return value

    for parameter in command.params:
        if parameter.callback is None:
            parameter.callback = finite
    for below in getattr(command, "commands", {}).values():
        refuse_infinite(below)


def numbers(text: str, what: str) -> list[float]:
    """Read numbers with commas between them."""
    try:
        found = [float(part) for part in text.split(",")] if text else []
        if not all(map(math.isfinite, found)):
            raise ValueError
        return found
    except ValueError:
        raise ValueError(f"{what} {text!r}: write numbers with commas, such as 0,40,100") from None


def wholes(text: str, what: str) -> tuple[int, ...]:
    """Read whole numbers from 0 on, with commas between them."""
    found = numbers(text, what)
    if any(n != int(n) or not 0 <= n < 1 << 31 for n in found):
        raise ValueError(f"{what} {text!r}: write whole numbers from 0 on, with commas, such as 0,2")
    return tuple(map(int, found))


def whole(text: str, what: str) -> int:
    """Read a large whole number as people write it, ``2e9``."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < 1 << 62:
        raise ValueError(f"{what} {text!r}: write a number from 0 on, such as 2e9")
    return int(found)


def pair(text: str, what: str) -> tuple[float, int]:
    """Read a time in s and a number of packets, ``2.5:-1000``."""
    try:
        at, by = text.split(":")
        if not math.isfinite(float(at)) or abs(int(by)) >= 1 << 62:
            raise ValueError
        return float(at), int(by)
    except ValueError:
        raise ValueError(f"{what} {text!r}: write SECONDS:PACKETS, such as 2.5:100000") from None


def settings(texts: Sequence[str]) -> dict[str, int]:
    """Read header fields, ``fid=3`` or ``type=0x20``."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = int(value, 0)
        except ValueError:
            raise ValueError(f"--field {text!r}: write NAME=NUMBER, such as fid=3") from None
    return found
