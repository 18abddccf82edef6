# SPDX-License-Identifier: BSD-3-Clause
"""The pipelined ones' complement sum against scapy's checksum."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import RisingEdge
from scapy.utils import checksum

from simulation import parameter, simulate
from streams import start

LATENCY = 5


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def sums_are_scapys_while_enable_pauses(dut):
    rng = random.Random(cocotb.RANDOM_SEED if hasattr(cocotb, "RANDOM_SEED") else None)
    keep = parameter("WIDTH") // 8
    beats, want = [], []
    frames = [rng.randbytes(rng.choice([rng.randint(1, 3 * keep), rng.randint(1, 2000)])) for _ in range(120)]
    frames += [b"\xff" * 65535, b"\xff\xff", b"\0\0", b"\xff\xfe\0\1", bytes(9000)]
    for frame in frames:
        # Any bytes may be left out, not only those at the end.
        mask = rng.getrandbits(len(frame)) if rng.random() < 0.3 else (1 << len(frame)) - 1
        counted = bytes(b if mask >> n & 1 else 0 for n, b in enumerate(frame))
        want.append(~checksum(counted) & 0xFFFF)
        for at in range(0, len(frame), keep):
            bits = mask >> at & ((1 << min(keep, len(frame) - at)) - 1)
            beats.append((int.from_bytes(frame[at : at + keep], "little"), bits, 1, int(at + keep >= len(frame))))
            if rng.random() < 0.2:
                beats.append((rng.getrandbits(64), rng.getrandbits(keep), 0, rng.getrandbits(1)))
    dut.enable.value = dut.valid.value = 0
    await start(dut)
    got, lasts = [], []
    step = 0
    while step < len(beats) + LATENCY + 1:
        enable = rng.random() < 0.7
        dut.enable.value = int(enable)
        data, bits, valid, last = beats[step] if step < len(beats) else (0, 0, 0, 0)
        dut.data.value, dut.keep.value, dut.valid.value, dut.last.value = data, bits, valid, last
        await RisingEdge(dut.clk)
        if enable:
            # What is seen here is from before the edge.
            if int(dut.sum_valid.value):
                got.append(int(dut.sum.value))
                assert step >= LATENCY and lasts[step - LATENCY], (
                    "the sum comes LATENCY enabled cycles after its last beat"
                )
            lasts.append(valid and last)
            step += 1
    # ffff and 0000 are the same number.
    assert [g % 0xFFFF for g in got] == [w % 0xFFFF for w in want]


@pytest.mark.parametrize("width", [64, 1024])
def test_ones_sum(width):
    simulate("ones_sum", __file__, WIDTH=width)
