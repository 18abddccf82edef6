# SPDX-License-Identifier: BSD-3-Clause
# Scoped to cdc_events. The bits of the gray-coded count must arrive within a period of the clock that counts, or two changes could
# be seen at once.
set_max_delay -datapath_only -from [get_cells {gray_reg[*]}] -to [get_cells {g_bit[*].sync/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {gray_reg[0]}]]]
set_bus_skew -from [get_cells {gray_reg[*]}] -to [get_cells {g_bit[*].sync/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {gray_reg[0]}]]]
