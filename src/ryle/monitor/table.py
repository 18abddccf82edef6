"""The live table of a run: one row a process, with what came in, what was lost and what went out."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_STATES = {
    "starting": "dim",
    "ready": "cyan",
    "listening": "cyan",
    "running": "green",
    "draining": "yellow",
    "done": "dim green",
    "failed": "bold red",
    "reported": "bold red",
}
#: Classes of datagram and of loss, in the order of the columns; None in an account means that the source cannot see it.
LOSSES = ("missing", "late", "duplicate", "malformed", "foreign")
#: What made packets missing on this machine, and what mends it.
CAUSES = {
    "ring_full": "came while the ring was full: this engine is slower than what comes",
    "kernel_drops": "were dropped by the kernel: raise network.receive_buffer, or receive.threads",
}
#: Beginnings of the names of processes whose position is that of a file.
_WRITERS = ("catcher", "FX")
_SHORT = {"missing": "lost", "late": "late", "duplicate": "dup", "malformed": "bad", "foreign": "alien"}


class Rate:
    """Rate of a counter over the last few seconds."""

    def __init__(self, span: float = 3.0) -> None:
        self._span = span
        self._points: deque[tuple[float, float]] = deque()

    def update(self, when: float, count: float) -> float:
        """Take the count at a time; give the rate a second. A count that went back begins anew."""
        if self._points and count < self._points[-1][1]:
            self._points.clear()
        if not self._points or when > self._points[-1][0]:
            self._points.append((when, count))
        while len(self._points) > 2 and self._points[-1][0] - self._points[0][0] > self._span:
            self._points.popleft()
        (t0, c0), (t1, c1) = self._points[0], self._points[-1]
        return (c1 - c0) / (t1 - t0) if t1 > t0 else 0.0


class RunTable:
    """Renders the states of a run's processes, in 80 columns; a ? is a count that the source cannot see.

    Parameters
    ----------
    title : str
        Stands above the table.
    duration : float or None
        Seconds of signal in the whole run, for the progress bar.
    """

    def __init__(self, title: str, duration: float | None) -> None:
        self._title = title
        self._rates: dict[tuple[str, str], Rate] = {}
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]signal"), BarColumn(24), TextColumn("{task.fields[text]}"), TimeRemainingColumn()
        )
        self._task = self._progress.add_task("signal", total=duration, text="")
        self._duration = duration

    def render(self, rows: list[tuple[str, dict[str, Any]]], written: int, *, ended: bool = False) -> RenderableType:
        """One picture of the run.

        Parameters
        ----------
        rows : list of (name, status)
            The last status of each process.
        written : int
            Integrations safely in the file.
        ended : bool
            Whether all of it has been observed: what is left over at the end makes no integration.
        """
        table = Table(title=self._title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in ("process", "state", "at (s)", "Mb/s", "pkt/s", *_SHORT.values(), "clip"):
            table.add_column(column, justify="left" if column in ("process", "state") else "right", no_wrap=True)
        for name, status in rows:
            state = str(status.get("state", "?"))
            when = float(status.get("time", 0.0))
            account = status.get("account") or {}
            cells: list[Text | str] = [name, Text(state, _STATES.get(state, ""))]
            cells.append(f"{status['position']:.2f}" if "position" in status else "")
            if "bytes" in status:
                rate = self._rate(name, "bytes", when, 8.0 * status["bytes"])
                cells.append(f"{rate / 1e6:.4g}")
                cells.append(f"{self._rate(name, 'received', when, status.get('received', 0)):.0f}")
            else:
                cells += ["", ""]
            cells += [self._loss(account, key) for key in LOSSES]
            cells.append(f"{status['saturated']:.0e}" if status.get("saturated") is not None else "")
            table.add_row(*cells)
        causes = [
            Text(f"{name}: {count} packets {why}", "bold red")
            for name, status in rows
            for key, why in CAUSES.items()
            if (count := (status.get("account") or {}).get(key))
        ]
        # Progress is what is safe in the file, not what is on its way.
        text = f"{self.so_far(rows)} · {written} integrations written · {time.monotonic() - self._started:.0f} s"
        completed = self._duration if ended and self._duration else self._position(rows)
        self._progress.update(self._task, completed=completed, text=text)
        return Group(table, *causes, self._progress)

    def so_far(self, rows: list[tuple[str, dict[str, Any]]]) -> str:
        """Say how much of the signal is in the file, and of how much."""
        return f"{self._position(rows):.2f}" + (f" of {self._duration:.2f} s" if self._duration else " s")

    def _position(self, rows: list[tuple[str, dict[str, Any]]]) -> float:
        writers = (s for n, s in rows if n.startswith(_WRITERS) and "position" in s)
        # An array that sends by itself has sent for long when a file begins.
        position = max((float(s["position"]) - float(s.get("begin") or 0) for s in writers), default=0.0)
        return min(position, self._duration or position)

    def _rate(self, name: str, key: str, when: float, count: float) -> float:
        return self._rates.setdefault((name, key), Rate()).update(when, count)

    @staticmethod
    def _loss(account: dict[str, Any], key: str) -> Text:
        if key not in account:
            return Text("")
        count = account[key]
        if count is None:
            return Text("?", "dim")
        return Text(f"{count}", "bold red" if count else "green")
