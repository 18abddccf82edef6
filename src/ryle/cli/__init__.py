"""The `ryle` command: one file a subcommand, nothing but argument parsing."""

from __future__ import annotations

import os
import sys

import typer
from rich.markup import escape

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


def main() -> None:
    """Run the command line; mistakes of the user end with a message, not with a traceback."""
    from rich.console import Console

    from ryle.config import ConfigError
    from ryle.engines.supervisor import RunError
    from ryle.fpga.transport import FpgaError
    from ryle.fpga.verilate import BuildError
    from ryle.gpu import GpuError, GpuUnavailable
    from ryle.gpu.compile import CompileError
    from ryle.stream.controls import StatusError

    _register()
    plain = (ConfigError, RunError, StatusError, GpuUnavailable, FpgaError, BuildError)
    try:
        app()
    except (*plain, GpuError, CompileError, MemoryError, OSError, ValueError) as error:
        if os.environ.get("RYLE_DEBUG"):
            raise
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        if not isinstance(error, plain):
            Console(stderr=True).print("[dim]RYLE_DEBUG=1 shows where it happened[/]")
        sys.exit(1)
