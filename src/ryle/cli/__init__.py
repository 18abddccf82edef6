"""The `ryle` command: one file a subcommand, nothing but argument parsing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import typer
from typer.main import get_command

from ryle.cli.arguments import refuse_infinite
from ryle.cli.errors import guarded

app = typer.Typer(
    name="ryle",
    help="A real-time FX correlator for radio telescopes: packets in, visibilities out.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register() -> None:
    from ryle.cli import (
        bench,
        capture,
        check,
        correlate,
        demo,
        engine,
        example,
        files,
        fpga,
        run,
        send,
        simulate,
        status,
        wire,
    )

    app.command()(check.check)
    app.command()(run.run)
    app.command()(correlate.correlate)
    app.command()(simulate.simulate)
    app.command()(send.send)
    app.command()(capture.capture)
    app.command()(demo.demo)
    app.command()(bench.bench)
    app.command()(example.example)
    app.command()(files.export)
    app.command()(files.recover)
    app.command()(files.plot)
    app.command()(files.image)
    app.add_typer(wire.app, name="wire")
    app.add_typer(status.app, name="status")
    app.add_typer(fpga.app, name="fpga")
    app.add_typer(engine.app, name="engine", hidden=True)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from ryle import __version__

        typer.echo(f"ryle {__version__}")
        raise typer.Exit


@cache
def _command() -> Any:
    """Make the tree of all subcommands, once."""
    _register()
    command = get_command(app)
    refuse_infinite(command)
    return command


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end with its status; see `ryle.cli.errors`.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``ryle``; that of this process if absent.
    """

    def command() -> int | None:
        status = _command().main(arguments, prog_name="ryle", standalone_mode=False)
        return status if isinstance(status, int) else None

    sys.exit(guarded(command))
