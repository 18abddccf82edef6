"""Status pages of one's own (`ryle.monitor.page`): published by one thread, controls set by whoever asks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ryle.monitor.control import ControlServer
from ryle.monitor.owner import Owner
from ryle.monitor.page import read_page
from ryle.monitor.page_files import BUILDING, OBSERVATION, PREFIX, STATUS, pages_directory, remove, replace
from ryle.stream.controls import Control


class PageTakenError(OSError):
    """The name belongs to a process that still runs."""


class StatusPage:
    """A page of this process: published by one thread, read and set by anybody who may.

    Parameters
    ----------
    name : str
        Letters, digits, dots, dashes and underscores. If a running process has that name, this process's number is
        added to it, unless `exact`.
    controls : mapping of str to Control, optional
        Keys that others may set, from a thread of the page's.
    kinds : mapping of str to (str, str, str), optional
        Of values "counter" or "gauge", the unit and what they mean.
    on_set : callable, optional
        Called when a control was set.
    exact : bool
        Raise instead of choosing another name.

    Raises
    ------
    PageTakenError
        If `exact` and another running process has a page of that name.
    OSError
        If the directory for pages cannot be written.
    ValueError
        If the name cannot be a file's.
    """

    def __init__(
        self,
        name: str,
        controls: Mapping[str, Control] | None = None,
        *,
        kinds: Mapping[str, tuple[str, str, str]] | None = None,
        on_set: Callable[[], None] = lambda: None,
        exact: bool = False,
    ) -> None:
        if not name or not all(c.isalnum() or c in "._-" for c in name) or name.startswith("."):
            raise ValueError(f"{name!r} cannot name a status page: use letters, digits, dots, dashes, underscores")
        self._controls = dict(controls or {})
        self._owner = Owner.this()
        self._version = 0
        self._kinds = dict(kinds or {})
        self._on_set = on_set
        self._server: ControlServer | None = None
        try:
            self.name, self.path = name, self._make(name)
        except PageTakenError:
            if exact:
                raise
            self.name = f"{name}-{os.getpid()}"
            self.path = self._make(self.name)
        if self._server is not None:
            self._server.start()

    def _make(self, name: str) -> Path:
        """Make the whole page aside and move it into its place, from which one without a living owner is taken."""
        directory = pages_directory()
        aside = directory / f"{BUILDING}{name}.{uuid.uuid4().hex}"
        path = directory / (PREFIX + name)
        try:
            try:
                aside.mkdir(0o755)
                self._write(aside, {})
                self._server = self._listen(aside)
            except OSError as error:
                raise _unwritable(directory, error) from None
            for _ in range(100):
                try:
                    return aside.rename(path)
                except OSError:
                    if not path.exists():
                        raise
                found = read_page(path)
                if found is not None and found.alive:
                    raise PageTakenError(
                        f"process {found.owner.pid} has the status page {name}: end it, or take another name"
                    )
                remove(path)
            raise PageTakenError(f"{path} is in the way and cannot be removed: is it another user's?")
        except OSError:
            if self._server is not None:
                self._server.close()
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _listen(self, directory: Path) -> ControlServer | None:
        return ControlServer(directory, self._controls, self._on_set) if self._controls else None

    def publish(self, values: Mapping[str, Any]) -> None:
        """Replace all values; the controls' are those that they have.

        Parameters
        ----------
        values : mapping of str to object
            Anything that JSON has, nested as it may be, of any length.
        """
        self._write(self.path, values)

    def _write(self, path: Path, values: Mapping[str, Any]) -> None:
        self._version += 1
        whole = {
            "pid": self._owner.pid,
            "started": self._owner.started,
            "namespace": self._owner.namespace,
            "version": self._version,
            "updated": time.time(),
            "values": {**values, **{key: c.get() for key, c in self._controls.items()}},
            "controls": {key: c.as_dict() for key, c in self._controls.items()},
            "kinds": self._kinds,
        }
        replace(path / STATUS, json.dumps(whole, indent=1, default=_plain).encode())

    def keep(self, name: str, data: bytes) -> None:
        """Put a file beside the page, in the place of the one before.

        Raises
        ------
        OSError
            If there is no room, or somebody took the page away.
        """
        replace(self.path / name, data)

    def close(self, *, leave: bool = False) -> None:
        """Take no more requests; take the page away, with all that lies in its directory, unless it is to be left."""
        if self._server is not None:
            self._server.close()
        if not leave:
            remove(self.path)
            return
        for each in self.path.iterdir():  # rings are large, and nobody fills them
            if each.name not in (STATUS, OBSERVATION):
                each.unlink()

    def __enter__(self) -> StatusPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pages_problem() -> str:
    """Say why no process can have a page here, and what to do about it; empty if they can."""
    directory = pages_directory()
    probe = directory / f"{BUILDING}probe.{uuid.uuid4().hex}"
    try:
        probe.mkdir(0o700)
        (probe / STATUS).write_text("{}")
    except OSError as error:
        return f"no status pages: {_unwritable(directory, error).strerror}"
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    return ""


@contextmanager
def published(name: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Have a page without controls while the block runs; call what it gives with the values.

    Where no shared memory can be written there is no page, which stops nothing.
    """
    try:
        page = StatusPage(name)
    except OSError as error:
        print(f"no status page: {error}", file=sys.stderr)
        yield lambda values: None
        return

    def publish(values: Mapping[str, Any]) -> None:
        with suppress(OSError):  # no room, or somebody took it away
            page.publish(values)

    with page:
        yield publish


def _plain(value: Any) -> Any:
    """Give numpy's numbers and arrays as JSON has them, and anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _unwritable(directory: Path, error: OSError) -> OSError:
    if error.errno == errno.ENOSPC:
        remedy = f"it is full: see 'df {directory}', and `ryle status clean` removes what killed processes left"
    elif directory.is_dir():
        remedy = (
            f"it cannot be written ({error.strerror}): mend that, or set RYLE_STATUS_DIR to a directory that can be"
        )
    else:
        remedy = "there is none: mount it (mount -t tmpfs none /dev/shm), or set RYLE_STATUS_DIR to another directory"
    return OSError(error.errno, f"{directory}, where `ryle status` would find it: {remedy}")
