"""The last lines that engines said on standard error, from the files that a supervisor keeps beside what is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ryle.monitor.view import printable
from ryle.store.shared import open_shared

#: Lines of one engine, and of all; bytes of a file that are read.
EACH, ALL, _BYTES = 12, 60, 8 << 10


class LogTail:
    """Reads those of a run's logs that have changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, int, list[str]]] = {}

    def lines(self, directory: Path, engines: Iterable[tuple[str, int]], since: float) -> tuple[str, ...]:
        """Give the last lines of some engines, each with its name before it; who spoke last comes last.

        Parameters
        ----------
        directory : Path
            Of the logs.
        engines : iterable of (role, index)
            Whose.
        since : float
            Unix seconds; files that were last written to before are of earlier runs.
        """
        found = []
        for role, index in engines:
            name = f"{role}{index}"
            path = directory / f"{name}.log"
            try:
                status = path.stat(follow_symlinks=False)
                if status.st_mtime < since or not status.st_size:
                    continue
                known = self._known.get(path)
                if known is None or known[:2] != (status.st_mtime_ns, status.st_size):
                    known = (status.st_mtime_ns, status.st_size, _tail(path, status.st_size))
                    self._known[path] = known
            except (OSError, ValueError):  # a page may say any path
                continue
            found.append((known[0], [f"{name}: {line}" for line in known[2]]))
        said = [line for _, some in sorted(found, key=lambda each: each[0]) for line in some]
        return tuple(said[-ALL:])


def _tail(path: Path, size: int) -> list[str]:
    with open_shared(path) as file:
        file.seek(max(0, size - _BYTES))
        text = file.read(_BYTES).decode(errors="replace")
    lines = [printable(line) for line in text.splitlines()]
    if size > _BYTES:
        lines = lines[1:]  # cut
    return [line for line in lines if line.strip()][-EACH:]
