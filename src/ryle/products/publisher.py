"""Integrations to whoever connects by TCP: nobody who listens slowly, or not at all, holds up the file.

Each listener gets whole integrations, in order, as frames (`ryle.products.framing`). One that has not taken the last
two when the next comes misses that one, and is told how many it missed. An integration is copied once, for all of them,
into one of a few buffers, and only if somebody has room.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration
from ryle.products.framing import integration_header, preamble

#: Integrations that wait for a listener, and buffers of integrations: what the slowest holds is nobody else's.
WAITING, BUFFERS = 2, 4
_STALLED = 30.0  # s that a listener may take nothing at all
_PIECE = 64 << 20  # bytes that a thread copies at a time
_COPYING = 4  # threads


@dataclass
class _Content:
    """A copy of an integration's arrays, given back when all who got it have sent it."""

    header: dict[str, Any]
    memory: NDArray[np.uint8]
    size: int
    users: int


@dataclass(eq=False)
class _Listener:
    """One who has connected."""

    to: socket.socket
    waiting: queue.Queue[_Content | None] = field(default_factory=lambda: queue.Queue(WAITING + 1))  # and the end
    missed: int = 0
    gone: bool = False


class Publisher:
    """Serves integrations from ``with`` to its end.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    about : dict
        What every listener is told first: ``observation``, name (``source``) and text (``toml``) of its file;
        ``channels``, first and number of those that are served; ``products`` of each.

    Raises
    ------
    OSError
        If it cannot listen there; says what to do.
    """

    def __init__(self, host: str, port: int, about: dict[str, Any]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = socket.create_server((host, port), family=family)
        except OSError as error:
            raise OSError(
                f"cannot serve visibilities at {host} port {port} (output.stream): {error.strerror}; give an address "
                "of this host and a port that nobody has"
            ) from error
        self._about = {"kind": "observation"} | about
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._threads: list[threading.Thread] = []
        self._spare: list[NDArray[np.uint8]] = [np.empty(0, np.uint8) for _ in range(BUFFERS)]
        self._copying = ThreadPoolExecutor(_COPYING, "publish")
        self._missed = 0
        self._closed = False
        self._accepting = threading.Thread(target=self._accept, name="publish", daemon=True)
        self._accepting.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.getsockname()[1])

    @property
    def listeners(self) -> int:
        """How many are connected."""
        with self._lock:
            return len(self._listeners)

    @property
    def missed(self) -> int:
        """Integrations that listeners have missed, added up over all that ever were."""
        return self._missed

    def publish(self, number: int, pieces: Sequence[Integration], more: Mapping[str, Any] | None = None) -> None:
        """Hand on an integration; returns when it has been copied, if anybody wants it, and never waits for a listener.

        Parameters
        ----------
        number : int
            Which it is, of all that came.
        pieces : sequence of Integration
            In order of channels; not needed any more afterwards.
        more : mapping, optional
            What its header is to say besides, ready for JSON.
        """
        with self._lock:
            ready = [each for each in self._listeners if each.waiting.qsize() < WAITING]
            memory = self._spare.pop() if ready and self._spare else None
            for each in self._listeners:
                if memory is None or each not in ready:
                    each.missed += 1
                    self._missed += 1
        if memory is None:
            return
        header, arrays = integration_header(number, pieces)
        header |= more or {}
        size = sum(each.nbytes for each in arrays)
        if memory.size < size:
            memory = np.empty(size, np.uint8)
        self._copy(arrays, memory)
        content = _Content(header, memory, size, 1)
        with self._lock:
            there = [each for each in ready if not each.gone]
            content.users += len(there)
            for each in there:
                each.waiting.put_nowait(content)
        self._used(content)

    def close(self) -> None:
        """Tell listeners that this was all, when they have taken what waits for them, and hang up."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            listeners, threads = list(self._listeners), list(self._threads)
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in listeners:
            each.waiting.put(None)
        for thread in (self._accepting, *threads):
            thread.join(_STALLED + 5)
        self._copying.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _copy(self, arrays: Sequence[NDArray[Any]], memory: NDArray[np.uint8]) -> None:
        at, jobs = 0, []
        for each in arrays:
            to = memory[at : at + each.nbytes].view(each.dtype).reshape(each.shape)
            rows = max(1, _PIECE // max(1, each.nbytes // len(each)))
            jobs += [(to[low : low + rows], each[low : low + rows]) for low in range(0, len(each), rows)]
            at += each.nbytes
        for done in [self._copying.submit(np.copyto, to, source) for to, source in jobs]:
            done.result()

    def _accept(self) -> None:
        while True:
            try:
                to, _ = self._server.accept()
            except OSError:
                return  # closed
            to.settimeout(_STALLED)
            listener = _Listener(to)
            thread = threading.Thread(target=self._serve, args=(listener,), name="listener", daemon=True)
            with self._lock:
                if self._closed:
                    to.close()
                    return
                self._listeners.append(listener)
                self._threads = [*(t for t in self._threads if t.is_alive()), thread]
                thread.start()

    def _serve(self, listener: _Listener) -> None:
        """Send one listener what waits for it, until the end or until it takes no more."""
        content: _Content | None = None
        try:
            listener.to.sendall(preamble(self._about, 0))
            while (content := listener.waiting.get()) is not None:
                header = content.header | {"missed": listener.missed}
                listener.to.sendall(preamble(header, content.size))
                listener.to.sendall(content.memory.data[: content.size])
                self._used(content)
            listener.to.sendall(preamble({"kind": "end", "missed": listener.missed}, 0))
        except OSError:
            if content is not None:  # it has gone, or takes nothing
                self._used(content)
        finally:
            with self._lock:
                listener.gone = True
                self._listeners.remove(listener)
            while not listener.waiting.empty():
                if (left := listener.waiting.get()) is not None:
                    self._used(left)
            listener.to.close()

    def _used(self, content: _Content) -> None:
        with self._lock:
            content.users -= 1
            if content.users == 0:
                self._spare.append(content.memory)
