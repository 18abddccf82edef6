# SPDX-License-Identifier: BSD-3-Clause
"""The CPU's receive buffer: whole frames in order, those that do not fit are told, others are not kept."""

from __future__ import annotations

import random
from collections import deque

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import start


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def frames_wait_whole_and_in_order(dut):
    keep, slot, slots = parameter("WIDTH") // 8, parameter("SLOT"), parameter("SLOTS")
    dut.valid.value = dut.free.value = dut.read_word.value = 0
    await start(dut)
    waiting: deque[bytes] = deque()
    told = {"stored": 0, "full": 0}
    want = {"stored": 0, "full": 0}

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            for name in told:
                told[name] += int(getattr(dut, name).value)

    async def put(frame: bytes, for_cpu: bool) -> None:
        for at in range(0, len(frame), keep):
            while random.random() < 0.2:
                dut.valid.value = 0
                await RisingEdge(dut.clk)
            dut.valid.value, dut.last.value = 1, int(at + keep >= len(frame))
            dut.data.value = int.from_bytes(frame[at : at + keep], "little")
            dut.pos.value, dut.bytes.value = at, min(at + keep, len(frame))
            dut.for_cpu.value = int(for_cpu) if at + keep >= len(frame) else random.getrandbits(1)
            await RisingEdge(dut.clk)
        dut.valid.value = 0

    async def oldest() -> bytes:
        words = []
        for n in range((len(waiting[0]) + 3) // 4):
            dut.read_word.value = n
            await ClockCycles(dut.clk, 3)
            words.append(int(dut.read_data.value).to_bytes(4, "little"))
        return b"".join(words)[: len(waiting[0])]

    cocotb.start_soon(watch())
    for turn in range(400):
        if random.random() < 0.6:
            size = random.choice(
                [1, keep, slot - 1, slot, slot, slot + 1, slot + keep + 1, random.randint(1, 2 * slot)]
            )
            frame, for_cpu = random.randbytes(size), random.random() < 0.8
            await put(frame, for_cpu)
            if for_cpu:
                fits = len(waiting) < slots - 1 and size <= slot
                want["stored" if fits else "full"] += 1
                if fits:
                    waiting.append(frame)
        else:
            dut.free.value = 1
            await RisingEdge(dut.clk)
            dut.free.value = 0
            if waiting:
                waiting.popleft()
        await ClockCycles(dut.clk, 4)
        assert int(dut.bytes_ready.value) == (len(waiting[0]) if waiting else 0), turn
        if waiting and random.random() < 0.5:
            assert await oldest() == waiting[0], turn
        assert told == want, turn
    assert want["full"] > 20 < want["stored"]


@pytest.mark.parametrize("width", [64, 1024])
def test_cpu_rx_buffer(width):
    simulate("cpu_rx_buffer", __file__, WIDTH=width, SLOT=256, SLOTS=4)
