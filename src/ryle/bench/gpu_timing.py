"""How GPU work is timed: in turn, by the GPU's own clock, many launches at a time, within a given time.

Launches are recorded once as a CUDA graph and replayed, so that what is timed is the GPU and not how quickly Python
enqueues; of short launches, many together. Work that cannot be recorded is enqueued each time.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ryle.bench.harness import quartiles, take_turns
from ryle.gpu.interface import Gpu, Stream
from ryle.gpu.power import EnergyMeter

_BATCH = 0.03  # seconds of launches between two looks at the clock
_SETTLING = 1.0  # s until the GPU's power limit has brought its clock to where it stays

_SHORT = 1e-3  # seconds: of shorter launches so many are recorded together,
_MOST = 64  # up to this number

Launch = Callable[[Stream], None]
Key = TypeVar("Key", bound=Hashable)


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
        return quartiles(self.seconds)


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
    work: Mapping[Key, Launch], gpu: Gpu, seconds: float, rounds: int = 7, recorded: bool = True
) -> dict[Key, Times]:
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
    ready, runs, repeats = dict(work), dict.fromkeys(work, 1), {}
    for name, launch in work.items():
        if recorded:
            ready[name] = record(launch, stream)
        ready[name](stream)
        one = seconds_of(ready[name], stream)
        if recorded and one < _SHORT:
            runs[name] = min(_MOST, math.ceil(_SHORT / max(one, 1e-7)))
            ready[name] = record(launch, stream, runs[name])
            ready[name](stream)
        share = seconds / rounds / len(work) / runs[name]
        repeats[name] = max(1, math.floor(share / max(one, 1e-7)))

    def turn(name: Key) -> float:
        return seconds_of(ready[name], stream, repeats[name]) / runs[name]

    times = take_turns({name: partial(turn, name) for name in ready}, rounds)
    return {name: Times(values, repeats[name] * runs[name]) for name, values in times.items()}


@dataclass(frozen=True, slots=True)
class Sustained:
    """What a launch takes when it runs again and again until power and clock have settled.

    Parameters
    ----------
    seconds : float
        Of one launch.
    joules : float
        Of one launch, of the whole board; NaN where there is no counter.
    clock : float
        Of the multiprocessors, Hz; NaN where it cannot be read.
    """

    seconds: float
    joules: float
    clock: float


def sustain(launch: Launch, stream: Stream, seconds: float, meter: EnergyMeter | None = None) -> Sustained:
    """Run a launch again and again for some seconds; all but the first one count, or the second half if that is less.

    Parameters
    ----------
    launch : callable
        What is run; the GPU always has some of it to do.
    stream : Stream
        Where.
    seconds : float
        For how long, at least.
    meter : EnergyMeter, optional
        Made anew if not given.
    """
    meter = EnergyMeter() if meter is None else meter
    launch(stream)
    batch = max(1, round(_BATCH / max(seconds_of(launch, stream), 1e-6)))

    def run(until: float) -> int:
        launches, waited = 0, None
        while launches == 0 or time.perf_counter() < until:
            for _ in range(batch):
                launch(stream)
            launches += batch
            if waited is not None:
                waited.synchronize()  # one batch is always under way
            meter.look()
            waited = stream.record()
        return launches

    settling = min(_SETTLING, seconds / 2)
    run(time.perf_counter() + settling)
    stream.synchronize()
    meter.start()
    begin = stream.record()
    launches = run(time.perf_counter() + seconds - settling)
    end, clock = stream.record(), meter.sm_clock()
    each, joules = end.seconds_since(begin) / launches, meter.stop()
    watts = meter.watts
    return Sustained(each, joules / launches if math.isnan(watts) else watts * each, clock)


def record(launch: Launch, stream: Stream, times: int = 1) -> Launch:
    """Record a launch, or some in a row, as a CUDA graph and give what replays it; where that is refused, runs it."""

    def run(stream: Stream) -> None:
        for _ in range(times):
            launch(stream)

    launch(stream)  # whatever is set up at the first launch is not to be recorded
    stream.synchronize()
    try:
        return _Graph(run, stream)
    except (ImportError, RuntimeError):
        stream.synchronize()
        return run


class _Graph:
    """A recorded launch, which a stream replays."""

    def __init__(self, launch: Launch, stream: Stream) -> None:
        from cuda.bindings import driver

        self._driver: Any = driver
        self._graph = self._executable = None
        handle = driver.CUstream(stream.handle)
        self._checked(driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            launch(stream)
        finally:
            ended = driver.cuStreamEndCapture(handle)
        self._graph = self._checked(ended)
        self._executable = self._checked(driver.cuGraphInstantiate(self._graph, 0))
        self._kept = launch  # and with it the arrays that it works on

    def __call__(self, stream: Stream) -> None:
        self._checked(self._driver.cuGraphLaunch(self._executable, self._driver.CUstream(stream.handle)))

    def _checked(self, answer: tuple[Any, ...]) -> Any:
        if answer[0] != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the driver refused a CUDA graph: {answer[0].name}")
        return answer[1] if len(answer) > 1 else None

    def __del__(self) -> None:
        if self._executable is not None:
            self._driver.cuGraphExecDestroy(self._executable)
        if self._graph is not None:
            self._driver.cuGraphDestroy(self._graph)
