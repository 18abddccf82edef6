# SPDX-License-Identifier: BSD-3-Clause
"""The whole core, its line looped back: line rate, pauses, and every bit of what comes out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from simulation import WIDTHS, run_native

HERE = Path(__file__).parent
WIRE_LIMIT = 400 * 8192 / (8192 + 42 + 4 + 8 + 12)  # Gb/s of 8192-byte payloads: 396.8
SEED = int(os.environ.get("HDL_SEED") or 1)


def run(width: int, seconds: float = 900, **plusargs: int) -> dict[str, float]:
    """Run the bench, which compares every received bit itself; returns what it measured."""
    settings = {"seed": SEED} | plusargs
    said = run_native(
        "core_tb", also=[HERE], plusargs=[f"{k}={v}" for k, v in settings.items()], seconds=seconds, WIDTH=width
    )
    values = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", said)}
    assert values["packets"] == plusargs["packets"], said
    print(said)
    return values


def check_line_rate(packets: int, seconds: float) -> None:
    got = run(1024, seconds, packets=packets, length=8192)
    assert got["beats_least"] == got["beats_most"] == 65
    assert got["mac_beats"] == 65 * packets
    assert got["idle_beats"] == 0
    assert got["wire_gbps"] >= 0.99 * WIRE_LIMIT
    assert got["wire_gbps"] <= WIRE_LIMIT


def test_8192_byte_payloads_leave_every_65_beats():
    check_line_rate(2000, 900)


@pytest.mark.soak
def test_line_rate_for_ten_million_beats():
    check_line_rate(10_000_000 // 65 + 1, 3000)


@pytest.mark.parametrize("width", WIDTHS)
def test_loopback_with_random_pauses_is_exact(width):
    run(width, packets=300, length=0, user=-1, mac=-1, sink=10, checksum=1)


@pytest.mark.soak
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("pause", [0, 30, 60, 90, -1])
def test_many_packets_with_pauses(width, pause):
    run(width, 3000, packets=5000, length=0, user=pause, mac=pause, sink=10, checksum=1)


@pytest.mark.soak
@pytest.mark.parametrize("width", WIDTHS)
def test_every_length(width):
    run(width, 3000, packets=18000, length=-1, user=-1, mac=-1, sink=10, checksum=1)
