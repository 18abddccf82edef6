# SPDX-License-Identifier: BSD-3-Clause
"""Frame FIFOs of one and two clocks: what comes out is what went in, whole, or was counted."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from simulation import parameter, simulate
from slices import Ports
from streams import Sink, Source, never, pauses, start

NAMES = {"s_axis_meta": "s_meta", "m_axis_meta": "m_meta", "m_axis_length": "m_length"}
MAX_BYTES = 700


class Events:
    """Counts of the writer's events, which mean nothing before a reset."""

    def __init__(self, dut, clock):
        self.counts = dict.fromkeys(("stored", "dropped_bad", "dropped_oversize", "dropped_full"), 0)
        cocotb.start_soon(self._run(dut, clock))

    async def _run(self, dut, clock):
        reset = dut.s_rst if hasattr(dut, "s_rst") else dut.rst
        await FallingEdge(reset)
        while True:
            await RisingEdge(clock)
            for name in self.counts:
                self.counts[name] += int(getattr(dut, name).value)

    def __call__(self, name):
        return self.counts[name]


async def begin(dut, pause=never, sink_pause=never, periods=(2.56, 2.56)):
    """Reset both sides; return source, sink and events."""
    two = hasattr(dut, "s_clk")
    clocks = (dut.s_clk, dut.m_clk) if two else (dut.clk, dut.clk)
    ports = Ports(dut, **NAMES)
    source = Source(ports, "s_axis", clocks[0], pause=pause, sideband=("meta",))
    sink = Sink(ports, "m_axis", clocks[1], pause=sink_pause, sideband=("meta", "length"))
    events = Events(dut, clocks[0])
    if two:
        dut.s_rst.value = dut.m_rst.value = 1
        await start(dut, periods[0], clock="s_clk", reset=None)
        await start(dut, periods[1], clock="m_clk", reset=None)
        for clock in clocks:
            await ClockCycles(clock, 6)
        dut.s_rst.value = 0
        await RisingEdge(clocks[1])
        dut.m_rst.value = 0
    else:
        await start(dut)
    return source, sink, events


def clocks_to_try(dut) -> tuple[float, float]:
    """Draw a pair of clock periods, from equal to six times, for FIFOs with two clocks."""
    return (random.uniform(1, 6), random.uniform(1, 6))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(before=["never", "half", "bursts"], after=["never", "seldom", "mostly"])
async def frames_come_out_whole_or_are_counted(dut, before, after):
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    source, sink, events = await begin(dut, pauses(seed)[before], pauses(seed + 1)[after], clocks_to_try(dut))
    keep = len(dut.s_axis_tdata) // 8
    sent, good = [], []
    for _ in range(60):
        length = rng.choice([rng.randint(1, 2 * keep), rng.randint(1, MAX_BYTES + 60), MAX_BYTES, MAX_BYTES + 1])
        frame = (rng.randbytes(length), rng.random() < 0.2, rng.getrandbits(8))
        sent.append(frame)
        source.send(frame[0], bad=frame[1], meta=frame[2])
        if length <= MAX_BYTES and not frame[1]:
            good.append(frame)
    await source.idle()
    sink.pause = never
    await ClockCycles(sink._clock, 2 * parameter("DEPTH") + 40)
    got = list(sink.frames)
    assert sum(events.counts.values()) == len(sent), events.counts
    assert events("stored") == len(got)
    for frame in got:
        assert frame.sideband["length"] == len(frame.data)
    if parameter("DROP_WHEN_FULL"):
        assert source.waited == 0, "it never holds the writer up"
        remaining = iter(good)
        for frame in got:  # in order, none twice
            assert any(g[0] == frame.data and g[2] == frame.sideband["meta"] for g in remaining), (
                "not a frame that was sent"
            )
    else:
        assert events("dropped_full") == 0
        assert [(f.data, f.sideband["meta"]) for f in got] == [(g[0], g[2]) for g in good]
        assert events("dropped_bad") + events("dropped_oversize") == len(sent) - len(good)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_frame_begun_has_no_idle_beat_however_slow_the_writer(dut):
    source, sink, _ = await begin(dut, pauses(3)["mostly"], never, (6.0, 1.3))
    keep = len(dut.s_axis_tdata) // 8
    for _ in range(6):
        source.send(bytes(MAX_BYTES), meta=1)
    for _ in range(6):
        got = await sink.receive()
        assert got.last - got.first + 1 == -(-MAX_BYTES // keep)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_frame_is_not_seen_before_its_last_beat(dut):
    source, sink, _ = await begin(dut)
    keep = len(dut.s_axis_tdata) // 8
    whole = False
    source.pause = lambda: whole
    dut.m_axis_tready.value = 1
    beats = -(-MAX_BYTES // keep)
    taken = 0

    def pause_before_last():
        nonlocal taken
        taken += 1
        return taken >= beats and not whole

    source.pause = pause_before_last
    source.send(bytes(MAX_BYTES), meta=1)
    await ClockCycles(sink._clock, beats * 8 + 40)
    assert not int(dut.m_axis_tvalid.value) and not sink.frames
    whole = True
    assert len((await sink.receive()).data) == MAX_BYTES


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def full_throughput_and_room_for_what_is_promised(dut):
    source, sink, events = await begin(dut, periods=(2.0, 2.0))
    keep = len(dut.s_axis_tdata) // 8
    sink.pause = lambda: True
    await ClockCycles(sink._clock, 3)
    beats = -(-MAX_BYTES // keep)
    fit = parameter("DEPTH") // beats
    for n in range(fit):
        source.send(bytes([n + 1]) * MAX_BYTES, meta=n)
    await source.idle()
    await ClockCycles(sink._clock, 12)
    assert events("stored") == fit, "as many frames as the memory holds are stored without a reader"
    free = parameter("DEPTH") - (fit * beats - 1)  # one beat waits at the output
    assert int(dut.almost_full.value) == (free < beats)
    sink.pause = never
    got = [await sink.receive() for _ in range(fit)]
    assert got[-1].last - got[0].first + 1 == fit * beats, "no idle beat between frames that wait"
    await ClockCycles(sink._clock, 30)
    assert int(dut.almost_full.value) == 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def almost_full_is_the_beat_that_leaves_no_room_for_the_longest_frame(dut):
    source, sink, _ = await begin(dut, periods=(2.0, 2.0))
    keep = len(dut.s_axis_tdata) // 8
    sink.pause = lambda: True
    await ClockCycles(sink._clock, 3)
    longest = -(-MAX_BYTES // keep)
    left = parameter("DEPTH") - longest + 1  # one beat waits at the output
    while left:
        beats = min(left, longest)
        source.send(bytes(min(beats * keep, MAX_BYTES)))
        left -= beats
    await source.idle()
    await ClockCycles(sink._clock, 20)
    assert int(dut.almost_full.value) == 0, "there is room for just one"
    source.send(bytes(1))
    await source.idle()
    await ClockCycles(sink._clock, 20)
    assert int(dut.almost_full.value) == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def as_many_frames_wait_as_the_list_holds(dut):
    source, sink, events = await begin(dut, periods=(2.0, 2.0))
    sink.pause = lambda: True
    await ClockCycles(sink._clock, 3)
    frames = parameter("FRAMES")
    sent = [bytes([n + 1]) for n in range(frames + 8)]
    for n, data in enumerate(sent):
        source.send(data, meta=n)
    await ClockCycles(sink._clock, 3 * frames + 40)
    assert events("stored") == frames + 1, "one frame is at the output, and FRAMES wait"
    assert int(dut.almost_full.value) == 1
    sink.pause = never
    await source.idle()
    await ClockCycles(sink._clock, 3 * frames + 40)
    got = [(f.data, f.sideband["meta"]) for f in sink.frames]
    want = [(data, n) for n, data in enumerate(sent)]
    assert got == (want[: frames + 1] if parameter("DROP_WHEN_FULL") else want)
    assert events("dropped_full") == len(want) - len(got)


@pytest.mark.parametrize("drop", [0, 1])
@pytest.mark.parametrize("width", [64, 1024])
def test_packet_fifo(width, drop):
    depth = 32 if width == 1024 else 256
    simulate(
        "packet_fifo", __file__, WIDTH=width, DEPTH=depth, FRAMES=16, META=8, MAX_BYTES=MAX_BYTES, DROP_WHEN_FULL=drop
    )


@pytest.mark.parametrize("drop", [0, 1])
@pytest.mark.parametrize("width", [128, 512])
def test_async_packet_fifo(width, drop):
    depth = 32 if width == 512 else 128
    simulate(
        "async_packet_fifo",
        __file__,
        WIDTH=width,
        DEPTH=depth,
        FRAMES=16,
        META=8,
        MAX_BYTES=MAX_BYTES,
        DROP_WHEN_FULL=drop,
    )
