"""How a running process is told to change something: a socket beside its status page.

Whoever may write to the page's directory connects, sends requests and gets an answer to each, in order; many may be on
their way at once. A request names a control and gives its value (`ryle.stream.controls`); the owner checks it, sets it
from a thread of its own, and answers what it set, from when on data reflect it, or why not. A message is a preamble
(magic, bytes of JSON, bytes behind it), JSON, and the bytes of the arrays in it: gains of many inputs and channels do
not have to be spelled out in digits, whose reading would hold up everything else that the owner does.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from ryle.monitor.page import Page, page_with
from ryle.monitor.page_files import CONTROL
from ryle.stream.controls import Control, StatusError

_HEAD = struct.Struct("<4sII")  # magic and version, bytes of JSON, bytes of arrays
_MAGIC = b"RCT1"
_LONGEST = 1 << 20, 1 << 30  # JSON, arrays
_TYPES = ("<c8", "<f8", "<i8")
_ARRAY = "$array"  # {"$array": [dtype, shape, offset]} stands for one
_PIECE = 1 << 16
_TURN = 0.2  # seconds between two looks at whether to end


def pack(message: Mapping[str, Any]) -> bytes:
    """Make a message; arrays of complex64, float64 or int64 anywhere in it go as bytes."""
    arrays: list[bytes] = []
    at = 0

    def plain(value: Any) -> Any:
        nonlocal at
        if isinstance(value, np.ndarray):
            kind = {"c": "<c8", "i": "<i8", "u": "<i8"}.get(value.dtype.kind, "<f8")
            arrays.append(np.ascontiguousarray(value, kind).tobytes())
            at += len(arrays[-1])
            return {_ARRAY: [kind, list(value.shape), at - len(arrays[-1])]}
        return value.item() if isinstance(value, np.generic) else str(value)

    text = json.dumps(message, default=plain).encode()
    return b"".join([_HEAD.pack(_MAGIC, len(text), at), text, *arrays])


def unpack(text: bytes, arrays: bytes) -> dict[str, Any]:
    """Read a message.

    Raises
    ------
    ValueError
        If it is none.
    """

    def array(part: dict[str, Any]) -> Any:
        if part.keys() != {_ARRAY}:
            return part
        kind, shape, offset = part[_ARRAY]
        if kind not in _TYPES or min(shape, default=0) < 0:
            raise ValueError(f"an array of {kind} and shape {shape}")
        return np.frombuffer(arrays, kind, int(np.prod(shape, dtype=object)), offset).reshape(shape)

    try:
        message = json.loads(text, object_hook=array)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from None
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


class _Buffer:
    """Bytes as they come, to messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        self._bytes += data

    def take(self) -> dict[str, Any] | None:
        """Give the next message, if it has come whole; ValueError if what came is none."""
        if len(self._bytes) < _HEAD.size:
            return None
        magic, text, arrays = _HEAD.unpack_from(self._bytes)
        if magic != _MAGIC or text > _LONGEST[0] or arrays > _LONGEST[1]:
            raise ValueError("no message")
        end = _HEAD.size + text + arrays
        if len(self._bytes) < end:
            return None
        parts = bytes(self._bytes[_HEAD.size : _HEAD.size + text]), bytes(self._bytes[_HEAD.size + text : end])
        del self._bytes[:end]
        return unpack(*parts)


class _Caller:
    """Somebody who is connected."""

    def __init__(self, link: socket.socket) -> None:
        self.link, self.came, self.answers = link, _Buffer(), bytearray()


def _at(directory: Path, use: Callable[[str], None]) -> None:
    """Name the socket in a directory, however long its path is: addresses of sockets have 107 bytes."""
    place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{place}/{CONTROL}")
    finally:
        os.close(place)


class ControlServer:
    """Takes requests in a thread of its own, from `start` to `close`.

    Parameters
    ----------
    directory : Path
        Of the page; the socket is made in it, for its owner and root alone.
    controls : mapping of str to Control
        What may be set.
    on_set : callable
        Called after each request that changed something.

    Raises
    ------
    OSError
        If the socket cannot be made.
    """

    def __init__(
        self, directory: Path, controls: Mapping[str, Control], on_set: Callable[[], None] = lambda: None
    ) -> None:
        self._controls, self._on_set = controls, on_set
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            _at(directory, self._socket.bind)
            (directory / CONTROL).chmod(0o600)
            self._socket.listen(64)
        except OSError:
            self._socket.close()
            raise
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="controls", daemon=True)

    def start(self) -> None:
        """Begin to take requests."""
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._socket, selectors.EVENT_READ)
            callers: set[_Caller] = set()
            while not self._ended.is_set():
                for key, _ in waiting.select(_TURN):
                    if key.data is None:
                        with suppress(OSError):
                            link, _ = self._socket.accept()
                            link.setblocking(False)
                            caller = _Caller(link)
                            callers.add(caller)
                            waiting.register(link, selectors.EVENT_READ, caller)
                    elif not self._attend(key.data):
                        callers.discard(key.data)
                        waiting.unregister(key.data.link)
                        key.data.link.close()
                    else:
                        # Who does not take answers is asked no more, until he does.
                        event = selectors.EVENT_WRITE if key.data.answers else selectors.EVENT_READ
                        waiting.modify(key.data.link, event, key.data)
            for caller in callers:
                caller.link.close()

    def _attend(self, caller: _Caller) -> bool:
        """Take what a caller sent, send what it is answered; whether it is still there."""
        try:
            if not caller.answers:
                data = caller.link.recv(_PIECE)
                if not data:
                    return False
                caller.came.add(data)
                while (request := caller.came.take()) is not None:
                    caller.answers += pack(self.answer(request))
            del caller.answers[: caller.link.send(caller.answers) if caller.answers else 0]
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            return False
        return True

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks; one without a value asks what it is.

        Returns
        -------
        dict
            "key", and "value" as it is now with what the control's `set` gave, or "refused", why not.
        """
        key = request.get("key")
        control = self._controls.get(key) if isinstance(key, str) else None
        if control is None:
            return {"key": str(key), "refused": f"{key} is no control"}
        if "value" not in request:
            return {"key": key, "value": control.get()}
        try:
            said = control.set(control.checked(str(key), request["value"]))
        except (ValueError, TypeError, KeyError) as error:  # of what a JSON value lacks, too
            return {"key": key, "refused": str(error) or repr(error)}
        self._on_set()
        return {"key": key, "value": control.get(), **(said or {})}


class ControlClient:
    """Sets the controls of one page's owner.

    Parameters
    ----------
    page : Page
        Of a running process.
    patience : float
        Seconds to wait for an answer.

    Raises
    ------
    StatusError
        If its owner has no controls, or has ended.
    PermissionError
        If it belongs to another user.
    """

    def __init__(self, page: Page, patience: float = 10.0) -> None:
        self._page, self._patience = page, patience
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(patience)
        self._came = _Buffer()
        try:
            _at(page.path, self._socket.connect)
        except PermissionError:
            self._socket.close()
            user = page.path.stat().st_uid
            raise PermissionError(
                f"{page.name} belongs to user {user}: only that user and root may set its keys"
            ) from None
        except TimeoutError:
            self._socket.close()
            raise self._silent("what it is asked") from None
        except OSError:
            self._socket.close()
            raise StatusError(f"{page.name} takes no requests: it has ended, or has no controls") from None

    def _silent(self, what: str) -> TimeoutError:
        return TimeoutError(
            f"{self._page.name} (process {self._page.owner.pid}) took no notice of {what} within {self._patience:g} s: "
            "is it stopped?"
        )

    def set(self, key: str, value: Any) -> dict[str, Any]:
        """Set a control; give the owner's answer.

        Parameters
        ----------
        key : str
            The control.
        value : object
            Of JSON, or with arrays in it.

        Returns
        -------
        dict
            "value" as it is now, and what the control says of it, such as "sample", from which on data reflect it.

        Raises
        ------
        StatusError
            If it was refused, or the owner ended.
        TimeoutError
            If it does not answer.
        """
        self.ask(key, value)
        return self.answer()

    def ask(self, key: str, *value: Any) -> None:
        """Send a request, or without a value ask what it is; `answer` gives the answers in the order of requests."""
        try:
            self._socket.sendall(pack({"key": key} | ({"value": value[0]} if value else {})))
        except TimeoutError:
            raise self._silent(key) from None
        except OSError:
            raise StatusError(f"{self._page.name} ended before it took {key}") from None

    def answer(self) -> dict[str, Any]:
        """Wait for the next answer; see `set`."""
        deadline = time.monotonic() + self._patience
        try:
            while (found := self._came.take()) is None:
                self._socket.settimeout(max(1e-3, deadline - time.monotonic()))
                if not (data := self._socket.recv(_PIECE)):
                    raise ConnectionResetError
                self._came.add(data)
        except TimeoutError:
            raise self._silent("a request") from None
        except (OSError, ValueError):
            raise StatusError(f"{self._page.name} ended before it answered") from None
        if "refused" in found:
            raise StatusError(str(found["refused"]))
        return found

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def set_control(key: str, text: str, name: str | None = None, patience: float = 10.0) -> tuple[Page, dict[str, Any]]:
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
    page : Page
        Whose control it is, as it was before.
    answer : dict
        See `ControlClient.set`.

    Raises
    ------
    StatusError
        If there is no such page or control, or the value is not allowed: says what is.
    TimeoutError
        If the owner does not answer.
    PermissionError
        If the page belongs to another user.
    """
    page = page_with(key, name)
    value = page.controls[key].parsed(key, text)
    with ControlClient(page, patience) as client:
        return page, client.set(key, value)
