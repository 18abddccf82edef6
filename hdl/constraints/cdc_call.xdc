# SPDX-License-Identifier: BSD-3-Clause
# Scoped to cdc_call. Question and answer are held from before their flags cross, each of which takes two periods of the clock that looks.
set_max_delay -datapath_only -from [get_cells {question_reg[*]}] -to [get_cells {dst_question_reg[*]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {dst_question_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {answer_reg[*]}] -to [get_cells {src_answer_reg[*] src_failed_reg}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {src_failed_reg}]]]
set_max_delay -datapath_only -from [get_cells {asked_reg}] -to [get_cells {there/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {dst_question_reg[0]}]]]
set_max_delay -datapath_only -from [get_cells {answered_reg}] -to [get_cells {back/stage_reg[0]}] [get_property -min PERIOD [get_clocks -of_objects [get_cells {src_failed_reg}]]]
