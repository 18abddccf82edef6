"""An engine: entrances and a list of steps, started, watched, drained in order, and ended with a clear reason."""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ryle.stream.chain import threads
from ryle.stream.metrics import Registry
from ryle.stream.ring import Aborted, Readable
from ryle.stream.step import Step

if TYPE_CHECKING:
    from ryle.stream.account import Account

#: Seconds after which a step that runs Python code lets others: a step that only enqueues must not wait for 5 ms.
_SWITCH = 5e-4
_TURN = 0.1  # seconds between two looks at whether anything has failed
_LEAVING = 10.0  # seconds that steps have to end when Python does
_started: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End what still runs when Python ends: a thread that came back from native code after that would abort it."""
    running = [engine for engine in _started if engine.running]
    for engine in running:
        engine._abort()
    until = time.monotonic() + _LEAVING
    for engine in running:
        for thread in engine._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if not engine.running:
            engine.close()


class Inlet(Protocol):
    """What packets come in by: an entrance, or whatever takes its place."""

    name: str
    advice: str

    def start(self) -> None:
        """Begin to receive."""

    def stop(self) -> None:
        """Receive no more; what has come is still read. From any thread, repeatedly."""

    def abort(self) -> None:
        """Wake everybody who waits here, with `Aborted`, and receive no more."""

    def close(self) -> None:
        """Free sockets and threads; called once, after everything that reads from it has ended."""

    @property
    def given(self) -> int:
        """Blocks that readers have been given."""

    @property
    def pending(self) -> int:
        """What has come and was not yet used."""

    @property
    def discarded(self) -> int:
        """Packets that came before the start, as far as that is known."""

    def account(self) -> Account:
        """Say what became of every packet so far."""


class Engine:
    """Runs steps in threads (`ryle.stream.chain.threads`) until their inputs end.

    Draining goes the way of the signal: entrances receive no more, what has come is worked on, each step ends when its
    inputs have, and closes what it writes. If a step fails, everybody else is woken at once and the failure is raised
    from `wait`.

    Parameters
    ----------
    entrances : sequence of Inlet
        Where packets come in.
    steps : sequence of Step
        In the order of the signal path.
    metrics : Registry, optional
        What is counted and measured in it.
    """

    def __init__(self, entrances: Sequence[Inlet], steps: Sequence[Step], metrics: Registry | None = None) -> None:
        self.entrances, self.steps = list(entrances), list(steps)
        self.metrics = metrics if metrics is not None else Registry()
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin, from the last step to the entrances, so that nothing comes that nobody takes."""
        sys.setswitchinterval(_SWITCH)
        _started.add(self)
        for step in self.steps:
            step.wake()
        for step in reversed(threads(self.steps)):
            thread = threading.Thread(target=self._run, args=(step,), name=step.name, daemon=True)
            self._threads.append(thread)
            thread.start()
        for entrance in self.entrances:
            entrance.start()

    @property
    def running(self) -> bool:
        """Whether any step is at work or waits."""
        return any(thread.is_alive() for thread in self._threads)

    def drain(self) -> None:
        """Take nothing in any more; what has come is finished. From any thread, repeatedly."""
        for entrance in self.entrances:
            try:
                entrance.stop()
            except RuntimeError as error:  # receiving had failed
                self._fail(error)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end.

        Parameters
        ----------
        timeout : float, optional
            Seconds; as long as it takes if absent.

        Returns
        -------
        bool
            Whether it has come.

        Raises
        ------
        BaseException
            Whatever made a step fail.
        """
        left = timeout
        for thread in self._threads:
            while thread.is_alive():
                turn = _TURN if left is None else min(_TURN, left)
                thread.join(turn)
                if left is not None:
                    left -= turn
                    if left <= 0 and thread.is_alive():
                        return False
        if self._failure is not None:
            raise self._failure
        return True

    def close(self) -> None:
        """End at once, whatever is under way, and free everything; harmless after the end."""
        if self.running:
            self._abort()
            for thread in self._threads:
                thread.join()
        else:
            self.drain()
        for entrance in self.entrances:
            entrance.close()
        for step in self.steps:
            step.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failure(self) -> BaseException | None:
        """What made it fail."""
        return self._failure

    def _rings(self) -> list[Inlet | Readable]:
        """Give all that anybody may wait at: also what steps read that is no step's output."""
        read = [source.ring for step in self.steps for source in step.sources]
        written = [ring for step in self.steps for ring in step.outputs]
        return list(dict.fromkeys([*self.entrances, *written, *read]))

    def _run(self, step: Step) -> None:
        try:
            step.run()
        except Aborted:
            pass
        except BaseException as error:
            self._fail(error)
        finally:
            for ring in step.outputs:
                ring.close()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = error
        self._abort()

    def _abort(self) -> None:
        for ring in self._rings():
            try:
                ring.abort()
            except RuntimeError as error:  # receiving had failed; it is the reason if there is none yet
                with self._lock:
                    self._failure = self._failure or error
