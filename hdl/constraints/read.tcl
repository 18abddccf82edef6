# SPDX-License-Identifier: BSD-3-Clause
# Vivado: reads the constraints of all crossings of clocks, each scoped to its module, so that they hold wherever it is used.
# cdc_bit comes first: the others say more of the same paths, and the last word counts.
foreach module {cdc_bit cdc_pulse cdc_events cdc_bus cdc_call async_packet_fifo clock_watch reset_domains} {
  read_xdc -unmanaged -ref $module [file join [file dirname [info script]] $module.xdc]
}
