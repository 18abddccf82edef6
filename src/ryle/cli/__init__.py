"""The `ryle` command: one file a subcommand, nothing but argument parsing.

A subcommand's module is imported when the subcommand is named. What ``ryle --help`` says of it stands here, so that
help, completion and the version come at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ryle.cli.errors import guarded

_SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Entry:
    """Where a subcommand is, and what the list of subcommands says of it.

    Parameters
    ----------
    module, name : str
        Module in this package, and the function or `typer.Typer` in it.
    help : str
        First sentence of its own help.
    part : str
        Heading that it stands under.
    """

    module: str
    name: str
    help: str
    part: str


_BEGIN, _OBSERVE, _PACKETS, _FILES, _MACHINE = (
    "Begin",
    "Observe",
    "Packets and machines",
    "Visibility files",
    "Measure and extend",
)

#: All subcommands, as they are listed.
COMMANDS = {
    "demo": Entry("demo", "demo", "Observe a simulated sky with ten antennas over real UDP packets.", _BEGIN),
    "example": Entry("example", "example", "Print a shipped observation file, to save and edit.", _BEGIN),
    "check": Entry(
        "check", "check", "Check an observation file and print its rates, sizes, memory and arithmetic.", _BEGIN
    ),
    "run": Entry(
        "run", "run", "Run the correlator that an observation file describes, until its end or Ctrl-C.", _OBSERVE
    ),
    "correlate": Entry(
        "correlate",
        "correlate",
        "Correlate recordings: VDIF, mapped to antennas by the [vdif] table, captures of packets, or triggers' chunks.",
        _OBSERVE,
    ),
    "simulate": Entry("simulate", "simulate", "Send the packets of a simulated array.", _OBSERVE),
    "status": Entry(
        "status", "app", "What runs on this machine says of itself; set its controls, clean up after it.", _OBSERVE
    ),
    "monitor": Entry(
        "monitor", "monitor", "Watch a correlator in this terminal: engines, losses, inputs, alarms.", _OBSERVE
    ),
    "serve": Entry(
        "serve",
        "serve",
        "Watch a correlator in a browser, and give its figures to Prometheus, until Ctrl-C.",
        _OBSERVE,
    ),
    "control": Entry(
        "control",
        "app",
        "Steer a running correlator: gains, delays, phase centre, files, raw samples, from a stated sample on.",
        _OBSERVE,
    ),
    "engine": Entry("engine", "app", "One engine process; prints status lines as JSON.", _OBSERVE),
    "export": Entry("files", "export", "Write a visibility file as MeasurementSet, UVFITS or MIRIAD.", _FILES),
    "plot": Entry(
        "files", "plot", "Draw bandpasses, waterfalls, fringes, lags, closure phases, losses and ADC levels.", _FILES
    ),
    "image": Entry(
        "files",
        "image",
        "Image a phase-tracked field, with true right ascension and declination axes, and list its sources.",
        _FILES,
    ),
    "listen": Entry("listen", "listen", "Receive the integrations that a correlator serves by TCP.", _OBSERVE),
    "recover": Entry("files", "recover", "Mend a visibility file whose writer was killed.", _FILES),
    "join": Entry("files", "join", "Make one visibility file over those of several catchers.", _FILES),
    "send": Entry(
        "send",
        "send",
        "Send packets of a format at a steady rate, from many streams, with faults that are counted.",
        _PACKETS,
    ),
    "capture": Entry(
        "capture", "capture", "Capture packets of a format, count what is lost, and say so every second.", _PACKETS
    ),
    "wire": Entry("wire", "app", "Packet formats: list, show, and check a capture against one.", _PACKETS),
    "plan": Entry(
        "plan",
        "plan",
        "Plan a correlator: engines, GPUs, servers, ports, watts, what limits each; place an observation's engines.",
        _MACHINE,
    ),
    "deploy": Entry(
        "deploy",
        "deploy",
        "Write a plan as a Slurm job, systemd units or Kubernetes manifests, after checking it as a whole.",
        _MACHINE,
    ),
    "doctor": Entry(
        "doctor",
        "doctor",
        "Find what is mis-tuned on this machine for an observation: found, wanted, why, and what mends it.",
        _MACHINE,
    ),
    "bench": Entry("bench", "bench", "Measure this machine against named baselines.", _MACHINE),
    "fpga": Entry(
        "fpga",
        "app",
        "Ryle's FPGA Ethernet core: registers, addresses, packet generator, counters, simulation.",
        _MACHINE,
    ),
}


class _Subcommands(TyperGroup):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        return load(name) if name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Typer suggests names of `commands`, which holds nothing but what was named.
        self.commands = dict.fromkeys(COMMANDS) if args and args[0] not in COMMANDS else {}  # type: ignore[assignment]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Offer names without importing what they name."""
        from typer.core import CompletionItem  # type: ignore[attr-defined]

        return [CompletionItem(n, help=e.help) for n, e in COMMANDS.items() if n.startswith(incomplete)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help by parts, without Rich, which takes longer than all else here."""
        formatter.width = min(100, max(40, typer.get_terminal_size().columns))
        formatter.write_usage(ctx.command_path, "COMMAND …")
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        for part in (_BEGIN, _OBSERVE, _FILES, _PACKETS, _MACHINE):
            with formatter.section(part):
                formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items() if entry.part == part])
        with formatter.section("Options"):
            formatter.write_dl([record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))])
        formatter.write_paragraph()
        formatter.write_text("Start with: ryle demo    Help: ryle COMMAND --help, man ryle")


def load(name: str) -> Any:
    """Import a subcommand; gives the command as Typer makes it, whose name it has."""
    from ryle.cli.arguments import refuse_infinite

    entry = COMMANDS[name]
    found = getattr(import_module(f"ryle.cli.{entry.module}"), entry.name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown", context_settings=_SETTINGS)
        alone.command(name, context_settings=_SETTINGS)(found)
        found = alone
    command = get_command(found)
    command.name = name
    _add_worked(command, name)
    refuse_infinite(command)
    return command


def _add_worked(command: Any, name: str) -> None:
    """Let the help of a command, and of those below it, end with something to type."""
    from ryle.cli.worked import WORKED

    if name in WORKED:
        command.epilog = f"Example: {WORKED[name]}"
    for below, its in getattr(command, "commands", {}).items():
        _add_worked(its, f"{name} {below}")


app = typer.Typer(
    name="ryle",
    cls=_Subcommands,
    help="A real-time FX correlator for radio telescopes: packets in, visibilities out.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    from ryle import __version__

    typer.echo(f"ryle {__version__}")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end with its status; see `ryle.cli.errors`.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``ryle``; that of this process if absent.
    """

    def command() -> int | None:
        if (sys.argv[1:] if arguments is None else list(arguments)) == ["--version"]:
            _say_version()  # to take an option's value, Typer imports what takes longer than all else
            return None
        status = get_command(app).main(arguments, prog_name="ryle", standalone_mode=False)
        return status if isinstance(status, int) else None

    sys.exit(guarded(command))
