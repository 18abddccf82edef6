"""A whole run with a person watching: as processes over UDP, or in this process."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from ryle.config import FOREIGN_X_HEAPS, Observation
from ryle.engines.live_end import LiveEnd
from ryle.engines.site import Here, Site
from ryle.engines.supervisor import STAGES, Child, RunError, Supervisor
from ryle.monitor.progress import PlainLines
from ryle.monitor.publish import pages_problem
from ryle.monitor.table import LOSSES, RunTable
from ryle.products.observed import kept_note


@dataclass
class RunResult:
    """What a run left behind.

    Attributes
    ----------
    file : Path
        The UVH5 file.
    integrations : int
        Integrations reported written, to all files.
    accounts : dict of str to dict
        Last account of each engine, by name; of one that was started again, the sum over its processes.
    statuses : dict of str to dict
        Last status of each process, by name.
    scans : list of Path
        Files that were begun while it ran.
    """

    file: Path
    integrations: int = 0
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    scans: list[Path] = field(default_factory=list)

    def add(self, file: str) -> None:
        """Take note of a file that is written, unless it is known; engines name it by its absolute path."""
        if file and Path(file).absolute() not in (path.absolute() for path in (self.file, *self.scans)):
            self.scans.append(Path(file))

    @property
    def losses(self) -> int:
        """Packets and heaps lost at all hand-overs together, of any class that is known; foreign ones are no loss."""
        lost = [key for key in LOSSES if key != "foreign"]
        return sum(account.get(key) or 0 for account in self.accounts.values() for key in lost)

    @property
    def files(self) -> list[Path]:
        """UVH5 files that are there, in order of time; those that got no integration have been removed."""
        return [path for path in (self.file, *self.scans) if path.exists()]

    def as_json(self) -> str:
        """Give all of it as text of a file of JSON."""
        found: dict[str, Any] = {"file": str(self.file), "files": list(map(str, self.files))}
        found |= {"integrations": self.integrations, "losses": self.losses}
        return json.dumps(found | {"accounts": self.accounts, "statuses": self.statuses}, indent=1) + "\n"


def run_processes(
    observation: Observation,
    output: Path | None,
    simulate: bool = True,
    console: Console | None = None,
    *,
    overwrite: bool = False,
    site: Site | None = None,
) -> RunResult:
    """Run an observation as processes over UDP, with a live table.

    Parameters
    ----------
    observation : Observation
        Must have been read from a file: each process reads it again.
    output : Path, optional
        Directory for what is written, instead of the file's own.
    simulate : bool
        Whether to start the simulator if the file has one.
    overwrite : bool
        Replace what an earlier run left; else this one's file gets a new name.
    site : Site, optional
        Where the processes run; here if absent.

    Returns
    -------
    RunResult

    Raises
    ------
    RunError
        If a process died; the others have been drained and the file closed.
    ConfigError
        If the engines need more memory than there is; nothing has been started.
    GpuUnavailable
        If engines are to run on a GPU and there is none; nothing has been started.
    """
    console = console or Console(stderr=True)
    site = Here(observation.source) if site is None else site
    site.check(observation, simulate)
    file = site.choose_file(observation, output, overwrite=overwrite)
    meerkat = observation.xengine.sends == "meerkat" and observation.catcher.packets is None
    if not meerkat and (note := kept_note(observation, file)):
        console.print(f"[yellow]{note}[/]", highlight=False, soft_wrap=True)
    directory = file.parent
    source = site.observation
    commands: list[tuple[str, int, list[str]]] = []
    if simulate and observation.simulate is not None:
        commands.append(("simulate", 0, ["simulate", source]))
    kind = [] if simulate else ["--live"]
    again = [*kind, "--overwrite"] if overwrite else kind
    for i in range(observation.f_engines):
        which = ["--index", str(i), "--output", str(directory)]
        commands.append(("f", i, ["engine", "f", source, *which, *kind]))
    for i in range(observation.engines.get("x", 0)):
        commands.append(("x", i, ["engine", "x", source, "--index", str(i), *kind]))
    if observation.fx is not None:
        commands.append(("fx", 0, ["engine", "fx", source, "--into", str(file), *again]))
    elif meerkat:
        to = observation.network.visibilities
        console.print(f"[yellow]{FOREIGN_X_HEAPS}, at {to}[/]", highlight=False, soft_wrap=True)
    else:
        for i in range(observation.catchers):
            which = ["--index", str(i), "--into", str(file)]
            commands.append(("catcher", i, ["engine", "catcher", source, *which, *again]))

    if problem := pages_problem():
        console.print(f"[yellow]{problem}[/]", highlight=False, soft_wrap=True)
    result = RunResult(file)
    written: set[int] = set()  # first spectra: several catchers write a band each of the same integrations
    begun: set[int] = set()  # samples at which scans began
    sends_itself = not simulate or observation.simulate is None
    live_end = LiveEnd(observation)

    def on_event(child: Child, event: dict[str, Any]) -> None:
        if event["event"] == "written":
            written.add(event["first_spectrum"])
            result.integrations = len(written)
        elif event["event"] == "began" and (event["integration"] or event["left_out"]):
            console.print(_began(event), highlight=False, soft_wrap=True)
        elif event["event"] == "scan" and event["sample"] not in begun:  # each catcher of several says so
            begun.add(event["sample"])
            if event["file"]:
                result.add(event["file"])
            console.print(_scan(event), highlight=False, soft_wrap=True)
        elif "why" in event:  # of who keeps it running
            console.print(
                f"[yellow]{child.name} at {event['host']}: {event['why']}[/]", highlight=False, soft_wrap=True
            )

    supervisor = Supervisor(commands, site, on_event)
    end = observation.end_sample
    table = RunTable(
        f"{observation.observation.name}: {len(observation.antennas)} antennas, "
        f"{observation.fengine.channels} channels → "
        f"{observation.network.visibilities if meerkat else file}",
        None if end is None else float(end / observation.sample_rate),
    )
    previous = _on_interrupt(supervisor.stop)
    told: list[str] = []
    try:
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            lines = PlainLines(console)

            def update(ended: bool = False) -> None:
                children = sorted(supervisor.children, key=lambda c: STAGES.index(c.role))
                result.statuses = {f"{c.label} {c.host}".rstrip(): c.told for c in children}
                result.accounts = {n: s["account"] for n, s in result.statuses.items() if s.get("account")}
                for status in result.statuses.values():
                    result.add(status.get("file", ""))  # an engine that was started again writes another one
                rows = list(result.statuses.items())
                if sends_itself and not supervisor.stopped:
                    _follow(supervisor, live_end, observation.integration_time)
                live.update(table.render(rows, result.integrations, ended=ended))
                while len(told) < len(supervisor.lost):  # the others go on: now is when somebody can do something
                    told.append(supervisor.lost[len(told)])
                    console.print(f"[red]{told[-1]}[/]", highlight=False, soft_wrap=True)
                lines.say(lambda: f"observing: {table.so_far(rows)}, {result.integrations} integrations written")

            supervisor.run(update)
            update(ended=live_end.reached or not supervisor.stopped)
    except RunError as error:
        where = (
            f"{result.integrations} integrations are safe in {_all(result)}"
            if result.integrations
            else "nothing was written"
        )
        raise RunError(f"{error}\n{where}") from None
    finally:
        if observation.catcher.directories and written:
            files = [result.file, *result.scans]
            several = len(files) > 1
            joined = [site.join(observation, f, console, overwrite=overwrite, perhaps=several) for f in files]
            result.integrations = sum(joined)
        console.print()  # the live table ends without a line end
        for note in supervisor.notes:
            console.print(f"[yellow]{note}[/]", highlight=False, soft_wrap=True)
        for number, handler in previous.items():
            signal.signal(number, handler)
    if not meerkat:
        text = f"{result.integrations} integrations → {_all(result)}"
        if supervisor.stopped and not live_end.reached:
            why = "the array fell silent" if live_end.silent else "stopped"
            kept = f"{result.integrations} integrations are kept in {_all(result)}"
            kept = kept if result.integrations else "there was no integration to keep"
            text = f"[yellow]{why} after {table.so_far(list(result.statuses.items()))}: {kept}[/]"
        console.print(text, highlight=False, soft_wrap=True)
    return result


def _follow(supervisor: Supervisor, live_end: LiveEnd, integration: float) -> None:
    """End a run whose array sends by itself when it has had its time; the last stage says how far it is."""
    begins, ends = [], []
    for status in (c.status for c in supervisor.children if c.role == supervisor.tail and c.status.get("position")):
        ends.append(float(status["position"]))
        # X-engines whose heaps others read say no begin; what they say first is the end of an integration.
        begin = status.get("begin")
        begins.append(ends[-1] - integration if begin is None else float(begin))
    heard = max((c.last_change for c in supervisor.children if c.role == supervisor.head), default=0.0)
    if ends and live_end.over(min(begins), max(ends), heard):
        supervisor.stop()


def _all(result: RunResult) -> str:
    """Name the files."""
    return ", ".join(map(str, result.files or [result.file]))


def _scan(event: dict[str, Any]) -> str:
    """Say what goes where from when on."""
    if not event["file"]:
        return f"from sample {event['sample']} on nothing is written, as was asked"
    centre = event["phase_centre"]
    towards = "" if centre is None else f", {centre['name']} (RA {centre['ra']:.6g}°, Dec {centre['dec']:.6g}°)"
    return f"from sample {event['sample']} on: {event['file']}{towards}, {event['integration']:.6g} s an integration"


def _began(event: dict[str, Any]) -> str:
    """Say with which integration the file begins, and why not earlier."""
    text = f"began at integration {event['integration']}, the first whole one"
    if event["left_out"]:
        text += f"; {event['left_out']} before it left out"
    if event["later"]:
        names = ", ".join(f"X-engine {i}" for i in event["later"])
        text += f", in which {names} had not begun"
    return text


def _on_interrupt(stop: Callable[[], None]) -> dict[int, Any]:
    """Call `stop` on Ctrl-C and SIGTERM; give the handlers that were there (none outside the main thread)."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {s: signal.signal(s, lambda *_: stop()) for s in (signal.SIGINT, signal.SIGTERM)}
