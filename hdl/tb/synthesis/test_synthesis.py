# SPDX-License-Identifier: BSD-3-Clause
"""The core can be synthesized: no latch, no combinational loop, no wire of two drivers; such faults would be found."""

import pytest

from resources import sane
from simulation import BUILD


@pytest.mark.parametrize("width", [64, 1024])
@pytest.mark.parametrize("top", ["ethernet_core", "traffic"])
def test_no_latches_and_no_loops(top, width):
    sane(top, WIDTH=width)


FAULTS = {
    "latch": "always @* if (a) q = b;",
    "loop": "wire x, y; assign x = y ^ a; assign y = x & b; always @* q = x;",
    "two_drivers": "wire x; assign x = a; sub s1 (.o(x), .i(b)); always @* q = x;",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    (folder := BUILD / "synthesis").mkdir(parents=True, exist_ok=True)
    body = f"module faulty_{fault} (input wire a, input wire b, output reg q);\n{FAULTS[fault]}\nendmodule\n"
    (file := folder / f"{fault}.sv").write_text(
        body + "module sub (output wire o, input wire i);\nassign o = !i;\nendmodule\n"
    )
    with pytest.raises(AssertionError):
        sane(f"faulty_{fault}", also=[file])
