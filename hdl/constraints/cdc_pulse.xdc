# SPDX-License-Identifier: BSD-3-Clause
# Scoped to cdc_pulse. One level crosses, at most a period of the destination's clock on its way.
set_max_delay -datapath_only -from [get_cells {level_reg}] -to [get_cells {sync/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {sync/stage_reg[0]}]]]
