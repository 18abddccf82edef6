"""`ryle engine`: one process of a correlator, as `ryle run` starts it; by hand on the hosts of a larger one."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import ObservationFile, OutputDirectory

app = typer.Typer(help="One engine process; prints status lines as JSON.", no_args_is_help=True)
Index = Annotated[int, typer.Option(min=0, help="Which one, counted from 0.")]
Supervised = Annotated[bool, typer.Option("--supervised", help="Drain when standard input says so or closes.")]


@app.command()
def f(file: ObservationFile, index: Index = 0, supervised: Supervised = False) -> None:
    """Channelize some antennas: digitizer heaps in, F-heaps out."""
    from ..config import load
    from ..engines.f import serve

    serve(load(file), index, supervised)


@app.command()
def x(file: ObservationFile, index: Index = 0, supervised: Supervised = False) -> None:
    """Correlate one substream: F-heaps of all antennas in, visibilities out."""
    from ..config import load
    from ..engines.x import serve

    serve(load(file), index, supervised)


@app.command()
def catcher(file: ObservationFile, output: OutputDirectory = None, supervised: Supervised = False) -> None:
    """Collect visibilities of all substreams into a file."""
    from ..config import load
    from ..engines.catcher import serve

    serve(load(file), output, supervised)
