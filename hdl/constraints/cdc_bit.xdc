# SPDX-License-Identifier: BSD-3-Clause
# Scoped to cdc_bit. The first flip-flop may take a change late, not twice: the way to it is at most a period of its clock.
set_property ASYNC_REG TRUE [get_cells {stage_reg[*]}]
set_max_delay -datapath_only -from [all_fanin -flat -startpoints_only [get_pins {stage_reg[0]/D}]] -to [get_cells {stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {stage_reg[0]}]]]
