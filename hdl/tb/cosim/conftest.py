# SPDX-License-Identifier: BSD-3-Clause
"""The simulated FPGA is built before the first test that uses it, outside its time limit."""

from __future__ import annotations

import pytest

from ryle.fpga.simulator import program
from untimed import untimed

WIDTH = 64  # of all tests here


@pytest.fixture(autouse=True, scope="session")
def _built() -> None:
    with untimed():
        program(WIDTH)
