"""Status pages: what a running process says of itself, in shared memory, for anybody on the machine to read.

A page is a directory ``/dev/shm/ryle.NAME`` that holds::

    status.json     the newest version: owner, time, values, declared controls
    control         the socket at which the owner takes requests, if it has controls (`ryle.monitor.control`)
    observation.toml  the observation file's text, of its engines
    glance          the newest look at visibilities, of who writes them (`ryle.products.glance`)
    ring            the blocks of a live capture, if there is one (`ryle.store.ring_file`)

Nothing here is locked. Each version is a file of its own that takes the place of the one before by rename(2), which the
kernel makes atomic: a reader opens the old version or the new one, whole, however the writer ends. The owner is known
by process ID and start time, so that a page whose owner was killed is recognized even if its number lives again.

Any user may put anything in shared memory. A reader waits for nothing that lies there: links, pipes, devices, what is
too long or nested too deep, and what has other types than these are no pages, and nobody notices them.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any

from ryle.monitor.owner import Owner
from ryle.monitor.page_files import BUILDING, PREFIX, STATUS, pages_directory, read_json, remove
from ryle.stream.controls import Control, StatusError

_DEEPEST = 30  # values within values


@dataclass(frozen=True)
class Page:
    """One version of a page, as a reader finds it.

    Parameters
    ----------
    name : str
        Its name.
    path : Path
        Its directory.
    owner : Owner
        Who publishes it.
    version : int
        Counts what its owner published, from 1.
    updated : float
        Unix time of this version.
    values : dict
        What the owner says, of any JSON type.
    controls : dict of str to Control
        Keys that others may set.
    kinds : dict of str to (str, str, str)
        Of figures "counter" or "gauge", the unit and what they mean.
    """

    name: str
    path: Path
    owner: Owner
    version: int
    updated: float
    values: dict[str, Any]
    controls: dict[str, Control] = field(default_factory=dict)
    kinds: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether its owner still runs."""
        return self.owner.alive

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "name": self.name,
            "pid": self.owner.pid,
            "alive": self.alive,
            "version": self.version,
            "updated": self.updated,
            "values": self.values,
            "controls": {key: c.as_dict() for key, c in self.controls.items()},
        }


def _flat_enough(value: Any, left: int = _DEEPEST) -> bool:
    if isinstance(value, dict | list):
        return left > 0 and all(
            _flat_enough(v, left - 1) for v in (value.values() if isinstance(value, dict) else value)
        )
    return True


def _of(kind: type | UnionType, value: Any) -> Any:
    if not isinstance(value, kind) or not _flat_enough(value):
        raise TypeError
    return value


def _kind(value: Any) -> tuple[str, str, str]:
    kind, unit, means = _of(list, value)
    return _of(str, kind), _of(str, unit), _of(str, means)


def read_page(path: Path) -> Page | None:
    """Read a page; None if there is none, or what lies there is none of ours."""
    try:
        whole = _of(dict, read_json(path / STATUS))
        return Page(
            name=path.name.removeprefix(PREFIX),
            path=path,
            owner=Owner(_of(int, whole["pid"]), _of(int, whole["started"]), _of(str, whole["namespace"])),
            version=_of(int, whole["version"]),
            updated=_of(int | float, whole["updated"]),
            values=_of(dict, whole["values"]),
            controls={key: Control.from_dict(_of(dict, c)) for key, c in _of(dict, whole["controls"]).items()},
            kinds={key: _kind(k) for key, k in _of(dict, whole["kinds"]).items()},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # just taken away, or no page of ours


def read_pages(name: str | None = None) -> list[Page]:
    """Read all pages of the machine, or the one called `name`, by name; those of dead owners too."""
    directory = pages_directory()
    names = [PREFIX + name] if name else sorted(e.name for e in _entries(directory) if e.name.startswith(PREFIX))
    return [page for n in names if (page := read_page(directory / n)) is not None]


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        return os.scandir(directory)
    except FileNotFoundError:
        return iter(())  # so there are no pages


def clean_pages() -> list[str]:
    """Remove pages whose owners are gone, and what a killed process left while making or removing one.

    Returns
    -------
    list of str
        What was removed: names of pages, then leftovers.
    """
    removed = []
    for page in read_pages():
        if not page.alive:
            remove(page.path)
            if not page.path.exists():
                removed.append(page.name)
    for entry in _entries(pages_directory()):
        if entry.name.startswith(BUILDING):
            page_aside = read_page(Path(entry.path))
            # One without a status is being made or removed at this moment, unless that was a while ago.
            gone = not page_aside.alive if page_aside else time.time() - entry.stat().st_mtime > 10
            if gone:
                shutil.rmtree(entry.path, ignore_errors=True)
                if not os.path.exists(entry.path):
                    removed.append(entry.name)
    return removed


def page_with(key: str, name: str | None = None) -> Page:
    """Find the page that has a control, of those of running processes, or of the one called `name`.

    Raises
    ------
    StatusError
        If there is none, or several; says which there are.
    """
    found = [p for p in read_pages(name) if p.alive]
    if name and not found:
        raise StatusError(f"no running process has the status page {name}: `ryle status` lists those there are")
    having = [p for p in found if key in p.controls]
    if not having:
        controls = [f"{k} ({p.name})" for p in found for k in p.controls]
        here = "controls here: " + ", ".join(controls) if controls else "nothing here has controls"
        if any(key in p.values for p in found):
            raise StatusError(f"{key} can only be read; {here}")
        raise StatusError(f"nobody has a control {key}; {here}")
    if len(having) > 1:
        raise StatusError(f"{key} is on {', '.join(p.name for p in having)}: say which with --page NAME")
    return having[0]
