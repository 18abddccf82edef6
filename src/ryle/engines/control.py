"""What an engine is told: ``go`` when everybody is ready, ``drain`` when it is to finish what is on its way and stop.

A supervisor says so on standard input. An engine also drains when standard input closes (its supervisor has died), or
on SIGTERM. SIGINT is left to the supervisor, which drains the engines in signal-path order, so that Ctrl-C loses
nothing. An engine without a supervisor goes at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable


class Orders:
    """Waits for what the engine is told; calls back once when it should finish.

    Parameters
    ----------
    on_drain : callable
        Called from another thread, once.
    listen : bool
        Whether standard input is a supervisor's pipe.

    Attributes
    ----------
    draining : Event
        Set when the engine is to finish.
    """

    def __init__(self, on_drain: Callable[[], None], listen: bool) -> None:
        self._on_drain = on_drain
        self._go, self.draining = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        if listen:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            threading.Thread(target=self._listen, name="control", daemon=True).start()
            signal.signal(signal.SIGTERM, self._signalled)
        else:
            self._go.set()
            signal.signal(signal.SIGINT, self._signalled)
            signal.signal(signal.SIGTERM, self._signalled)

    def wait_go(self) -> None:
        """Wait until everybody is ready, or until there is nothing to wait for any more."""
        self._go.wait()

    def drain(self) -> None:
        """Finish; harmless if called again."""
        with self._lock:
            if self.draining.is_set():
                return
            self.draining.set()
        self._on_drain()
        self._go.set()

    def _signalled(self, *_: object) -> None:
        # Not from the handler itself: it may have interrupted a thread that holds a lock the drain needs.
        threading.Thread(target=self.drain, name="drain", daemon=True).start()

    def _listen(self) -> None:
        # os.read, not sys.stdin: a thread blocked in the latter holds a lock that interpreter exit waits for.
        buffer = b""
        while data := os.read(sys.stdin.fileno(), 4096):
            *lines, buffer = (buffer + data).split(b"\n")
            if b"go" in lines:
                self._go.set()
            if b"drain" in lines:
                break
        self.drain()
