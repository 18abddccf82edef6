"""What an engine says of itself: JSON lines for scripts, or a line for people on a terminal, and a status page.

Figures are collected once and go two ways: printed, in order and with events, to whoever started the engine; and as the
newest version of a status page (`ryle.monitor.page`), to anybody on the machine, who may set its controls there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from ryle.monitor.publish import StatusPage
from ryle.stream.controls import Control
from ryle.stream.metrics import Registry

_PATIENCE = 0.1  # seconds after which a control that was set is on the page, between two lines too


class StatusReporter:
    """Prints a status line at a steady pace from a thread of its own, and events at once.

    Parameters
    ----------
    identity : dict
        Stands in every line: role, index.
    metrics : Registry
        The engine's figures, what others may set besides ``interval``, and what is left beside the page.
    stream : file, optional
        Standard output if absent.
    interval : float
        Seconds between lines.
    page : str, optional
        Name of the status page; role and index if absent.
    in_words : callable, optional
        Makes the line for people from the figures, and a line of its own each time, on a terminal or not.
    records : file, optional
        Gets JSON lines; nothing else is written if it is `stream` too.

    Attributes
    ----------
    page : StatusPage or None
        While the block runs; None where no shared memory can be written, which stops nothing.
    """

    def __init__(
        self,
        identity: dict[str, Any],
        metrics: Registry,
        stream: TextIO | None = None,
        interval: float = 0.5,
        page: str | None = None,
        in_words: Callable[[dict[str, Any]], str] | None = None,
        records: TextIO | None = None,
    ) -> None:
        self._identity = identity
        self._metrics = metrics
        self._stream = stream if stream is not None else sys.stdout
        self._interval = interval
        every = Control(
            "float", 0.05, 3600.0, (), "seconds between status lines", self._get_interval, self._set_interval
        )
        self._controls = {"interval": every, **metrics.controls}
        self._name = page if page is not None else "".join(str(v) for v in identity.values())
        self._in_words = in_words
        self._records = records
        self.page: StatusPage | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._was_set = threading.Event()  # since the last line
        self._kept: dict[str, bytes] = {}
        self.state = "starting"
        self._thread = threading.Thread(target=self._loop, name="status", daemon=True)

    def _get_interval(self) -> float:
        return self._interval

    def _set_interval(self, seconds: float) -> None:
        self._interval = seconds

    def __enter__(self) -> StatusReporter:
        try:
            self.page = StatusPage(
                self._name,
                self._controls,
                kinds={m.name: (m.kind, m.unit, m.means) for m in self._metrics},
                on_set=self._was_set.set,
            )
            for name, data in self._kept.items():
                self.page.keep(name, data)
        except OSError as error:
            print(f"no status page: {error}", file=sys.stderr)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.set_state("failed" if kind is not None else "done")
        if self.page is not None:
            self.page.close(leave=kind is not None)  # what failed is seen, until somebody else has its name

    def set_state(self, state: str) -> None:
        """Change the state (starting, ready, listening, running, draining, done, failed) and say so at once."""
        self.state = state
        self._status()

    def keep(self, name: str, data: bytes) -> None:
        """Put a file beside the page, now or when there is one; where there is none, nothing happens.

        Raises
        ------
        OSError
            If there is no room.
        """
        self._kept[name] = data
        with self._lock:
            if self.page is not None:
                self.page.keep(name, data)

    def event(self, name: str, **figures: Any) -> None:
        """Say that something happened: an integration was written, a link was lost."""
        self._write({"event": name} | figures)

    def _loop(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(min(_PATIENCE, self._interval)):
            if self._was_set.is_set() or time.monotonic() - last >= self._interval:
                last = time.monotonic()
                self._was_set.clear()
                self._status()
            self._leave()

    def _leave(self) -> None:
        """Put what is new of all that is left for who watches beside the page."""
        for name, newest in list(self._metrics.beside.items()):
            try:
                if (data := newest()) is not None:
                    self.keep(name, data)
            except (OSError, MemoryError) as error:  # of no use to anybody, but the data go on
                del self._metrics.beside[name]
                print(f"no {name} for those who watch: {error}", file=sys.stderr, flush=True)

    def _status(self) -> None:
        figures = {"state": self.state} | self._metrics.values()
        self._write(figures | {"interval": self._interval})
        with self._lock:
            if self.page is not None:
                try:
                    self.page.publish(self._identity | figures)
                except OSError as error:  # no room, or somebody took it away
                    print(f"no status page any more: {error}", file=sys.stderr)
                    self.page = None

    def _write(self, figures: dict[str, Any]) -> None:
        record = json.dumps(self._identity | {"time": time.time()} | figures) + "\n"
        if self._in_words is not None:
            line = self._in_words(self._identity | figures) + "\n"
        elif self._stream.isatty():
            end = "\n" if "event" in figures or self.state == "done" else ""
            line = "\r\x1b[2K" + engine_in_words(self._identity, figures) + end
        else:
            line = record
        with self._lock:
            for stream, text in {self._stream: line, self._records: record}.items():
                try:
                    if stream is not None:
                        stream.write(text)
                        stream.flush()
                except (BrokenPipeError, ValueError):
                    pass  # whoever was listening has gone; the data go on


def engine_in_words(identity: dict[str, Any], figures: dict[str, Any]) -> str:
    """Write a line of 100 characters or so: who, what, how far, what was lost."""
    who = " ".join(str(v) for v in identity.values())
    if "event" in figures:
        rest = ", ".join(f"{k} {v}" for k, v in figures.items() if k != "event" and not isinstance(v, list))
        return f"{who}: {figures['event']} {rest}"
    words = [f"{who}: {figures['state']}"]
    if "position" in figures:
        words.append(f"{figures['position']:.2f} s of signal")
    words += [f"{figures[key]} {key}" for key in ("received", "sent", "integrations") if figures.get(key) is not None]
    account = figures.get("account") or {}
    words += [f"{account[key]} {key}" for key in ("missing", "late", "duplicate", "malformed") if account.get(key)]
    words += [f"{count} {name}" for name, count in (figures.get("faults") or {}).items()]
    return " · ".join(words)
