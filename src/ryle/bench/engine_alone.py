"""What an engine on a GPU cannot pass: its copies, its kernels, or its exchange between GPUs, in a row and alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ryle.bench.engine_feed import filled
from ryle.channelize import Layout
from ryle.chunk import BLOCK
from ryle.config import Observation
from ryle.correlate.cuda import CudaCorrelator
from ryle.engines.exchange import Exchange
from ryle.engines.f_gpu import Channelize
from ryle.gpu import Event, Gpu
from ryle.receive.windows import WindowShape
from ryle.stream.ring import Ring

_DEPTH = 3  # pieces of work that are under way on a stream
_WARM = 1.0  # seconds that are not counted


class Bench(Protocol):
    """An engine that stands still, see `ryle.bench.engine_child.Bench`."""

    kind: str
    o: Observation
    gpu: Gpu
    gpus: list[Gpu]
    inputs: int
    shape: WindowShape
    batch_samples: int
    layout: Layout
    ring: Ring
    last: Ring
    parts: list[tuple[Channelize, slice]]
    exchange: Exchange | None
    correlators: list[CudaCorrelator]


def copies(bench: Bench, seconds: float) -> dict[str, Any]:
    """Copy what an engine copies, to all GPUs and back at once, and nothing else; samples a second."""
    ups, down = [gpu.stream() for gpu in bench.gpus], bench.gpu.stream()
    blocks = list(bench.ring._spare)
    rooms = list(bench.last._spare) if bench.kind == "f" else []
    if bench.kind == "x":
        there = [bench.gpu.empty(b.data.shape, np.int8) for b in blocks[:_DEPTH]]
    else:
        outs = list(bench.parts[0][0].out._spare)

    def one(i: int) -> list[Event]:
        block = blocks[i % len(blocks)]
        if bench.kind == "x":
            there[i % len(there)].set(block.data, ups[0])
        for (channelize, inputs), up in zip(bench.parts, ups, strict=False):
            channelize._ring.samples.set_columns(0, block.data[inputs], up)
        events: list[Event] = [up.record() for up in ups]
        if rooms:
            outs[i % len(outs)].data.copy_to(rooms[i % len(rooms)].data, down)
            events.append(down.record())
        return events

    return {"rate": _in_a_row(bench, one, seconds)}


def kernels(bench: Bench, seconds: float) -> dict[str, Any]:
    """Launch what an engine launches, on what the last batch has left, and nothing else; samples a second."""
    words = np.full((1, bench.shape.batch // BLOCK, bench.inputs), ~np.uint64(0))
    valid = [each.gpu.array(words, each.stream) for each in bench.correlators]
    if bench.kind == "x":
        o = bench.o
        shape = bench.shape.batch // BLOCK, len(o.antennas), o.fengine.channels, o.pols, 2 * BLOCK
        data = [bench.gpu.array(filled(np.empty(shape, np.int8), 5), bench.correlators[0].stream)]
    elif bench.exchange is not None:
        data = bench.exchange.out._spare[0].data
    else:
        data = [bench.parts[0][0].out._spare[0].data]
    for channelize, _ in bench.parts:
        channelize._work.out, channelize._work.own = channelize.out._spare[0].data, channelize.any_place()

    def one(i: int) -> list[Event]:
        made: list[Event] = []
        for channelize, _ in bench.parts:
            channelize._channelizer.launch(channelize._work, bench.layout, stream=channelize._compute)
            made.append(channelize._compute.record())
        for part, each in enumerate(bench.correlators):
            for event in made[part : part + 1]:
                each.stream.wait(event)
            each.accumulate_device(data[part], valid[part], clamp=bench.kind == "x")
            if i % 64 == 63:
                each.reset()
        return [each.stream.record() for each in bench.correlators] or made

    rate = _in_a_row(bench, one, seconds)
    for each in bench.correlators:
        each.reset()
    return {"rate": rate}


def exchange(bench: Bench, seconds: float) -> dict[str, Any]:
    """Copy between GPUs what an engine copies, and nothing else; samples a second."""
    found = bench.exchange
    if found is None:
        raise ValueError("one GPU exchanges nothing")
    sources = [channelize.out._spare[0].data for channelize, _ in bench.parts]
    rooms = [block.data for block in found.out._spare]
    count = len(sources)

    def one(i: int) -> list[Event]:
        for to, stream in enumerate(found.streams):
            for source in ((to + k) % count for k in range(1, count)):
                found.slabs.move(source, sources[source], to, rooms[i % len(rooms)][to], stream)
        return [stream.record() for stream in found.streams]

    return {"rate": _in_a_row(bench, one, seconds)}


def _in_a_row(bench: Bench, one: Callable[[int], list[Event]], seconds: float) -> float:
    """Keep some of it under way for so long; give samples of all inputs a second."""
    waiting: deque[list[Event]] = deque()
    count, began = 0, 0.0
    end = time.perf_counter() + _WARM + seconds
    for i in range(1 << 40):
        waiting.append(one(i))
        if len(waiting) > _DEPTH:
            for event in waiting.popleft():
                event.synchronize()
            now = time.perf_counter()
            if not began and now > end - seconds:
                began = now
            elif began:
                count += 1
                if now > end:
                    break
    rate = count * bench.batch_samples * bench.inputs / (time.perf_counter() - began)
    for events in waiting:
        for event in events:
            event.synchronize()
    return rate
