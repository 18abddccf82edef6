"""Status pages: what a running process says of itself, in shared memory, for anybody on the machine to read.

A page is a directory ``/dev/shm/ryle.NAME`` that holds::

    status.json     the newest version: owner, time, values, declared controls
    set/ID          what somebody wants a control to be, until the owner takes it
    ring            the blocks of a live capture, if there is one (`ryle.store.ring_file`)

Nothing here is locked. Each version is a file of its own that takes the place of the one before by rename(2), which the
kernel makes atomic: a reader opens the old version or the new one, whole, however the writer ends. The owner is known
by process ID and start time, so that a page whose owner was killed is recognized even if its number lives again.

Any user may put anything in shared memory. A reader waits for nothing that lies there: links, pipes, devices, what is
too long or nested too deep, and what has other types than these are no pages, and nobody notices them.
"""

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
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any

from ryle.monitor.controls import Control, StatusError
from ryle.monitor.owner import Owner
from ryle.store.shared import open_shared

_PREFIX = "ryle."
_BUILDING = ".ryle."  # a page that its owner is just making or taking away
_STATUS = "status.json"
_SET = "set"
_ANSWERS = 100  # requests whose answers stay on the page
_LONGEST = 64 << 20  # bytes of a version
_DEEPEST = 30  # values within values
_SHARED = "/dev/shm"


def pages_directory() -> Path:
    """Where pages lie: memory that all processes of the machine share, or what RYLE_STATUS_DIR names."""
    return Path(os.environ.get("RYLE_STATUS_DIR", _SHARED))


def _read_json(path: Path) -> Any:
    with open_shared(path) as file:
        text = file.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"{path} is too long")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None


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
    answers : dict of str to (str or None)
        The last requests that the owner took, by ID: why one was refused, None if it was not.
    """

    name: str
    path: Path
    owner: Owner
    version: int
    updated: float
    values: dict[str, Any]
    controls: dict[str, Control] = field(default_factory=dict)
    answers: dict[str, str | None] = field(default_factory=dict)

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
        Keys that others may set.
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

    def __init__(self, name: str, controls: Mapping[str, Control] | None = None, *, exact: bool = False) -> None:
        if not name or not all(c.isalnum() or c in "._-" for c in name) or name.startswith("."):
            raise ValueError(f"{name!r} cannot name a status page: use letters, digits, dots, dashes, underscores")
        self._controls = dict(controls or {})
        self._owner = Owner.this()
        self._version = 0
        self._answers: dict[str, str | None] = {}
        try:
            self.name, self.path = name, self._make(name)
        except PageTakenError:
            if exact:
                raise
            self.name = f"{name}-{os.getpid()}"
            self.path = self._make(self.name)

    def _make(self, name: str) -> Path:
        """Make the whole page aside and move it into its place, from which one without a living owner is taken."""
        directory = pages_directory()
        aside = directory / f"{_BUILDING}{name}.{uuid.uuid4().hex}"
        path = directory / (_PREFIX + name)
        try:
            try:
                aside.mkdir(0o755)
                (aside / _SET).mkdir(0o700)
                self._write(aside, {})
            except OSError as error:
                raise _unwritable(directory, error) from None
            for _ in range(100):
                try:
                    return aside.rename(path)
                except OSError:
                    if not path.exists():
                        raise
                found = _read(path)
                if found is not None and found.alive:
                    raise PageTakenError(
                        f"process {found.owner.pid} has the status page {name}: end it, or take another name"
                    )
                _remove(path)
            raise PageTakenError(f"{path} is in the way and cannot be removed: is it another user's?")
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
            raise

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
            "answers": self._answers,
        }
        _replace(path / _STATUS, json.dumps(whole, indent=1, default=_plain))

    def take_requests(self) -> bool:
        """Set the controls that somebody has asked for; whether there were any.

        What is not allowed is refused; the asker finds why on the page.
        """
        try:
            found = [e for e in os.scandir(self.path / _SET) if not e.name.startswith(".")]
            requests = sorted(found, key=lambda e: e.stat().st_mtime_ns)
        except FileNotFoundError:
            return False
        for entry in requests:
            try:
                wanted = _read_json(Path(entry.path))
                os.unlink(entry.path)
                key, value = str(wanted["key"]), wanted["value"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            self._answers[entry.name] = self._set(key, value)
        while len(self._answers) > _ANSWERS:
            del self._answers[next(iter(self._answers))]
        return bool(requests)

    def _set(self, key: str, value: Any) -> str | None:
        """Set a control; why not, if it was refused."""
        if key not in self._controls:
            return f"{key} is no control"
        try:
            self._controls[key].set(self._controls[key].checked(key, value))
        except ValueError as error:
            return str(error)
        return None

    def close(self) -> None:
        """Take the page away, with all that lies in its directory."""
        _remove(self.path)

    def __enter__(self) -> StatusPage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pages_problem() -> str:
    """Say why no process can have a page here, and what to do about it; empty if they can."""
    directory = pages_directory()
    probe = directory / f"{_BUILDING}probe.{uuid.uuid4().hex}"
    try:
        probe.mkdir(0o700)
        (probe / _STATUS).write_text("{}")
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


def _replace(path: Path, text: str) -> None:
    """Put a file in the place of another; readers find one or the other."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        aside.write_text(text)
        aside.rename(path)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _remove(path: Path) -> None:
    """Take a page away at once: nobody finds half of it."""
    aside = path.with_name(f"{_BUILDING}{path.name}.{uuid.uuid4().hex}")
    with suppress(OSError):
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


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


def _read(path: Path) -> Page | None:
    try:
        whole = _of(dict, _read_json(path / _STATUS))
        return Page(
            name=path.name.removeprefix(_PREFIX),
            path=path,
            owner=Owner(_of(int, whole["pid"]), _of(int, whole["started"]), _of(str, whole["namespace"])),
            version=_of(int, whole["version"]),
            updated=_of(int | float, whole["updated"]),
            values=_of(dict, whole["values"]),
            controls={key: Control.from_dict(_of(dict, c)) for key, c in _of(dict, whole["controls"]).items()},
            answers=_of(dict, whole["answers"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # just taken away, or no page of ours


def read_pages(name: str | None = None) -> list[Page]:
    """Read all pages of the machine, or the one called `name`, by name; those of dead owners too."""
    directory = pages_directory()
    names = [_PREFIX + name] if name else sorted(e.name for e in _entries(directory) if e.name.startswith(_PREFIX))
    return [page for n in names if (page := _read(directory / n)) is not None]


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
            _remove(page.path)
            if not page.path.exists():
                removed.append(page.name)
    for entry in _entries(pages_directory()):
        if entry.name.startswith(_BUILDING):
            page_aside = _read(Path(entry.path))
            # One without a status is being made or removed at this moment, unless that was a while ago.
            gone = not page_aside.alive if page_aside else time.time() - entry.stat().st_mtime > 10
            if gone:
                shutil.rmtree(entry.path, ignore_errors=True)
                if not os.path.exists(entry.path):
                    removed.append(entry.name)
    return removed


def set_control(key: str, text: str, name: str | None = None, patience: float = 10.0) -> Page:
    """Ask the owner of a page to set a control, and wait until it has.

    Parameters
    ----------
    key : str
        The control.
    text : str
        Its value as people write it; checked against the control's type and range before anything is asked.
    name : str, optional
        The page; may be left out if one running process has that control.
    patience : float
        Seconds to wait for the owner.

    Returns
    -------
    Page
        The page that has the new value.

    Raises
    ------
    StatusError
        If there is no such page or control, or the value is not allowed: says what is.
    TimeoutError
        If the owner does not answer.
    PermissionError
        If the page belongs to another user.
    """
    page = _page_with(key, name)
    value = page.controls[key].parsed(key, text)
    identity = uuid.uuid4().hex
    try:
        _replace(page.path / _SET / identity, json.dumps({"key": key, "value": value}))
    except PermissionError:
        user = page.path.stat().st_uid
        raise PermissionError(f"{page.name} belongs to user {user}: only that user and root may set its keys") from None
    deadline = time.monotonic() + patience
    while True:
        now = _read(page.path)
        if now is not None and identity in now.answers:
            if (why := now.answers[identity]) is not None:
                raise StatusError(why)
            return now
        if now is None or now.owner != page.owner or not now.alive:
            raise StatusError(f"{page.name} ended before it took {key}")
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{page.name} (process {page.owner.pid}) took no notice of {key} within {patience:g} s: is it stopped?"
            )
        time.sleep(0.02)


def _page_with(key: str, name: str | None) -> Page:
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
