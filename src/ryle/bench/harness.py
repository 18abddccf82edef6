"""What all benchmarks share: turns, ratios within a turn, and processes that are told what to do.

What is compared takes turns, so that a machine that slows down slows all of it down; a ratio is that of one turn. What
needs a process of its own (a core, a network namespace, DPDK, fresh memory) is a module with a `main` that ends in
`serve`, and is asked things through a `Child`: a line of JSON each way.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, ParamSpec, Self, TypeVar

from ryle.gpu import Gpu

__all__ = ["Answers", "Child", "emulated_gpu", "in_child", "quartiles", "ratios", "say", "serve", "take_turns"]

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")
Given = ParamSpec("Given")
#: What a process answers, by what it is asked.
Answers = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]
_ENDING = 15.0  # s that a process has to end by itself


def take_turns(
    work: Mapping[Key, Callable[[], Found]],
    turns: int,
    *,
    back_and_forth: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[Key, list[Found]]:
    """Do pieces of work in turn.

    Parameters
    ----------
    work : mapping
        Name to what measures it once, and returns what it found.
    turns : int
        How often each has its turn.
    back_and_forth : bool
        Whether every other turn goes in the reverse order: nobody always follows the same one.
    progress : callable
        Told which turn begins, from 0 on.

    Returns
    -------
    dict
        Name to what was found, turn by turn.
    """
    found: dict[Key, list[Found]] = {name: [] for name in work}
    for turn in range(turns):
        progress(turn)
        for name in list(work)[:: -1 if back_and_forth and turn % 2 else 1]:
            found[name].append(work[name]())
    return found


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and last quartile; the extremes where there are fewer than four."""
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def ratios(values: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Ratios turn by turn: what slows down both changes none of them."""
    return [a / b for a, b in zip(values, baseline, strict=True)]


def in_child(call: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """Call a function of a module in a fresh process, and give what it returns or raise what it raises."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *args, **kwargs).result()


class Child:
    """A process that is asked things, from ``with`` to its end.

    Parameters
    ----------
    module : str
        What ``python -m`` runs; its `main` ends in `serve`.
    *arguments : str
        Of its command line.
    prefix : sequence of str
        Command that it is started by, for instance in a network namespace.

    Raises
    ------
    RuntimeError
        By all methods, if it ends by itself; it has said why.
    """

    def __init__(self, module: str, *arguments: str, prefix: Sequence[str] = ()) -> None:
        self._name = " ".join([module.rpartition(".")[2], *arguments])
        command = [*prefix, sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def tell(self, what: dict[str, Any]) -> None:
        """Send a line."""
        try:
            self._to.write(json.dumps(what) + "\n")
            self._to.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self) -> dict[str, Any]:
        """Wait for a line that it sends."""
        line = self._from.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, what: str, **more: Any) -> None:
        """Ask for one of its `Answers`, which `answer` then gives: several can be at work at once."""
        self.tell({"ask": what} | more)

    def _ended(self) -> RuntimeError:
        return RuntimeError(f"a process ({self._name}) ended by itself; see above")

    def close(self) -> None:
        """Let it end; after some seconds, end it."""
        try:
            self._to.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()


def emulated_gpu() -> Gpu:
    """Give the tests' GPU (PYTHONPATH=tests), to try programs without one."""
    from emulation import EmulatedGpu  # type: ignore[import-not-found]

    gpu: Gpu = EmulatedGpu()
    return gpu


def say(what: dict[str, Any]) -> None:
    """Send a line to who started this process."""
    print(json.dumps(what), flush=True)


def serve(answers: Answers) -> None:
    """Answer what a `Child` is asked, until standard input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        say(answers[asked["ask"]](asked))
