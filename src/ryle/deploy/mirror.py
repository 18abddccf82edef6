"""Status pages of engines on other hosts, mirrored on this one: watching and steering need not know where they are.

`PageThere` is used by a keeper, beside its engine; `Mirror` where the run was started. A mirrored page has the files of
the engine's own, and a socket that passes requests on. `ryle monitor`, `ryle serve`, `ryle control` and the like read
and write it as any other page.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ryle.monitor.control import ControlClient, ControlServer
from ryle.monitor.owner import Owner
from ryle.monitor.page import Page, read_page, read_pages
from ryle.monitor.page_files import GLANCE, HISTOGRAMS, OBSERVATION, PREFIX, STATUS, pages_directory, replace
from ryle.monitor.publish import StatusPage
from ryle.store.shared import open_shared
from ryle.stream.controls import StatusError

#: What is mirrored. Rings are not: they are the samples themselves.
_FILES = (STATUS, OBSERVATION, GLANCE, HISTOGRAMS)
_LONGEST = 64 << 20  # bytes of a file
_TURN = 0.5  # seconds between two looks at what is new


@dataclass(frozen=True)
class News:
    """What is new on a page.

    Parameters
    ----------
    name : str
        Of the page.
    files : dict of str to (int, bytes)
        By name, those that have changed: the time of the change, and what is in them.
    """

    name: str
    files: Mapping[str, tuple[int, bytes]]


class PageThere:
    """The page of an engine on this host, for who mirrors it elsewhere."""

    def __init__(self) -> None:
        self._page: Page | None = None
        self._client: ControlClient | None = None

    def news(self, pid: int | None, seen: Mapping[str, int]) -> News | None:
        """Give what has changed since what was seen; None if the process has no page.

        Parameters
        ----------
        pid : int or None
            Of the engine.
        seen : mapping of str to int
            Times of files as they were given before.
        """
        if (page := self._find(pid)) is None:
            return None
        files = {}
        for name in _FILES:
            with suppress(OSError):  # just not there
                changed = (page.path / name).stat().st_mtime_ns
                if seen.get(name) != changed:
                    with open_shared(page.path / name, _LONGEST) as file:
                        files[name] = changed, file.read(_LONGEST)
        return News(page.name, files)

    def ask(self, pid: int | None, request: Mapping[str, Any]) -> dict[str, Any]:
        """Pass a request on to the engine; give its answer, or why there is none as a refusal."""
        key = str(request.get("key"))
        try:
            if (page := self._find(pid)) is None:
                raise StatusError("the engine does not run just now")
            if self._client is None:
                self._client = ControlClient(page)
            return self._client.set(key, request["value"]) if "value" in request else self._asked(self._client, key)
        except StatusError as error:
            self._forget()
            return {"key": key, "refused": str(error)}
        except OSError as error:
            self._forget()
            return {"key": key, "refused": f"no answer there: {error}"}

    @staticmethod
    def _asked(client: ControlClient, key: str) -> dict[str, Any]:
        client.ask(key)
        return client.answer()

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _find(self, pid: int | None) -> Page | None:
        """Find the page of a process: there is one at most."""
        if pid is None:
            return None
        known = self._page
        if known is None or known.owner.pid != pid or not known.alive or not (known.path / STATUS).exists():
            self._forget()
            self._page = next((p for p in read_pages() if p.owner.pid == pid and p.alive), None)
        return self._page


class _Relay(ControlServer):
    """Takes requests for an engine elsewhere."""

    def __init__(self, directory: Path, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__(directory, {})
        self._ask = ask

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """See `ControlServer`."""
        return self._ask(request)


class _PageHere(StatusPage):
    """A page that says what another one elsewhere says."""

    def __init__(self, name: str, status: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.status, self._ask = status, ask
        super().__init__(name)

    def _listen(self, directory: Path) -> ControlServer | None:
        return _Relay(directory, self._ask) if self.status["controls"] else None

    def _write(self, path: Path, values: Mapping[str, Any]) -> None:
        own = {"pid": self._owner.pid, "started": self._owner.started, "namespace": self._owner.namespace}
        replace(path / STATUS, json.dumps(self.status | own, indent=1).encode())


class Mirrored:
    """One engine's page here.

    Parameters
    ----------
    ask : callable
        Passes a request on to the engine; takes it, gives the answer.
    """

    def __init__(self, ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._ask = ask
        self._page: _PageHere | None = None
        #: Times of files as they are here.
        self.seen: dict[str, int] = {}

    def take(self, news: News | None) -> None:
        """Show what is new; without a page there, there is none here.

        Raises
        ------
        OSError
            If no page can be written here.
        """
        if news is None:
            self.close()
            return
        if STATUS in news.files:
            status = json.loads(news.files[STATUS][1])
            if self._page is not None and bool(status["controls"]) != bool(self._page.status["controls"]):
                self.close()  # the engine that was started again
            if self._page is None and not _is_here(news.name, status):
                self._page = _PageHere(news.name, status, self._ask)
            elif self._page is not None:
                self._page.status = status
                self._page.publish({})
        for name, (changed, data) in news.files.items():
            self.seen[name] = changed
            if self._page is not None and name != STATUS:
                self._page.keep(name, data)

    def close(self) -> None:
        """Take the page away."""
        if self._page is not None:
            self._page.close()
        self._page, self.seen = None, {}


def _is_here(name: str, status: Mapping[str, Any]) -> bool:
    """Whether it is the very page that lies here, of an engine on this host."""
    page = read_page(pages_directory() / (PREFIX + name))
    return page is not None and page.owner == Owner(status["pid"], status["started"], status["namespace"])


class Mirror:
    """Mirrors pages, in a thread; a context.

    Parameters
    ----------
    look : callable
        Takes for each engine's name what has been seen of its page; gives by name what is new, or None.
    ask : callable
        Takes an engine's name and a request; gives the answer.
    """

    def __init__(
        self,
        look: Callable[[Mapping[str, Mapping[str, int]]], Mapping[str, News | None]],
        ask: Callable[[str, dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._look, self._ask = look, ask
        self._pages: dict[str, Mirrored] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def add(self, name: str) -> None:
        """Mirror one more engine's."""
        self._pages[name] = Mirrored(lambda request: self._ask(name, request))

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Take all away."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for page in self._pages.values():
            page.close()

    def _run(self) -> None:
        while not self._stop.wait(_TURN):
            for name, news in self._look({name: page.seen for name, page in self._pages.items()}).items():
                with suppress(OSError, ValueError, KeyError, TypeError):  # no room; or one that is just being changed
                    self._pages[name].take(news)
