"""Looks at a running correlator again and again, for any number of views, and costs it nothing.

One thread makes the looks, whoever asks: a view takes the newest there is. Another tells engines that somebody watches,
as long as somebody does, so that they leave glances at visibilities, or histograms of ADC values; one that does not
answer holds up nobody.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, Self

from ryle.config import Observation
from ryle.monitor.control import ControlClient
from ryle.stream.controls import StatusError
from ryle.watch.alarms import Alarms
from ryle.watch.history import History
from ryle.watch.looking import Looking
from ryle.watch.sight import Sight

#: Seconds for which somebody who asked is taken to watch, and a product that was chosen stays so.
ASKED = 10.0
_AGAIN = 3.0  # seconds after which engines are told again; they believe it for 10
_PATIENCE = 1.0  # seconds for an answer
#: Products that are asked for at most, the newest.
MOST_CHOSEN = 64


class Watching(Protocol):
    """What views watch: a running correlator (`Watcher`) or a recorded session (`ryle.watch.session.Replay`)."""

    @property
    def observation(self) -> Observation | None:
        """The observation, if its file could be read."""

    def sight(self) -> Sight:
        """Give the newest look."""

    def wait(self, after: float, timeout: float) -> Sight | None:
        """Wait for a look other than that of a time; None if there is none within so many seconds."""

    def choose(self, products: Sequence[int]) -> None:
        """Ask for the full spectra of some products, for the next 10 s."""

    def history(self) -> Sequence[Sight]:
        """Give what was seen lately, oldest first."""


class Watcher:
    """Watches one run, while its block lasts.

    Parameters
    ----------
    observation : str, optional
        Name of the observation; the run that started last if absent, another as soon as that starts.
    interval : float
        Seconds between looks.
    """

    def __init__(self, observation: str | None = None, interval: float = 0.5) -> None:
        self._looking, self._history, self._interval = Looking(observation), History(), interval
        self._alarms = Alarms(None)
        self._text = ""
        self._sight = Sight(time.time(), observation="")
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._asked = time.monotonic()
        self._chosen: dict[int, float] = {}  # until when
        self._chosen_new = threading.Event()
        self._said: set[str] = set()
        self._threads = [
            threading.Thread(target=self._look_again, name="watch", daemon=True),
            threading.Thread(target=self._keep_watched, name="watched", daemon=True),
        ]

    def __enter__(self) -> Self:
        self._look()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._chosen_new.set()
        for thread in self._threads:
            thread.join()

    @property
    def observation(self) -> Observation | None:
        """The observation that is watched, if its file could be read."""
        return self._looking.observation

    def sight(self) -> Sight:
        """Give the newest look, at once."""
        self._asked = time.monotonic()
        with self._changed:
            return self._sight

    def wait(self, after: float, timeout: float) -> Sight | None:
        """Wait for a look newer than that with ``Sight.time == after``; None if none comes within so many seconds."""
        self._asked = time.monotonic()
        with self._changed:
            # Not "later": the clock may be set back.
            there = self._changed.wait_for(lambda: self._sight.time != after, timeout)
            return self._sight if there else None

    def choose(self, products: Sequence[int]) -> None:
        """Ask for the full spectra of some products, beside what others ask for, for the next 10 s."""
        until = time.monotonic() + ASKED
        with self._changed:
            new = any(p not in self._chosen for p in products)
            for product in products:
                self._chosen.pop(product, None)
                self._chosen[product] = until
            while len(self._chosen) > MOST_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
        if new:
            self._chosen_new.set()

    def history(self) -> Sequence[Sight]:
        """Give what was seen of this run lately, oldest first; older looks lack what is large."""
        return self._history.sights()

    def _look_again(self) -> None:
        due = time.monotonic()
        while True:
            due = max(due + self._interval, time.monotonic())
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            self._look()

    def _look(self) -> None:
        try:
            sight = self._looking.look()
            if sight.text and sight.text != self._text:  # another run; one that has ended stays
                self._text = sight.text
                self._history.clear()
                self._alarms = Alarms(self._looking.observation)
            sight = replace(sight, alarms=self._alarms.judge(sight, self._history.sights()))
        except Exception as error:  # nobody knows what may lie there; the next look may be better
            self._say(f"looking at the correlator failed: {type(error).__name__}: {error}")
            return
        self._history.add(sight)
        with self._changed:
            self._sight = sight
            self._changed.notify_all()

    def _say(self, what: str) -> None:
        """Say something on standard error, once."""
        if what not in self._said:
            self._said.add(what)
            print(what, file=sys.stderr, flush=True)

    def _keep_watched(self) -> None:
        """Tell who leaves anything for it, again and again, that somebody watches, and which products."""
        told: dict[tuple[str, int], tuple[tuple[int, ...], float]] = {}
        while not self._ended.is_set():
            now = time.monotonic()
            with self._changed:
                self._chosen = {p: until for p, until in self._chosen.items() if until > now}
                chosen = tuple(sorted(self._chosen))
            if now - self._asked < ASKED:
                for page in self._looking.pages:
                    key = page.name, page.owner.started
                    last = told.get(key)
                    if "watch" not in page.controls or not page.alive:
                        continue
                    if last is not None and last[0] == chosen and now - last[1] < _AGAIN:
                        continue
                    told[key] = chosen, now
                    with suppress(OSError, StatusError), ControlClient(page, _PATIENCE) as client:
                        client.set("watch", {"products": list(chosen)})
            self._chosen_new.wait(self._interval)
            self._chosen_new.clear()
