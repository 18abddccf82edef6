# SPDX-License-Identifier: BSD-3-Clause
"""The behavioural MAC against zlib's CRC and a line that this file codes and decodes byte by byte."""

from __future__ import annotations

import random
import zlib

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import Sink, Source, randomly, start

IDLE, SEQUENCE, START, TERMINATE, ERROR = 0x07, 0x9C, 0xFB, 0xFD, 0xFE
PREAMBLE = bytes([START, *[0x55] * 6, 0xD5])
Line = list[tuple[int, bool]]  # bytes with their control bits


def coded(
    frame: bytes, *, fcs: bytes | None = None, preamble: bytes = PREAMBLE, end: int = TERMINATE, gap: int = 12
) -> Line:
    """Code a frame as the line carries it."""
    fcs = zlib.crc32(frame).to_bytes(4, "little") if fcs is None else fcs
    start = [(b, n == 0) for n, b in enumerate(preamble)]
    return start + [(b, False) for b in frame + fcs] + [(end, True)] + [(IDLE, True)] * (gap - 1)


def filled(line: Line) -> Line:
    """Fill up with idle characters to where the next frame may start."""
    return line + [(IDLE, True)] * (-len(line) % 8)


class Decoder:
    """What is on the line: frames with FCS, the gaps before them, whether they ended well, sequences."""

    def __init__(self, dut):
        self.frames: list[bytes] = []
        self.gaps: list[int] = []
        self.broken = self.words = self.clocks = 0
        self.sequences: set[bytes] = set()
        cocotb.start_soon(self._run(dut))

    async def _run(self, dut):
        size = len(dut.wire_tx_data) // 8
        frame, gap, skip, poisoned = None, 0, b"", False
        while True:
            await RisingEdge(dut.clk)
            self.clocks += 1
            if not int(dut.wire_tx_valid.value):
                continue
            self.words += 1
            data, ctrl = int(dut.wire_tx_data.value).to_bytes(size, "little"), int(dut.wire_tx_ctrl.value)
            for n in range(size):
                byte, control = data[n], ctrl >> n & 1
                if frame is None:
                    if control and byte == START:
                        assert n % 8 == 0, "a frame starts at a multiple of 8 bytes"
                        self.gaps.append(gap)
                        frame = bytes([byte])
                    elif control and byte == SEQUENCE:
                        skip = data[n : n + 8]
                        self.sequences.add(skip)
                    elif control:
                        assert byte == IDLE
                        gap += 1
                    else:
                        assert skip, "data outside a frame"
                        gap += 1
                elif control and byte == ERROR:
                    poisoned = True  # and stays so to its end
                elif control:
                    assert byte == TERMINATE
                    if poisoned:
                        self.broken += 1
                    else:
                        assert frame[:8] == PREAMBLE
                        self.frames.append(frame[8:])
                    frame, gap, poisoned = None, 1, False
                else:
                    frame += bytes([byte])


async def begin(dut, **settings):
    """Reset; source of frames to send, decoder of the line, sink of received frames. The line in is idle."""
    dut.pause.value = 0
    await put(dut, [])
    source = Source(dut, "s_axis", dut.clk, **settings)
    await start(dut)  # what is on the line before means nothing
    sink = Sink(dut, "m_axis", dut.clk)
    decoder = Decoder(dut)
    return source, decoder, sink


async def put(dut, line: Line, every: int = 1):
    """Put words on the line in, one in `every` clocks, and leave it idle."""
    size = len(dut.wire_rx_data) // 8
    line = line + [(IDLE, True)] * (-len(line) % size + size)
    for at in range(0, len(line), size):
        word = line[at : at + size]
        dut.wire_rx_data.value = int.from_bytes(bytes(b for b, _ in word), "little")
        dut.wire_rx_ctrl.value = sum(c << n for n, (_, c) in enumerate(word))
        dut.wire_rx_valid.value = 1
        if len(line) > size:
            await RisingEdge(dut.clk)
            for _ in range(every - 1):
                dut.wire_rx_valid.value = 0
                await RisingEdge(dut.clk)
    dut.wire_rx_valid.value = 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_line_carries_padded_frames_with_fcs_and_gaps(dut):
    rng = random.Random(1)
    source, decoder, _ = await begin(dut)
    frames = [
        rng.randbytes(n) for n in [1, 2, 59, 60, 61, 64, 67, 1514, 9042] + [rng.randint(1, 400) for _ in range(150)]
    ]
    for frame in frames:
        source.send(frame)
    await source.idle()
    await ClockCycles(dut.clk, 200)
    assert len(decoder.frames) == len(frames)
    for frame, got in zip(frames, decoder.frames, strict=True):
        padded = frame.ljust(60, b"\0")
        assert got == padded + zlib.crc32(padded).to_bytes(4, "little")
    gaps = decoder.gaps[1:]
    assert min(gaps) >= 5
    if parameter("WIDTH") == 64:  # the line is what limits: no more idle characters than the standard's 12, on average
        assert abs(sum(gaps) - 12 * len(gaps)) <= 7, f"{sum(gaps) / len(gaps)} bytes a gap"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_deficit_makes_12_bytes_of_gap_on_average(dut):
    source, decoder, _ = await begin(dut)
    for length in (61, 62, 63, 64, 65, 66, 67, 68):
        for _ in range(60):
            source.send(bytes(length))
    await source.idle()
    await ClockCycles(dut.clk, 400)
    for n in range(8):
        gaps = decoder.gaps[1 + n * 60 : 60 + n * 60]
        if parameter("WIDTH") == 64:
            assert abs(sum(gaps) - 12 * len(gaps)) <= 14, (n, gaps)
        assert min(gaps) >= 5


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_mac_pause_holds_everything(dut):
    source, decoder, _ = await begin(dut)
    frames = [random.Random(n).randbytes(300 + n) for n in range(30)]
    for frame in frames:
        source.send(frame)
    draw = randomly(0.8, 3)
    while len(decoder.frames) < 30:
        dut.pause.value = draw()
        await RisingEdge(dut.clk)
    assert [f[:-4] for f in decoder.frames] == frames and not decoder.broken


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_frame_that_runs_dry_is_poisoned(dut):
    source, decoder, _ = await begin(dut)
    underflows = 0

    async def count():
        nonlocal underflows
        while True:
            await RisingEdge(dut.clk)
            underflows += int(dut.underflow.value)

    cocotb.start_soon(count())
    size = parameter("WIDTH") // 8
    source.send(bytes(200))
    await source.idle()
    source.pause = iter([False, False] + [True] * 20 + [False] * 200).__next__
    source.send(bytes(size * 8))
    await source.idle()
    source.pause = lambda: False
    await ClockCycles(dut.clk, 100)
    assert underflows > 0 and decoder.broken == 1
    assert len(decoder.frames) == 1, "only the frame before it is whole"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def received_frames_are_the_line_s_without_fcs(dut):
    rng = random.Random(2)
    _, _, sink = await begin(dut)
    size = parameter("WIDTH") // 8
    frames = [
        rng.randbytes(n)
        for n in [60, 61, 124, 125, 127, 128, 129, 132, 252, 9600] + [rng.randint(60, 700) for _ in range(120)]
    ]
    line: Line = []
    for frame in frames:
        line = filled(line + coded(frame, gap=rng.choice([5, 8, 12, 13, 40])))
    cocotb.start_soon(put(dut, line))
    for frame in frames:
        got = await sink.receive()
        assert got.data == frame and not got.bad
        assert got.last - got.first == -(-len(frame) // size) - 1 or size == 8


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def broken_frames_are_marked_and_the_next_one_is_not(dut):
    _, _, sink = await begin(dut)
    good = bytes(range(100))
    wrong = bytes([0x12, 0x34, 0x56, 0x78])
    cases = {
        "FCS": coded(good, fcs=wrong),
        "one bit": coded(good[:50] + b"\x33" + good[51:], fcs=zlib.crc32(good).to_bytes(4, "little")),
        "short": coded(good[:59]),
        "long": coded(bytes(9601)),
        "error character": coded(good, end=ERROR),
        "preamble": coded(good, preamble=PREAMBLE[:7] + b"\x55"),
        "nothing before FCS": coded(b"x"),
    }
    for name, line in cases.items():
        await put(dut, filled(line) + filled(coded(good)))
        got = await sink.receive()
        assert got.bad, f"{name}: not found"
        got = await sink.receive()
        assert got.data == good and not got.bad, f"{name}: the next frame is good"
    await put(dut, filled(coded(b"", fcs=wrong)) + filled(coded(good)))
    assert (await sink.receive()).data == good, "a fragment of 4 bytes vanishes"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def faults_come_and_go(dut):
    _, decoder, _ = await begin(dut)
    status = lambda: (int(dut.link_up.value), int(dut.local_fault.value), int(dut.remote_fault.value))  # noqa: E731
    await ClockCycles(dut.clk, 10)
    assert status() == (0, 1, 0), "no link before 128 quiet clocks"
    await ClockCycles(dut.clk, 200)
    assert status() == (1, 0, 0)
    remote = [(SEQUENCE, True), (0, False), (0, False), (2, False)] + [(0, False)] * 4
    await put(dut, remote * 16)
    await ClockCycles(dut.clk, 5)
    assert status() == (0, 0, 1)
    await ClockCycles(dut.clk, 200)
    assert status() == (1, 0, 0)
    decoder.sequences.clear()
    dut.wire_rx_valid.value = 0
    await ClockCycles(dut.clk, 200)
    assert status() == (0, 1, 0)
    assert decoder.sequences == {bytes([SEQUENCE, 0, 0, 2, 0, 0, 0, 0])}, "the far end is told"
    dut.wire_rx_valid.value = 1
    await ClockCycles(dut.clk, 200)
    assert status() == (1, 0, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_line_rate_is_exact(dut):
    source, decoder, _ = await begin(dut)
    for _ in range(40):
        source.send(bytes(1000))
    await source.idle()
    rate = parameter("RATE_NUM") / parameter("RATE_DEN")
    assert abs(decoder.words - decoder.clocks * rate) <= 8  # the reset's clocks
    if parameter("WIDTH") == 64:
        # 1000 bytes take 1024 on the line.
        assert abs(decoder.clocks - 40 * 1024 / 8 / rate) < 60


@pytest.mark.parametrize("width, rate", [(64, (1, 1)), (1024, (1, 1)), (64, (5, 8))])
def test_mac_model(width, rate):
    simulate("mac_model", __file__, WIDTH=width, RATE_NUM=rate[0], RATE_DEN=rate[1], FATAL_UNDERFLOW=0)


@pytest.mark.soak
@pytest.mark.parametrize("width", [128, 256, 512])
def test_mac_model_of_other_widths(width):
    simulate("mac_model", __file__, WIDTH=width, RATE_NUM=1, RATE_DEN=1, FATAL_UNDERFLOW=0)
