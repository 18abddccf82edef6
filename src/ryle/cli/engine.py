"""`ryle engine`: one process of a correlator, as `ryle run` starts it; by hand on the hosts of a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ryle.cli.arguments import ObservationFile, OutputDirectory, Overwrite

if TYPE_CHECKING:
    from ryle.config import Observation
    from ryle.config.observation import Engine

app = typer.Typer(add_completion=False, help="One engine process; prints status lines as JSON.", no_args_is_help=True)
Index = Annotated[int, typer.Option(min=0, help="Which one, counted from 0.")]
Supervised = Annotated[bool, typer.Option("--supervised", help="Drain when standard input says so or closes.")]

Into = Annotated[Path | None, typer.Option("--into", hidden=True)]
Live = Annotated[bool, typer.Option("--live", help="An array sends, whatever [simulate] says of speed.")]


def _placed(file: Path, role: Engine, live: bool, index: int = 0) -> Observation:
    """Read what is observed, if this host has the memory for an engine of it, and go where it is to run."""
    from ryle.config import ConfigError, Problem, load
    from ryle.engines.budget import afford
    from ryle.engines.places import settle

    observation = load(file)
    if (role == "fx") != (observation.fx is not None):
        remedy = (
            "is missing: without it F and X are engines of their own (`ryle engine f`, `x`, `catcher`); add [fx]"
            if role == "fx"
            else "makes F and X one process: start `ryle engine fx` in place of this, or remove [fx]"
        )
        raise ConfigError(observation.source, [Problem("fx", None, remedy)])
    observation = observation.live if live else observation
    afford(observation, {role: 1})
    settle(observation, role, index)
    return observation


@app.command()
def f(
    file: ObservationFile,
    index: Index = 0,
    output: OutputDirectory = None,
    live: Live = False,
    supervised: Supervised = False,
) -> None:
    """Channelize some antennas: digitizer heaps in, F-heaps out, and samples to files when somebody triggers."""
    from ryle.engines.f import serve

    serve(_placed(file, "f", live, index), index, output, supervised)


@app.command()
def x(file: ObservationFile, index: Index = 0, live: Live = False, supervised: Supervised = False) -> None:
    """Correlate one substream: F-heaps, or others' packets, of all antennas in, visibilities out."""
    from ryle.engines.x import serve

    serve(_placed(file, "x", live, index), index, supervised)


@app.command()
def catcher(
    file: ObservationFile,
    index: Index = 0,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    live: Live = False,
    into: Into = None,
    supervised: Supervised = False,
) -> None:
    """Collect visibilities of all substreams, or of its share of them, into a file."""
    from ryle.engines.catcher import serve

    serve(_placed(file, "catcher", live, index), index, output, supervised, file=into, overwrite=overwrite)


@app.command()
def fx(
    file: ObservationFile,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    live: Live = False,
    into: Into = None,
    supervised: Supervised = False,
) -> None:
    """Channelize and correlate all antennas: digitizer heaps in, a file out; needs the table [fx]."""
    from ryle.engines.fx_engine import serve

    serve(_placed(file, "fx", live), output, supervised, file=into, overwrite=overwrite)
