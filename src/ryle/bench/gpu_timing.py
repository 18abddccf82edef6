"""How GPU work is timed: in turn, by the GPU's own clock, many launches at a time, within a given time.

Launches are recorded once as a CUDA graph and replayed, so that what is timed is the GPU and not how quickly Python
enqueues. Work that cannot be recorded is enqueued each time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ryle.gpu.interface import Gpu, Stream

Launch = Callable[[Stream], None]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one launch, round by round; each a mean over `repeats` launches in a row."""

    seconds: list[float]
    repeats: int

    @property
    def median(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and last quartile over the rounds; the extremes where there are fewer than four."""
        if len(self.seconds) < 4:
            return min(self.seconds), max(self.seconds)
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return low, high


class Budget:
    """Share of a total time among pieces of work of different weights; what one leaves over goes to the rest."""

    def __init__(self, seconds: float, weights: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._weights = weights

    def take(self, weight: float) -> float:
        """Give a piece of work its share of the time that is left, in seconds; never negative."""
        left = max(0.0, self._deadline - time.monotonic())
        share = left * min(1.0, weight / self._weights) if self._weights > 0 else 0.0
        self._weights -= weight
        return share


def seconds_of(launch: Launch, stream: Stream, repeats: int = 1) -> float:
    """Run a launch some times in a row and give the seconds of one."""
    begin = stream.record()
    for _ in range(repeats):
        launch(stream)
    return stream.record().seconds_since(begin) / repeats


def interleave(
    work: Mapping[str, Launch], gpu: Gpu, seconds: float, rounds: int = 7, recorded: bool = True
) -> dict[str, Times]:
    """Time pieces of work in turn.

    Parameters
    ----------
    work : mapping
        Name to launch; each runs twice beforehand, to warm up and to find how often it fits in its share.
    gpu : Gpu
        Where it runs.
    seconds : float
        For all rounds together, roughly; each launch runs at least once a round, so it may become more.
    rounds : int
        How often each is timed.
    recorded : bool
        Whether to replay launches as CUDA graphs.
    """
    stream = gpu.stream()
    ready = {name: record(launch, stream) if recorded else launch for name, launch in work.items()}
    repeats = {}
    for name, launch in ready.items():
        launch(stream)
        one = seconds_of(launch, stream)
        repeats[name] = max(1, math.floor(seconds / rounds / len(ready) / max(one, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, launch in ready.items():
            times[name].append(seconds_of(launch, stream, repeats[name]))
    return {name: Times(values, repeats[name]) for name, values in times.items()}


def record(launch: Launch, stream: Stream) -> Launch:
    """Record a launch as a CUDA graph and give what replays it; the launch itself where that is refused."""
    from cuda.bindings import driver

    def checked(answer: tuple[object, ...]) -> object:
        if answer[0] != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(str(answer[0]))
        return answer[1] if len(answer) > 1 else None

    launch(stream)  # whatever is set up at the first launch is not to be recorded
    stream.synchronize()
    handle = driver.CUstream(stream.handle)
    checked(driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        launch(stream)
    finally:
        answer = driver.cuStreamEndCapture(handle)
    try:
        graph = _Graph(driver, checked(driver.cuGraphInstantiate(checked(answer), 0)), checked(answer))
    except RuntimeError:
        return launch
    return graph


class _Graph:
    """A recorded launch."""

    def __init__(self, driver: object, executable: object, graph: object) -> None:
        self._driver, self._executable, self._graph = driver, executable, graph

    def __call__(self, stream: Stream) -> None:
        driver: object = self._driver
        (status,) = driver.cuGraphLaunch(self._executable, driver.CUstream(stream.handle))  # type: ignore[attr-defined]
        if status != driver.CUresult.CUDA_SUCCESS:  # type: ignore[attr-defined]
            raise RuntimeError(f"replaying a CUDA graph failed: {status}")

    def __del__(self) -> None:
        self._driver.cuGraphExecDestroy(self._executable)  # type: ignore[attr-defined]
        self._driver.cuGraphDestroy(self._graph)  # type: ignore[attr-defined]
