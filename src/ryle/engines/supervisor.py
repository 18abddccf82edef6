"""Starts the engines of one observation as processes, watches them, and ends them in signal-path order.

A `ryle.engines.site.Site` says where they run. Each process prints a status line a few times a second
(`ryle.monitor.status`) and obeys orders (`ryle.engines.control`). All start at once; when all are ready, stages are
told to go against the way of the signal, so that nobody sends before whoever receives it does. A stage is drained only
when the stages before it have ended and its receivers have fallen quiet, so that nothing on its way is lost. The end of
one engine is the end of all, but for a catcher beside others: these go on with their bands.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ryle.engines.site import Running, Site

#: Stages in the order of the signal path; "fx" stands for the three behind it.
STAGES = ("simulate", "fx", "f", "x", "catcher")
_QUIET = 1.0  # seconds without a packet after which a stage that nobody feeds any more is drained
_PATIENCE = 120.0  # seconds that a process may take to get ready, or to drain
_SILENCE = 120.0  # seconds that it may say nothing while it runs
_PROGRESS = ("state", "received", "pending", "sent", "position", "integrations")  # figures of one that is at work
_FAREWELL = 20.0  # seconds that a process that has said that it is done may take to end


@dataclass
class Child:
    """One engine process and the last that it said of itself."""

    role: str
    index: int
    status: dict[str, Any] = field(default_factory=lambda: {"state": "starting"})
    words: deque[str] = field(default_factory=lambda: deque(maxlen=30))
    told_to_go: bool = False
    told_to_drain: bool = False
    last_change: float = field(default_factory=time.monotonic)  # when something last came, or was on its way
    last_progress: float = field(default_factory=time.monotonic)  # when its figures last changed
    last_line: float = field(default_factory=time.monotonic)
    begun: float = field(default_factory=time.monotonic)  # when it was started, or told to go
    forgiven: bool = False
    numbered: bool = False  # whether there are others of its role, though it may be the only one
    reported: bool = False
    earlier: dict[str, int] = field(default_factory=dict)  # packets that processes in its place before it had counted
    _process: Running | None = None

    @property
    def process(self) -> Running:
        """Its process, once it has been started."""
        assert self._process is not None
        return self._process

    def start(self, site: Site, command: Sequence[str], heard: Callable[[Child, str], None]) -> None:
        """Start it; its lines go to `heard`, all else that it says is kept as its last words."""

        def line(text: str) -> None:
            heard(self, text)

        def word(text: str) -> None:
            self.words.append(text.rstrip())

        self._process = site.launch(self.role, self.index, command, line, word)

    def begin_anew(self) -> None:
        """Keep what its process has counted: another one takes its place, and counts from 0."""
        for key, count in (self.status.get("account") or {}).items():
            if isinstance(count, int):
                self.earlier[key] = self.earlier.get(key, 0) + count
        self.status = {key: value for key, value in self.status.items() if key != "account"}

    @property
    def told(self) -> dict[str, Any]:
        """What it last said of itself, with all that it and those in its place before it have counted."""
        if not self.earlier:
            return self.status
        now = self.status.get("account") or {}
        sums = {key: count + (now.get(key) or 0) for key, count in self.earlier.items()}
        return self.status | {"account": now | sums}

    @property
    def name(self) -> str:
        """What people call it."""
        return self.label if self.role == "catcher" else self.label.replace(" ", "-engine ")

    @property
    def label(self) -> str:
        """The same, short, for tables."""
        if self.role == "catcher" and self.numbered:
            return f"catcher {self.index}"
        return {"simulate": "simulate", "catcher": "catcher", "fx": "FX"}.get(
            self.role, f"{self.role.upper()} {self.index}"
        )

    @property
    def host(self) -> str:
        """On which host it runs; empty: on this one."""
        return self._process.host if self._process is not None else ""

    @property
    def exit_code(self) -> int | None:
        """Exit status, None while it runs; negative for a signal."""
        return self.process.poll()

    @property
    def failed(self) -> bool:
        """Whether it ended without success, or without being told to; only the simulator has an end of its own."""
        code = self.exit_code
        if code is None or self.forgiven:
            return False
        return code != 0 or not (self.told_to_drain or self.role == STAGES[0])


class RunError(Exception):
    """An engine died or would not end; names it and gives its last words."""


class Supervisor:
    """Runs the processes of one observation.

    Parameters
    ----------
    commands : sequence of (role, index, argv)
        One entry a process; role is one of `STAGES`.
    site : Site
        Where they run.
    on_event : callable, optional
        Called with (child, event) for each event line, from a reader thread.
    """

    def __init__(
        self,
        commands: Sequence[tuple[str, int, list[str]]],
        site: Site,
        on_event: Callable[[Child, dict[str, Any]], None] | None = None,
    ) -> None:
        self._commands = commands
        self._site = site
        self._on_event = on_event
        self._stop = threading.Event()
        self._fed = time.monotonic()  # until when somebody may have sent to the stage that is to end
        self.children: list[Child] = []
        self.failure: str | None = None
        #: What went wrong without harm to the files.
        self.notes: list[str] = []
        #: Engines that ended while the others went on, and what became of them.
        self.lost: list[str] = []

    def stop(self) -> None:
        """Ask for an orderly end: no more input, drain, close files. Safe in a signal handler."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """Whether an end was asked for."""
        return self._stop.is_set()

    @property
    def head(self) -> str | None:
        """The first stage that there is, which nobody here feeds."""
        return next((s for s in STAGES if self._stage(s)), None)

    @property
    def tail(self) -> str | None:
        """The last stage that there is, which feeds nobody here."""
        return next((s for s in reversed(STAGES) if self._stage(s)), None)

    def run(self, on_update: Callable[[], None] = lambda: None) -> None:
        """Run to the end.

        Parameters
        ----------
        on_update : callable
            Called about five times a second while anything runs.

        Raises
        ------
        RunError
            If an engine failed; the others have been drained and the files closed. Of a catcher beside others, when
            these have come to their end.
        """
        self._site.prepare(self._commands)
        try:
            for stage in reversed(STAGES):
                self._start(stage)
            self._wait("starting", self.children, on_update)
            for stage in reversed(STAGES):
                self._go(stage, on_update)
            for stage in STAGES:
                self._finish(stage, on_update)
        finally:
            for child in self.children:
                child.process.close()
            on_update()
        if failures := [*self.lost, *([] if self.failure is None else [self.failure])]:
            raise RunError("\n".join(failures))

    # -- one stage after the other ----------------------------------------------------------------------------------

    def _stage(self, stage: str) -> list[Child]:
        return [c for c in self.children if c.role == stage]

    def _go(self, stage: str, on_update: Callable[[], None]) -> None:
        """Let a stage go, and see that it does; unless the end has come already."""
        if self.failure is not None or self._stop.is_set():
            return
        for child in self._stage(stage):
            child.told_to_go, child.begun = True, time.monotonic()
            child.process.tell("go")
        self._wait("ready", self._stage(stage), on_update)

    def _wait(self, state: str, children: list[Child], on_update: Callable[[], None]) -> None:
        """Wait until no process is in a state any more, or the end comes."""
        while self.failure is None and not self._stop.is_set():
            if not any(c.exit_code is None and c.status["state"] == state for c in children):
                return
            self._watch(on_update)

    def _finish(self, stage: str, on_update: Callable[[], None]) -> None:
        """Let a stage run as long as it should, then see it end."""
        self._fed = time.monotonic()
        while any(c.exit_code is None for c in self._stage(stage)):
            self._watch(on_update)
            if stage != self.head or self._stop.is_set() or self.failure is not None:
                self._drain(stage, at_once=stage == self.head)
        self._watch(lambda: None)

    def _drain(self, stage: str, at_once: bool) -> None:
        """Tell a stage to drain: once nothing comes any more, or at once if its source (a live array) never ends."""
        now = time.monotonic()
        running = [c for c in self._stage(stage) if c.exit_code is None]
        stuck = all(now - c.last_progress > _PATIENCE for c in running)  # what waits will never be taken
        # All together: what one of them holds back is wanted downstream at the time of what the others do.
        # By what they have said since their senders ended: a busy engine says late what it has got.
        quiet = all(c.told_to_drain or c.last_line - max(c.last_change, self._fed) > _QUIET for c in running)
        for child in running:
            if not child.told_to_drain and (at_once or quiet or stuck):
                child.told_to_drain = True
                child.last_progress = now
                child.process.tell("drain")
            elif child.told_to_drain and now - child.last_progress > _PATIENCE:
                self._kill(child, f"did not end within {_PATIENCE:g} s of being told to")

    def _watch(self, on_update: Callable[[], None]) -> None:
        on_update()
        time.sleep(0.1)
        for child in self.children:
            if child.failed and not child.reported:
                child.reported = True
                self._fail(self._obituary(child), child)
                child.status["state"] = "failed"

            elif child.exit_code is None:
                self._limit(child)

    def _limit(self, child: Child) -> None:
        """Kill a process that is past hope: nothing may hold up the end of a run for ever."""
        now = time.monotonic()
        if child.status["state"] == "done" and now - child.last_line > _FAREWELL:
            # All that it had to do is done: what it leaves behind is whole.
            child.forgiven = True
            note = f"{child.name} said that it was done but did not end within {_FAREWELL:g} s; killed, nothing is lost"
            self.notes.append(note)
            child.process.kill()
        elif child.process.kept:
            return  # those who keep it do so too, and start it again
        elif child.status["state"] == "starting" and now - child.begun > _PATIENCE:
            self._kill(child, f"is not ready after {_PATIENCE:g} s")
        elif child.status["state"] == "ready" and child.told_to_go and now - child.begun > _PATIENCE:
            self._kill(child, f"did not begin within {_PATIENCE:g} s of being told to")
        elif child.status["state"] not in ("starting", "done"):
            patience = _SILENCE + 2 * child.status.get("interval", 0.0)
            if now - child.last_line > patience:
                self._kill(child, f"has said nothing for {patience:g} s")

    def _kill(self, child: Child, why: str) -> None:
        child.reported = child.forgiven = True
        child.status["state"] = "failed"
        child.process.kill()
        self._fail(f"{child.name} {why}; killed. {self._words(child)}", child)

    def _obituary(self, child: Child) -> str:
        code = child.exit_code
        assert code is not None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit status {code}"
        if code == 0:
            how += " without having been told to"
        return f"{child.name} {how}. {self._words(child)}"

    def _words(self, child: Child) -> str:
        last = "\n".join(f"    {w}" for w in child.words) or "    (nothing)"
        return f"Its last words:\n{last}\n  All of them: {child.process.log}"

    def _fail(self, why: str, child: Child) -> None:
        others = [c for c in self._stage("catcher") if c is not child and c.exit_code is None]
        if child.role == "catcher" and child.told_to_go and others:
            self.lost.append(why)
        else:
            self.failure = why if self.failure is None else self.failure + "\n" + why

    # -- one process ------------------------------------------------------------------------------------------------

    def _start(self, stage: str) -> None:
        for role, index, argv in self._commands:
            if role != stage:
                continue
            numbered = sum(other == role for other, _, _ in self._commands) > 1
            child = Child(role, index, numbered=numbered)
            child.start(self._site, argv, self._heard)
            self.children.append(child)

    def _heard(self, child: Child, line: str) -> None:
        """Take a line of a process: an event, a status, or some library's."""
        try:
            figures = json.loads(line)
        except json.JSONDecodeError:
            figures = None
        if not isinstance(figures, dict) or not {"event", "state"} & figures.keys():
            child.words.append(line.rstrip())  # some library's, not ours
            return
        if "event" in figures:
            if figures["event"] == "again":
                child.begin_anew()
            if self._on_event is not None:
                self._on_event(child, figures)
            return
        if (
            figures.get("pending")
            or figures.get("received") != child.status.get("received")
            or figures["state"] != child.status.get("state")
        ):
            child.last_change = time.monotonic()
        child.last_line = time.monotonic()
        if any(figures.get(key) != child.status.get(key) for key in _PROGRESS):
            child.last_progress = child.last_line
        child.status = figures
