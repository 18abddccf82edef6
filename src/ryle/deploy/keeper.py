"""Keeps an engine running on the host where Ray has put this, and tells a supervisor elsewhere what it says.

A keeper is a Ray actor. If it dies, Ray starts it again, on its host or on a spare one: where the engine still runs, it
is taken up; where it does not, it is started. Without Ray, and without a supervisor, engines just go on.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ryle.deploy.kept import AGAIN, AT_MOST, SILENCE, TRIES, Job, KeptEngine
from ryle.deploy.mirror import News, PageThere

_TURN = 0.1  # seconds between two looks at the engine
_LINES = 4000  # that wait for somebody to ask
_WELL = 60.0  # seconds after which an engine's end has nothing to do with its former one


@dataclass(frozen=True)
class Report:
    """What a keeper says of its engine.

    Parameters
    ----------
    keeper : str
        Which keeper says so: another one counts lines from 0 again.
    lines : tuple of str
        That the engine has printed since.
    until : int
        How many lines there are in all.
    ended : int or None
        Exit status, if it has ended and is not started again.
    words : tuple of str
        Its last words, if it has ended.
    host, log : str
        Where it is, and all its words.
    """

    keeper: str
    lines: tuple[str, ...]
    until: int
    ended: int | None
    words: tuple[str, ...]
    host: str
    log: str


class Keeper:
    """Keeps one engine running; see the module.

    Parameters
    ----------
    job : Job
        Which.
    host : str
        What this host is called.
    begun : bool
        Whether another keeper of it has been here, or elsewhere, before: then it runs, or is to.
    """

    def __init__(self, job: Job, host: str, begun: bool) -> None:
        self._engine = KeptEngine(job, host)
        self._number = uuid.uuid4().hex
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._until = 0
        self._ended: int | None = None
        self._started = self._engine.adopted
        self._state, self._interval, self._heard = "starting", 0.0, time.monotonic()
        self._was_ready = self._engine.adopted
        self._failed = self._in_a_row = 0
        self._begun = time.monotonic()
        self._page, self._steered = PageThere(), PageThere()
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._thread = threading.Thread(target=self._watch, name=job.name, daemon=True)
        if self._engine.adopted:
            self._tell("kept", "it runs already, and was taken up as it is")
        elif begun:
            self._tell("again", "it went with its host, or with what Ray had there; it starts again")
        if self._engine.adopted or begun:
            self.start(again=True)

    def host(self) -> str:
        """Say where it is: whoever gets an answer knows that there is room for the engine."""
        return self._engine.host

    def into(self) -> str | None:
        """Say which file it was to write."""
        command = self._engine.job.command
        return command[command.index("--into") + 1] if "--into" in command else None

    def start(self, *, again: bool = False) -> None:
        """Start the engine, unless it runs."""
        with self._lock:
            if not self._started:
                self._engine.start(again=again)
                self._warn()
            self._started = True
            if not self._thread.is_alive():
                self._heard = time.monotonic()
                self._thread.start()

    def tell(self, order: str) -> None:
        """Tell the engine to drain; it goes by itself."""
        if order == "drain":
            with self._lock:
                self._engine.drain()

    def kill(self) -> None:
        """End the engine at once and for good."""
        with self._lock:
            self._engine.drain()
            self._engine.kill()

    def page(self, seen: Mapping[str, int]) -> News | None:
        """Say what is new on the engine's status page."""
        return self._page.news(self._engine.pid, seen)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Pass a request on to the engine's controls; give its answer."""
        with self._asking:
            return self._steered.ask(self._engine.pid, request)

    def forget(self) -> None:
        """Leave nothing on the host but the log, when all is over."""
        self._engine.forget()

    def report(self, keeper: str, since: int) -> Report:
        """Say what is new since a report of a keeper."""
        with self._lock:
            new = self._until - (since if keeper == self._number else 0)
            lines = tuple(self._lines)[-new:] if new else ()
            words = tuple(self._engine.words()) if self._ended is not None else ()
            return Report(self._number, lines, self._until, self._ended, words, self._engine.host, self._engine.log)

    def _watch(self) -> None:
        while self._ended is None:
            with self._lock:
                for line in self._engine.lines():
                    self._take(line)
                status = self._engine.poll()
                wait = _TURN if status is None else self._over(status)
                if status is None and time.monotonic() - self._heard > SILENCE + 2 * self._interval:
                    self._tell("silent", f"it has said nothing for {SILENCE:g} s; killed")
                    self._heard = time.monotonic()
                    self._engine.kill()
            time.sleep(wait)
            if status is not None and self._ended is None:
                with self._lock:
                    if not self._engine.draining:
                        self._engine.start(again=True)
                        self._heard = self._begun = time.monotonic()

    def _over(self, status: int) -> float:
        """See how it ended: for good, or it is to start again after the seconds that are given."""
        for line in self._engine.lines():
            self._take(line)
        job = self._engine.job
        hopeless = not self._was_ready and self._failed + 1 >= TRIES
        if self._engine.draining or not job.restarts or status == 2 or hopeless:
            self._ended = status
            return 0.0
        self._failed += 1
        self._in_a_row = 1 if time.monotonic() - self._begun > _WELL else self._in_a_row + 1
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        wait = min(AGAIN * 2.0 ** max(0, self._in_a_row - 3), AT_MOST)
        self._tell("again", f"it {how}; it starts again in {wait:g} s (the {_nth(self._failed)} time)")
        return wait

    def _take(self, line: str) -> None:
        """Keep a line, and what it says of whether the engine is well."""
        self._put(line)
        self._heard = time.monotonic()
        try:
            figures = json.loads(line)
        except json.JSONDecodeError:
            return
        if isinstance(figures, dict) and "state" in figures:
            self._state, self._interval = figures["state"], float(figures.get("interval", 0.0))
            self._was_ready |= self._state in ("ready", "running", "draining", "done")

    def _tell(self, event: str, why: str) -> None:
        self._put(json.dumps({"event": event, "why": why, "host": self._engine.host}))

    def _warn(self) -> None:
        for warning in self._engine.warnings:
            self._tell("warning", warning)
        self._engine.warnings.clear()

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._until += 1


def _nth(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


class KeeperActor(Keeper):
    """The same, which finds out from Ray where it is.

    Parameters
    ----------
    job : Job
        Which engine.
    label : str
        Label of a node that says which host it is.
    """

    def __init__(self, job: Job, label: str) -> None:
        import ray

        context = ray.get_runtime_context()
        host = context.get_node_labels().get(label) or job.host
        super().__init__(job, host, bool(context.was_current_actor_reconstructed))
