"""`ryle monitor`: watch a correlator in this terminal."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from ryle.cli import arguments

if TYPE_CHECKING:
    from ryle.watch.session import Recorder
    from ryle.watch.watcher import Watching


def monitor(
    observation: Annotated[
        str | None, typer.Option(help="Name of the observation; the run that started last if absent.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the state and end; see above for the status.")] = False,
    json: Annotated[bool, typer.Option("--json", help="--once: print JSON.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05, max=60)] = 0.5,
    record: arguments.Record = None,
    replay: arguments.Replay = None,
    speed: arguments.Speed = 1.0,
) -> None:
    """Watch a correlator in this terminal: engines, losses, inputs, alarms.

    Shows engines along the signal path, inputs, losses, spectra and fringes, logs and alarms with what to do about
    them; ? lists the keys. Watching takes nothing from the correlator.

    --once looks for 2.5 seconds, prints the state, and ends with status 0 if all is well, 1 if there is an alarm of
    severity "error", 3 if nothing runs.
    """
    if replay is not None and (record is not None or observation is not None):
        raise ValueError("--replay shows a file: leave --record and --observation out")
    if json and not once:
        raise ValueError("--json is of --once: give both")
    if not once:
        _be_able_to_draw()
    from ryle.watch.session import Recorder, Replay
    from ryle.watch.watcher import Watcher

    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(record)) if record is not None else None
        source: Watching
        if replay is not None:
            source = stack.enter_context(Replay(replay, speed))
        else:
            source = stack.enter_context(Watcher(observation, min(interval, 0.5) if once else interval))
        if once:
            raise typer.Exit(_tell(source, json, recorder))
        if recorder is not None:
            from ryle.watch.recording import recording

            stack.enter_context(recording(source, recorder))
        from ryle.watch.terminal import Monitor

        view = Monitor(source, interval)
        view.run()
    if recorder is not None:
        typer.echo(f"what was seen is in {record}: ryle monitor --replay {record}")
    if view.return_code:
        raise typer.Exit(view.return_code)


def _be_able_to_draw() -> None:
    """See that there is what a live view needs; says what to do."""
    try:
        import textual  # noqa: F401
    except ImportError:
        raise RuntimeError("the live view needs Textual: pip install 'ryle[watch]'; --once works without") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("this is no terminal: ryle monitor --once prints the state, with --json for scripts")


def _tell(source: Watching, json: bool, recorder: Recorder | None) -> int:
    """Print the state; give the exit status."""
    from ryle.watch.terminal_once import as_json, health, look_once, told

    sight = look_once(source)
    if recorder is not None:
        recorder.add(sight)
    if json:
        from json import dumps

        typer.echo(dumps(as_json(sight), indent=1, default=str))
    else:
        from rich.console import Console

        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # of an encoding that has no blocks
        console = Console()
        console.print(told(sight, console.width), highlight=False)
    return int(health(sight))
