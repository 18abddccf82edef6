# SPDX-License-Identifier: BSD-3-Clause
"""The adapter to a segmented 400G MAC against PG369's rules, which this file knows by itself: packs and unpacks segments."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import ROOT, parameter, simulate
from streams import Sink, Source, randomly, start

COMMON = ROOT / "hdl" / "vendor" / "common"
LEAST = 60  # bytes of a frame without FCS
LATENCY = 6  # segment_realigner's


@dataclass
class Segment:
    data: bytes
    sop: bool
    eop: bool
    err: bool = False


def cut(frame: bytes, bad: bool = False) -> list[Segment]:
    """Cut a frame into segments."""
    last = (len(frame) - 1) // 16
    return [Segment(frame[16 * n : 16 * n + 16], n == 0, n == last, bad and n == last) for n in range(last + 1)]


class Mac:
    """The MAC's side: puts beats of segments on the receive bus, takes apart those of the transmit bus and checks their rules."""

    def __init__(self, dut, *, ready=lambda: False):
        self.dut, self.count, self.pause = dut, len(dut.rx_ena), ready
        self.sent: deque[bytes] = deque()
        self.lost = self.overruns = 0
        dut.rx_valid.value = dut.tx_ready.value = 0
        dut.stat_link_up.value = dut.stat_local_fault.value = dut.stat_remote_fault.value = 0
        cocotb.start_soon(self._take())

    def put(self, beat: list[Segment]) -> None:
        """Drive one beat; an empty one is an idle clock, which the MAC may also show as a beat without segments."""
        d = self.dut
        d.rx_valid.value = int(bool(beat)) or random.getrandbits(1)
        d.rx_data.value = int.from_bytes(b"".join(s.data.ljust(16, b"\xee") for s in beat), "little")
        d.rx_ena.value = (1 << len(beat)) - 1
        d.rx_sop.value = sum(s.sop << n for n, s in enumerate(beat))
        d.rx_eop.value = sum(s.eop << n for n, s in enumerate(beat))
        d.rx_err.value = sum(s.err << n for n, s in enumerate(beat))
        d.rx_mty.value = sum((16 - len(s.data)) << 4 * n for n, s in enumerate(beat))

    async def send(self, frames: list[list[Segment]], *, idle=lambda: False, part=lambda: False) -> None:
        """Send frames behind each other; `idle` tells whether a clock passes, `part` whether a frame's end ends its beat."""
        beat: list[Segment] = []
        for frame in frames:
            for segment in frame:
                beat.append(segment)
                if len(beat) == self.count or (segment.eop and part()):
                    while idle():
                        self.put([])
                        await RisingEdge(self.dut.clk)
                    self.put(beat)
                    await RisingEdge(self.dut.clk)
                    beat = []
        self.put(beat)
        await RisingEdge(self.dut.clk)
        self.put([])

    async def _take(self) -> None:
        d, size = self.dut, 16
        frame, ready = None, False
        while True:
            await RisingEdge(d.clk)
            self.overruns += int(d.rx_overrun.value)
            if ready and int(d.tx_valid.value):
                ena, sop, eop = (int(h.value) for h in (d.tx_ena, d.tx_sop, d.tx_eop))
                data, mty = int(d.tx_data.value).to_bytes(size * self.count, "little"), int(d.tx_mty.value)
                assert ena & 1 and not ena & (ena + 1), "segments in use are contiguous, from the first"
                assert not int(d.tx_err.value)
                for s in range(ena.bit_length()):
                    starts, ends = sop >> s & 1, eop >> s & 1
                    assert bool(starts) == (frame is None), "sop at the start of a frame and nowhere else"
                    assert not starts or s == 0
                    empty = mty >> 4 * s & 15
                    assert not empty or ends
                    frame = (frame or b"") + data[size * s : size * (s + 1) - empty]
                    if ends:
                        assert s == ena.bit_length() - 1, "nothing behind the end"
                        self.sent.append(frame)
                        frame = None
                assert frame is None or ena.bit_length() == self.count, "a beat inside a frame is full"
            elif ready:
                assert frame is None, "tvalid falls inside a frame"
            ready = not self.pause()
            d.tx_ready.value = int(ready)


async def begin(dut, **settings):
    mac = Mac(dut, **settings)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.clk)
    await start(dut)
    return mac, source, sink


async def same(sink: Sink, frames: list[bytes]) -> None:
    for n, frame in enumerate(frames):
        got = await sink.receive()
        assert got.data == frame and not got.bad, f"frame {n} of {len(frame)} bytes"


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(share=[0.0, 0.5])
async def frames_to_the_mac_are_whole_and_padded(dut, share):
    mac, source, _ = await begin(dut, ready=randomly(share, 1))
    rng = random.Random(2)
    frames = [rng.randbytes(n) for n in [*range(1, 300), 1514, 9042, *(rng.randint(1, 700) for _ in range(60))]]
    for frame in frames:
        source.send(frame)
    await source.idle()
    await ClockCycles(dut.clk, 10)
    assert list(mac.sent) == [f.ljust(LEAST, b"\0") for f in frames]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_lies_behind_a_short_frame_is_not_sent(dut):
    mac, _, _ = await begin(dut)
    dut.s_axis_tdata.value = (1 << 8 * 64) - 1
    dut.s_axis_tkeep.value = (1 << 42) - 1
    dut.s_axis_tlast.value = dut.s_axis_tvalid.value = 1
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.s_axis_tvalid.value = 0
    await ClockCycles(dut.clk, 5)
    assert mac.sent[0] == b"\xff" * 42 + bytes(18)


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(idle=[0.25, 0.6], part=[0.0, 0.3])
async def frames_from_the_mac_start_anywhere(dut, idle, part):
    """Every length, as often in each segment as chance will; long ones between them let the rest catch up."""
    mac, _, sink = await begin(dut)
    rng = random.Random(3)
    lengths = [*range(LEAST, 420), *(rng.randint(LEAST, 1600) for _ in range(150)), 9018, 9600]
    rng.shuffle(lengths)
    frames = [rng.randbytes(n) for length in lengths for n in (length, 1500)]
    cocotb.start_soon(mac.send([cut(f) for f in frames], idle=randomly(idle, 4), part=randomly(part, 5)))
    await same(sink, frames)
    assert not int(dut.phy_status.value) >> 32


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_latency_is_what_the_header_says(dut):
    mac, _, _ = await begin(dut)
    for length in (60, 128, 129, 1000):
        await mac.send([cut(bytes(length))])
        # An idle clock has passed if the frame filled its last beat.
        clocks = int(len(cut(bytes(length))) % mac.count == 0)
        while True:
            await RisingEdge(dut.clk)
            clocks += 1
            if int(dut.m_axis_tvalid.value) and int(dut.m_axis_tlast.value):
                break
        assert clocks == LATENCY, length
        await ClockCycles(dut.clk, 4)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_burst_of_the_smallest_waits(dut):
    """As many beats of two frames each as the FIFO has, at once."""
    mac, _, sink = await begin(dut)
    rng = random.Random(6)
    frames = [rng.randbytes(LEAST) for _ in range(2 * parameter("DEPTH"))]
    for _ in range(3):
        cocotb.start_soon(mac.send([cut(f) for f in frames]))
        await same(sink, frames)
        await ClockCycles(dut.clk, 20)
    assert not mac.overruns and not int(dut.phy_status.value) >> 32


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(longest=[60, 300, 3000])
async def frames_that_find_no_room_are_counted(dut, longest):
    """Each frame comes whole, or cut off and marked, or is counted as lost; and it is well again afterwards."""
    mac, _, sink = await begin(dut)
    rng = random.Random(longest)
    lengths = [LEAST if rng.random() < 0.8 else rng.randint(LEAST, longest) for _ in range(1500)]
    frames = [n.to_bytes(4, "big") + rng.randbytes(length - 4) for n, length in enumerate(lengths)]
    await mac.send([cut(f) for f in frames])
    await ClockCycles(dut.clk, 20 * parameter("DEPTH"))
    # The last frame may wait to be told that its rest was lost, which the next beat does.
    closing = bytes(LEAST)
    await mac.send([cut(closing)])
    await ClockCycles(dut.clk, 10)
    assert sink.frames.pop().data == closing
    whole, broken, before = 0, 0, -1
    while sink.frames:
        got = sink.frames.popleft()
        number = int.from_bytes(got.data[:4], "big")
        assert number > before, "in order"
        before = number
        if got.bad:
            broken += 1
            assert len(got.data) < len(frames[number]) and frames[number].startswith(got.data)
        else:
            whole += 1
            assert got.data == frames[number]
    lost = int(dut.phy_status.value) >> 32
    assert lost and whole and whole + broken + lost == len(frames), (whole, broken, lost)
    assert broken or longest == LEAST
    assert mac.overruns
    await mac.send([cut(f) for f in frames[:5]])
    await same(sink, frames[:5])


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_mac_s_error_marks_its_frame_and_no_other(dut):
    mac, _, sink = await begin(dut)
    rng = random.Random(7)
    frames = [(rng.randbytes(rng.randint(LEAST, 500)), rng.random() < 0.3) for _ in range(200)]
    # An err that stands beside no eop says nothing.
    segments = [cut(f, bad) for f, bad in frames]
    for frame in segments:
        for segment in frame:
            segment.err |= not segment.eop and rng.random() < 0.2
    cocotb.start_soon(mac.send(segments, idle=randomly(0.3, 8)))
    for frame, bad in frames:
        got = await sink.receive()
        assert got.data == frame and got.bad == bad


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fragments_do_no_harm(dut):
    """Frames far below the least, up to eight in a beat."""
    mac, _, sink = await begin(dut)
    rng = random.Random(9)
    frames = [rng.randbytes(rng.randint(1, 40)) for _ in range(40)] + [bytes(1000)]
    cocotb.start_soon(mac.send([cut(f) for f in frames]))
    await same(sink, frames)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_in_a_frame_leaves_nothing_behind(dut):
    mac, _, sink = await begin(dut)
    rng = random.Random(10)
    frames = [rng.randbytes(700) for _ in range(4)]
    sending = cocotb.start_soon(mac.send([cut(f) for f in frames]))
    await ClockCycles(dut.clk, 9)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    await sending
    await ClockCycles(dut.clk, 30)
    # What had left of the frame that the reset met has no end, so the sink takes it for the beginning of the next.
    assert sink.frames[-1].data.endswith(frames[3]), "what comes whole after the reset arrives"
    sink.frames.clear()
    await mac.send([cut(frames[0])])
    await same(sink, frames[:1])


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def status_is_passed_on(dut):
    await begin(dut)
    for value in range(8):
        dut.stat_link_up.value, dut.stat_local_fault.value, dut.stat_remote_fault.value = (
            value >> n & 1 for n in (0, 1, 2)
        )
        await ClockCycles(dut.clk, 3)
        assert int(dut.phy_status.value) == value


async def lost_at(dut, megahertz: float, frames: int) -> int:
    """Let 8192-byte payloads come at the line's full 400 Gb/s, at a clock of the client side, and say how many are lost."""
    mac, _, sink = await begin(dut)
    frame, wire = cut(bytes(8234)), 8234 + 24  # FCS, preamble and gap
    queue: deque[Segment] = deque()
    arrived = due = 0.0
    sent = 0
    while sent < frames or queue:
        arrived += 50_000 / megahertz  # bytes a clock, of 400 Gb/s
        while arrived >= due and sent < frames:
            queue.extend(frame)
            due += wire
            sent += 1
        # As many segments as the line has brought; a beat that a frame does not fill is not sent half full.
        if len(queue) >= mac.count:
            mac.put([queue.popleft() for _ in range(mac.count)])
        elif sent == frames:
            mac.put([queue.popleft() for _ in range(len(queue))])
        else:
            mac.put([])
        await RisingEdge(dut.clk)
    mac.put([])
    await ClockCycles(dut.clk, 200)
    lost = int(dut.phy_status.value) >> 32
    assert len(sink.frames) + lost == frames
    return lost + sum(f.bad for f in sink.frames)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def a_clock_of_400_megahertz_takes_8192_byte_payloads_at_line_rate(dut):
    assert await lost_at(dut, 400, 400) == 0


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def one_of_390_625_does_not(dut):
    """65 beats leave in 64.5 clocks' time. That it is so is why a board's clock is faster."""
    assert await lost_at(dut, 390.625, 400) > 0


RATE = "megahertz|390"


def test_mac_segmented():
    simulate("mac_segmented", __file__, only=f"^(?!.*({RATE}))", also=[COMMON], WIDTH=1024, DEPTH=64)


@pytest.mark.soak
def test_mac_segmented_of_four_segments():
    """The overload of others takes eight."""
    only = "to_the_mac|from_the_mac|latency|error|reset|status"
    simulate("mac_segmented", __file__, only=only, also=[COMMON], WIDTH=512, DEPTH=64)


@pytest.mark.soak
def test_mac_segmented_at_line_rate():
    simulate("mac_segmented", __file__, only=RATE, also=[COMMON], WIDTH=1024, DEPTH=64)
