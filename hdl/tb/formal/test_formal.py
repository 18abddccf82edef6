# SPDX-License-Identifier: BSD-3-Clause
"""What hdl/formal states is proven; of a module that is broken on purpose, it is not."""

import pytest

from prove import prove


def test_skid_buffer_for_all_time():
    prove("formal_skid_buffer", clocks=10, for_all_time=True)


def test_frame_arbiter_for_all_time():
    prove("formal_frame_arbiter", clocks=8, for_all_time=True)


@pytest.mark.parametrize("drop", [0, 1])
def test_packet_fifo(drop):
    prove("formal_packet_fifo", clocks=9, DROP=drop)


def test_shifter():
    prove("formal_rx_strip", clocks=11)


@pytest.mark.soak
@pytest.mark.parametrize("drop", [0, 1])
def test_packet_fifo_for_longer(drop):
    prove("formal_packet_fifo", clocks=12, DROP=drop)


BROKEN = {
    "beat lost": ("formal_skid_buffer", "skid_buffer", "spare_valid || s_valid;", "s_valid;"),
    "beat doubled": ("formal_skid_buffer", "skid_buffer", "assign s_ready = !spare_valid;", "assign s_ready = 1'b1;"),
    "frames mixed": ("formal_frame_arbiter", "frame_arbiter", "<= !s_axis_tlast[chosen];", "<= 1'b0;"),
    "one input first": (
        "formal_frame_arbiter",
        "frame_arbiter",
        "served       <= chosen;",
        "served <= locked ? served : '0;",
    ),
    "shifted by a byte": ("formal_rx_strip", "rx_strip", "{data, data_1} >> 16;", "{data, data_1} >> 24;"),
    "padding kept": ("formal_rx_strip", "rx_strip", "(KB + 1)'(i) < kept_3;", "(KB + 1)'(i) <= kept_3;"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_module_is_found(fault):
    top, *broken = BROKEN[fault]
    with pytest.raises(AssertionError, match="yosys, formal_"):
        prove(top, clocks=9, broken=tuple(broken))
