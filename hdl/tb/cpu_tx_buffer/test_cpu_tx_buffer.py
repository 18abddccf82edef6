# SPDX-License-Identifier: BSD-3-Clause
"""The CPU's transmit buffer: words in, frames out."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import Sink, never, randomly, start


async def begin(dut, pause=never):
    """Reset; the sink."""
    dut.write.value = dut.send.value = dut.address.value = 0
    sink = Sink(dut, "m_axis", dut.clk, pause=pause)
    await start(dut)
    return sink


async def write(dut, frame: bytes):
    """Write a frame as the CPU does; words in any order."""
    words = list(range(0, len(frame), 4))
    random.shuffle(words)
    for at in words:
        dut.write.value, dut.address.value = 1, at // 4
        dut.write_data.value = int.from_bytes(frame[at : at + 4], "little")
        await RisingEdge(dut.clk)
    dut.write.value = 0


async def send(dut, size: int):
    """Pulse `send`."""
    dut.send.value, dut.send_bytes.value = 1, size
    await RisingEdge(dut.clk)
    dut.send.value = 0
    await RisingEdge(dut.clk)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(share=[0.0, 0.7])
async def frames_are_what_was_written(dut, share):
    sink = await begin(dut, randomly(share, 1))
    keep = parameter("WIDTH") // 8
    for size in (1, 3, 4, 42, 60, keep, keep + 1, 2 * keep, 1514, 2047, 2048):
        frame = random.randbytes(size)
        await write(dut, frame)
        await send(dut, size)
        got = await sink.receive()
        assert got.data == frame
        if share == 0:
            assert got.last - got.first + 1 == -(-size // keep), "idle beat in a frame"
        while int(dut.busy.value):
            await RisingEdge(dut.clk)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def lengths_that_cannot_be_send_nothing(dut):
    sink = await begin(dut)
    for size in (0, 2049, 65535):
        await send(dut, size)
        await ClockCycles(dut.clk, 20)
        assert not int(dut.busy.value)
    assert not sink.frames
    frame = random.randbytes(100)
    await write(dut, frame)
    await send(dut, 100)
    assert (await sink.receive()).data == frame


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_buffer_can_be_read_and_sent_again(dut):
    sink = await begin(dut)
    frame = random.randbytes(2048)
    await write(dut, frame)
    for at in (0, 4, 128, 508, 2044):
        dut.address.value = at // 4
        await ClockCycles(dut.clk, 2)
        assert int(dut.read_data.value) == int.from_bytes(frame[at : at + 4], "little")
    for _ in range(3):
        await send(dut, 2048)
        assert (await sink.receive()).data == frame
        await ClockCycles(dut.clk, 3)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def writes_while_busy_do_not_reach_the_frame(dut):
    sink = await begin(dut, lambda: True)
    frame = random.randbytes(2048)
    await write(dut, frame)
    await send(dut, 2048)
    await write(dut, bytes(2048))
    sink.pause = never
    assert (await sink.receive()).data == frame


@pytest.mark.parametrize("width", [64, 1024])
def test_cpu_tx_buffer(width):
    simulate("cpu_tx_buffer", __file__, WIDTH=width)
