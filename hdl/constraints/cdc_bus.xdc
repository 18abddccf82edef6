# SPDX-License-Identifier: BSD-3-Clause
# Scoped to cdc_bus. The word is held from before its flag crosses: it must be there two periods of the destination's clock after it.
set_max_delay -datapath_only -from [get_cells {held_reg[*]}] -to [get_cells {dst_data_reg[*]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {dst_data_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {request_reg}] -to [get_cells {to_dst/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {dst_data_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {acknowledge_reg}] -to [get_cells {to_src/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {request_reg}]]]
