"""How an engine is told to finish: drain what is on its way, then stop.

An engine drains when it is told ``drain`` on standard input, when standard input closes (its supervisor has died), or
on SIGTERM. SIGINT is left to the supervisor, which drains the engines in signal-path order, so that Ctrl-C loses
nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable


class DrainControl:
    """Calls back once when the engine should finish.

    Parameters
    ----------
    on_drain : callable
        Called from another thread, once.
    listen : bool
        Whether standard input is a supervisor's pipe.
    """

    def __init__(self, on_drain: Callable[[], None], listen: bool) -> None:
        self._on_drain = on_drain
        self.draining = threading.Event()
        self._lock = threading.Lock()
        if listen:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            threading.Thread(target=self._listen, name="control", daemon=True).start()
            signal.signal(signal.SIGTERM, self._signalled)
        else:
            signal.signal(signal.SIGINT, self._signalled)
            signal.signal(signal.SIGTERM, self._signalled)

    def drain(self) -> None:
        """Finish; harmless if called again."""
        with self._lock:
            if self.draining.is_set():
                return
            self.draining.set()
        self._on_drain()

    def _signalled(self, *_: object) -> None:
        # Not from the handler itself: it may have interrupted a thread that holds a lock the drain needs.
        threading.Thread(target=self.drain, name="drain", daemon=True).start()

    def _listen(self) -> None:
        # os.read, not sys.stdin: a thread blocked in the latter holds a lock that interpreter exit waits for.
        buffer = b""
        while data := os.read(sys.stdin.fileno(), 4096):
            buffer += data
            if b"drain\n" in buffer:
                break
        self.drain()
