# SPDX-License-Identifier: BSD-3-Clause
"""Thin drivers of AXI4-Streams for cocotb: whole beats as integers, pauses, and the stream's rules checked.

A source and a sink for ports PREFIX_tdata, _tkeep, _tvalid, _tready, _tlast and, where the module has it, _tuser::

    clock, source, sink = ..., Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.clk, pause=randomly(0.5, 1))
    source.send(frame)
    assert (await sink.receive()).data == frame

Sidebands (``sideband=("ip", "port")`` for ports PREFIX_ip, PREFIX_port) are driven with every beat of a frame and sampled with
its first. A sink raises AssertionError in the test if tvalid falls before tready, a waiting beat changes, a frame's sideband does
too, tkeep is not contiguous from byte 0 or not full before tlast.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Event, RisingEdge

Pause = Callable[[], bool]


def never() -> bool:
    """No pauses."""
    return False


def randomly(share: float, seed: int) -> Pause:
    """Pause in this share of the clocks, each decided by itself."""
    draw = random.Random(seed).random
    return lambda: draw() < share


def bursts(share: float, seed: int, mean: float = 20) -> Pause:
    """Pause for this share of the time, in runs of about `mean` clocks: what fills and empties FIFOs."""
    draw = random.Random(seed).random
    paused = False

    def pause() -> bool:
        nonlocal paused
        # Runs of pauses and of work end with chances that give both the share and the mean length.
        rate = 1 / mean if paused else share / (1 - share) / mean if share < 1 else 1.0
        if draw() < rate:
            paused = not paused
        return paused

    return pause


def pattern(text: str) -> Pause:
    """Pause where the text, over and over, has a 1: ``pattern("0001")``."""
    bits = [c == "1" for c in text]
    place = -1

    def pause() -> bool:
        nonlocal place
        place = (place + 1) % len(bits)
        return bits[place]

    return pause


def pauses(seed: int) -> dict[str, Pause]:
    """One of each kind, to be parametrized over."""
    return {
        "never": never,
        "alternate": pattern("01"),
        "mostly": randomly(0.9, seed),
        "half": randomly(0.5, seed),
        "seldom": randomly(0.1, seed),
        "bursts": bursts(0.5, seed),
    }


@dataclass
class Frame:
    """A frame with its sideband."""

    data: bytes
    bad: bool = False
    sideband: dict[str, int] = field(default_factory=dict)
    #: Clock of the sink at which the first and the last beat were taken.
    first: int = 0
    last: int = 0


class _Signals:
    def __init__(self, dut: Any, prefix: str, sideband: Iterable[str]) -> None:
        self.data, self.keep = getattr(dut, f"{prefix}_tdata"), getattr(dut, f"{prefix}_tkeep", None)
        self.valid, self.last = getattr(dut, f"{prefix}_tvalid"), getattr(dut, f"{prefix}_tlast")
        self.ready, self.user = getattr(dut, f"{prefix}_tready", None), getattr(dut, f"{prefix}_tuser", None)
        self.sideband = {name: getattr(dut, f"{prefix}_{name}") for name in sideband}
        self.bytes = len(self.data) // 8


class Source:
    """Drives frames into a stream, in the order of `send`."""

    def __init__(
        self, dut: Any, prefix: str, clock: Any, *, pause: Pause = never, sideband: Iterable[str] = ()
    ) -> None:
        self._s, self._clock, self.pause = _Signals(dut, prefix, sideband), clock, pause
        self._queue: deque[Frame] = deque()
        self._some, self._none = Event(), Event()
        self._s.valid.value = 0
        #: Clocks in which a beat waited for tready.
        self.waited = 0
        self.task = cocotb.start_soon(self._run())

    def send(self, data: bytes, *, bad: bool = False, **sideband: int) -> None:
        """Queue a frame of at least one byte."""
        assert data, "empty frames do not exist"
        self._queue.append(Frame(data, bad, sideband))
        self._none.clear()
        self._some.set()

    async def idle(self) -> None:
        """Wait until all that was queued has been taken."""
        if self._queue:
            await self._none.wait()

    def _beats(self, data: bytes) -> Iterator[tuple[int, int, bool]]:
        size = self._s.bytes
        full = (1 << size) - 1
        for at in range(0, len(data), size):
            chunk = data[at : at + size]
            yield int.from_bytes(chunk, "little"), full >> (size - len(chunk)), at + size >= len(data)

    async def _run(self) -> None:
        s, edge = self._s, RisingEdge(self._clock)
        while True:
            if not self._queue:
                s.valid.value = 0
                self._none.set()
                self._some.clear()
                await self._some.wait()
                await edge
            frame = self._queue[0]
            for name, value in frame.sideband.items():
                s.sideband[name].value = value
            for data, keep, last in self._beats(frame.data):
                while self.pause():
                    s.valid.value = 0
                    await edge
                s.data.value = data
                if s.keep is not None:
                    s.keep.value = keep
                s.last.value = last
                if s.user is not None:
                    s.user.value = int(frame.bad and last)
                s.valid.value = 1
                await edge
                if s.ready is not None:
                    while not int(s.ready.value):
                        self.waited += 1
                        await edge
            self._queue.popleft()


class Sink:
    """Takes frames from a stream and checks its rules."""

    def __init__(
        self, dut: Any, prefix: str, clock: Any, *, pause: Pause = never, sideband: Iterable[str] = ()
    ) -> None:
        self._s, self._clock, self.pause, self._prefix = _Signals(dut, prefix, sideband), clock, pause, prefix
        #: Frames that nobody has received yet.
        self.frames: deque[Frame] = deque()
        self._some = Event()
        #: Clocks since the sink was made.
        self.clocks = 0
        if self._s.ready is not None:
            self._s.ready.value = 0
        self.task = cocotb.start_soon(self._run())

    async def receive(self) -> Frame:
        """Wait for the next frame."""
        while not self.frames:
            self._some.clear()
            await self._some.wait()
        return self.frames.popleft()

    def _keep(self, last: bool) -> int:
        size = self._s.bytes
        keep = (1 << size) - 1 if self._s.keep is None else int(self._s.keep.value)
        assert keep and not keep & (keep + 1), f"{self._prefix}_tkeep {keep:#x} is not contiguous from byte 0"
        count = keep.bit_length()
        assert last or count == size, f"{self._prefix}_tkeep {keep:#x} is not full before tlast"
        return count

    async def _run(self) -> None:
        s, edge, size = self._s, RisingEdge(self._clock), self._s.bytes
        ready = s.ready is None
        waiting: tuple[Any, ...] | None = None
        taken = bytearray()
        frame = Frame(b"")
        await edge
        while int(s.valid.value):  # what stands there at power-up, before the reset, means nothing
            await edge
        while True:
            await edge
            self.clocks += 1
            if int(s.valid.value):
                # A waiting beat is compared when it is taken, and once when it begins to wait: enough to see a change.
                if ready or waiting is None:
                    now = (s.data.value, None if s.keep is None else s.keep.value, s.last.value)
                    assert waiting is None or now == waiting, f"{self._prefix}: a waiting beat changed"
                    waiting = now
                if ready:
                    waiting = None
                    last = bool(int(s.last.value))
                    if not taken:
                        frame = Frame(b"", sideband={n: int(h.value) for n, h in s.sideband.items()})
                        frame.first = self.clocks
                    for name, value in frame.sideband.items():
                        assert int(s.sideband[name].value) == value, f"{self._prefix}_{name} changed in a frame"
                    taken += int(now[0]).to_bytes(size, "little")[: self._keep(last)]
                    if last:
                        frame.data, frame.last = bytes(taken), self.clocks
                        frame.bad = s.user is not None and bool(int(s.user.value) & 1)
                        taken.clear()
                        self.frames.append(frame)
                        self._some.set()
            else:
                assert waiting is None, f"{self._prefix}: tvalid fell before tready"
            if s.ready is not None:
                ready = not self.pause()
                s.ready.value = ready


async def start(dut: Any, period_ns: float = 2.56, *, clock: str = "clk", reset: str | None = "rst") -> Clock:
    """Start a clock and return it; hold the synchronous reset, if there is one, for four of them."""
    handle = getattr(dut, clock)
    (made := Clock(handle, round(period_ns * 1000 / 2) * 2, unit="ps")).start()
    if reset is not None:
        getattr(dut, reset).value = 1
        await ClockCycles(handle, 4)
        getattr(dut, reset).value = 0
        await RisingEdge(handle)
    return made
