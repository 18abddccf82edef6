# SPDX-License-Identifier: BSD-3-Clause
"""Every payload size from 0 to 9000 bytes through the receive path: decisions and bytes, at native speed."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from rx_frames import Frames
from rx_model import Settings
from rx_vectors import VERDICTS, of_sizes, write
from simulation import BUILD, run_native

FOLDER = Path(__file__).parent
SETTINGS = Settings(
    group=0xEF010240, group_mask=0xFFFFFFC0, port_mask=0xFFFC, accept_vlan=True, answer_ping=True, igmp=True
)


def replay(width: int, sizes: range | list[int], also: range | list[int], seed: int, *plusargs: str) -> dict[str, int]:
    """Write vectors, replay them and return the bench's totals; they must be the writer's."""
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"rx_vectors-{width}-{seed}.bin"
    try:
        wrote = write(path, of_sizes(Frames(SETTINGS, seed), sizes, also), SETTINGS)
        said = run_native("rx_vectors", also=[FOLDER], plusargs=[f"vectors={path}", *plusargs], WIDTH=width)
    finally:
        path.unlink(missing_ok=True)
    words = next(line for line in said.splitlines() if line.startswith("frames ")).split()
    assert int(words[1]) == wrote.total(), f"seed {seed}"
    assert dict(zip(VERDICTS, map(int, words[9:]), strict=True)) == {v: wrote[v] for v in VERDICTS}, f"seed {seed}"
    assert wrote["app"] >= len(sizes) - 1  # all but size 0
    return {"frames": int(words[1]), "beats": int(words[3])}


@pytest.mark.parametrize("width", [64, 1024])
def test_every_size_to_9000_bytes(width):
    seed = secrets.randbits(32)
    also = [n for n in range(9001) if n <= 1600 or n % 10 == 0]
    total = replay(width, range(9001), also, seed)
    assert total["frames"] == 9001 + len(also)


@pytest.mark.parametrize("width", [128, 256, 512])
def test_200_sizes_of_every_kind(width):
    seed = secrets.randbits(32)
    sizes = sorted(random.Random(seed).sample(range(9001), 190)) + list(range(10))
    replay(width, sizes, sizes, seed)


@pytest.mark.soak
@pytest.mark.parametrize("width", [64, 128, 256, 512, 1024])
@pytest.mark.parametrize("pauses", [("gaps=0", "waits=0"), ("gaps=128", "waits=60")])
def test_every_size_twice(width, pauses):
    replay(width, range(9001), range(9001), secrets.randbits(32), *pauses)
