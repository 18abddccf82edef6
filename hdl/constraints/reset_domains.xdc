# SPDX-License-Identifier: BSD-3-Clause
# Scoped to reset_domains. Resets and the gates' levels stay until they are answered, so that nothing depends on how long they take.
set_false_path -from [get_cells {drive_reg}] -to [get_cells {g_app[*].there/stage_reg[0]}]
set_false_path -from [get_cells {g_app[*].since_reg[3]}] -to [get_cells {g_app[*].back/stage_reg[0]}]
set_false_path -from [get_cells {open_reg}] -to [get_cells {g_app[*].open_there/stage_reg[0]}]
set_false_path -to [get_cells {g_app[*].closed_back/stage_reg[0]}]
