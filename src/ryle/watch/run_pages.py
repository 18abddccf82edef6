"""Which status pages are of one run: engines that read the same observation file, and of those that ran again the last.

Anybody who may write to shared memory may have put anything there (`ryle.monitor.page`): what makes no sense is passed
over.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ryle.monitor.page import Page, read_pages
from ryle.monitor.page_files import OBSERVATION
from ryle.store.shared import open_shared

_LONGEST = 8 << 20  # bytes of an observation file
_TICKS = os.sysconf("SC_CLK_TCK")
#: Roles in the order of the signal path.
ROLES = ("simulate", "f", "x", "fx", "catcher")


@dataclass(frozen=True)
class Run:
    """Engines of one observation.

    Parameters
    ----------
    name : str
        Of the observation.
    text : str
        Its file.
    pages : tuple of Page
        In the order of the signal path.
    """

    name: str
    text: str
    pages: tuple[Page, ...]

    @property
    def began(self) -> float:
        """When the first of its engines that run was started, or of all if none does, Unix seconds."""
        alive = [p for p in self.pages if p.alive]
        return min(started(p) for p in alive or self.pages)


def started(page: Page) -> float:
    """When a page's owner started, Unix seconds, by the clock as it is now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + page.owner.started / _TICKS


def role_of(page: Page) -> tuple[str, int] | None:
    """Give the role and the index that a page says; None if it says none."""
    role, index = page.values.get("role"), page.values.get("index")
    return (role, index) if isinstance(role, str) and type(index) is int else None


class Runs:
    """Reads pages and sorts them by run; keeps files' texts, which never change while a page is there."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int, int], tuple[str, str] | None] = {}

    def find(self, observation: str | None = None) -> Run | None:
        """Find the run that started last, of observations of a name if it is given; one that has ended if none runs."""
        pages: dict[tuple[str, str], list[Page]] = {}
        texts: dict[tuple[str, int, int], tuple[str, str] | None] = {}
        for page in read_pages():
            key = (page.name, page.owner.pid, page.owner.started)
            # One that has none yet may get it.
            found = self._texts.get(key) or _observation(page.path)
            texts[key] = found
            if found is not None and role_of(page) is not None:
                pages.setdefault(found, []).append(page)
        self._texts = texts
        runs = [Run(name, text, _of_one(some)) for (name, text), some in pages.items() if observation in (None, name)]
        return max(runs, key=lambda run: (any(p.alive for p in run.pages), run.began), default=None)


def _observation(directory: Path) -> tuple[str, str] | None:
    """Read the observation file that an engine left beside its page: its name and text; None if there is none."""
    try:
        with open_shared(directory / OBSERVATION, _LONGEST) as file:
            text = file.read(_LONGEST).decode()
        name = tomllib.loads(text)["observation"]["name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (name, text) if isinstance(name, str) else None


def _of_one(pages: Iterable[Page]) -> tuple[Page, ...]:
    """Choose of each engine the page whose owner started last; those that ended before others began are left out."""
    newest: dict[tuple[str, int], Page] = {}
    for page in sorted(pages, key=lambda p: p.owner.started):
        role = role_of(page)
        assert role is not None
        newest[role] = page
    alive = [started(p) for p in newest.values() if p.alive]
    kept = [p for p in newest.values() if p.alive or not alive or p.updated >= min(alive)]
    return tuple(sorted(kept, key=_place))


def _place(page: Page) -> tuple[int, str, int]:
    role = role_of(page)
    assert role is not None
    return (ROLES.index(role[0]) if role[0] in ROLES else len(ROLES), *role)
