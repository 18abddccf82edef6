"""Records what is seen while a view is open, from a thread of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ryle.watch.session import Recorder
from ryle.watch.watcher import Watching

_TURN = 0.2  # seconds for which it waits for a look


@contextmanager
def recording(source: Watching, recorder: Recorder) -> Iterator[None]:
    """Add every look to a session while the block lasts.

    A disk that is full ends the recording, not the view; what it was is said on standard error when the block ends.
    """
    ended = threading.Event()
    failed: list[OSError] = []

    def run() -> None:
        last = source.sight()
        recorder.add(last)
        while not ended.is_set():
            sight = source.wait(last.time, _TURN)
            if sight is not None:
                last = sight
                recorder.add(sight)

    def guarded() -> None:
        try:
            run()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=guarded, name="recording", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for error in failed:
            print(f"the recording ended early: {error.strerror}", file=sys.stderr)
