"""What an engine says of itself: JSON lines for supervisors and scripts, or a line for people on a terminal."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO


class StatusReporter:
    """Prints a status line at a steady pace from a thread of its own, and events at once.

    Parameters
    ----------
    identity : dict
        Stands in every line: role, index.
    collect : callable
        Returns the engine's current figures; called from the reporter's thread, so it must only read.
    stream : file, optional
        Standard output if absent.
    interval : float
        Seconds between lines.
    """

    def __init__(
        self,
        identity: dict[str, Any],
        collect: Callable[[], dict[str, Any]],
        stream: TextIO | None = None,
        interval: float = 0.5,
    ) -> None:
        self._identity = identity
        self._collect = collect
        self._stream = stream if stream is not None else sys.stdout
        self._interval = interval
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.state = "starting"
        self._thread = threading.Thread(target=self._loop, name="status", daemon=True)

    def __enter__(self) -> StatusReporter:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.set_state("failed" if kind is not None else "done")

    def set_state(self, state: str) -> None:
        """Change the state (starting, ready, running, draining, done, failed) and say so at once."""
        self.state = state
        self._status()

    def event(self, name: str, **figures: Any) -> None:
        """Say that something happened: an integration was written, a link was lost."""
        self._write({"event": name} | figures)

    def _loop(self) -> None:
        while not self._stop.wait(self._interval):
            self._status()

    def _status(self) -> None:
        self._write({"state": self.state} | self._collect())

    def _write(self, figures: dict[str, Any]) -> None:
        if self._stream.isatty():
            line = "\r\x1b[2K" + self._in_words(figures) + ("\n" if "event" in figures or self.state == "done" else "")
        else:
            line = json.dumps(self._identity | {"time": time.time()} | figures) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                pass  # whoever was listening has gone; the data go on

    def _in_words(self, figures: dict[str, Any]) -> str:
        """One line of 100 characters or so: who, what, how far, what was lost."""
        who = " ".join(str(v) for v in self._identity.values())
        if "event" in figures:
            rest = ", ".join(f"{k} {v}" for k, v in figures.items() if k != "event" and not isinstance(v, list))
            return f"{who}: {figures['event']} {rest}"
        words = [f"{who}: {figures['state']}"]
        if "position" in figures:
            words.append(f"{figures['position']:.2f} s of signal")
        words += [
            f"{figures[key]} {key}" for key in ("received", "sent", "integrations") if figures.get(key) is not None
        ]
        account = figures.get("account") or {}
        words += [f"{account[key]} {key}" for key in ("missing", "late", "duplicate", "malformed") if account.get(key)]
        words += [f"{count} {name}" for name, count in (figures.get("faults") or {}).items()]
        return " · ".join(words)
