# SPDX-License-Identifier: BSD-3-Clause
# Scoped to async_packet_fifo. The bits of a gray-coded count must arrive within a period of the clock that counts.
set_max_delay -datapath_only -from [get_cells {freed_gray_m_reg[*]}] -to [get_cells {g_cross.g_beat[*].sync/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]]]
set_bus_skew -from [get_cells {freed_gray_m_reg[*]}] -to [get_cells {g_cross.g_beat[*].sync/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {freed_frame_gray_m_reg[*]}] -to [get_cells {g_cross.g_frame[*].back/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]]]
set_bus_skew -from [get_cells {freed_frame_gray_m_reg[*]}] -to [get_cells {g_cross.g_frame[*].back/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {write_frame_gray_reg[*]}] -to [get_cells {g_cross.g_frame[*].there/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {write_frame_gray_reg[0]}]]]
set_bus_skew -from [get_cells {write_frame_gray_reg[*]}] -to [get_cells {g_cross.g_frame[*].there/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {write_frame_gray_reg[0]}]]]
# Memories of LUTs or registers are read across the clocks, what is read having lain there since before the count crossed. A block RAM
# has a port in each clock, and these find nothing to do.
set_max_delay -datapath_only -from [get_cells -quiet {memory_reg* list_reg*}] -to [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]] [get_property -min PERIOD [get_clocks -of_objects [get_cells {freed_gray_m_reg[0]}]]]
