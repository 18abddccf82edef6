# SPDX-License-Identifier: BSD-3-Clause
# Vivado: builds a board's top. Called by the board's build.tcl with its folder, its part and its top:
#   build FOLDER PART TOP CONSTRAINTS
# Results are in FOLDER/build: reports of timing and utilization, what was routed (routed.dcp), and the image.

proc build {here part top constraints} {
  foreach file $constraints {
    if {![file exists $here/$file]} {
      error "$here/$file is not there: vendor/README.md says where its lines come from"
    }
  }
  create_project -force $top $here/build -part $part
  set list [open $here/files.f]
  foreach file [split [string trim [read $list]] "\n"] {
    add_files -norecurse [file normalize $here/$file]
  }
  close $list
  foreach file $constraints {
    add_files -fileset constrs_1 -norecurse $here/$file
  }
  source $here/ip.tcl
  foreach ip [get_ips] {
    if {[get_property IS_LOCKED $ip]} {
      error "$ip is of another version than this Vivado has: upgrade_ip \[get_ips\], and look at what changed"
    }
  }
  generate_target all [get_ips]
  set_property top $top [current_fileset]
  update_compile_order -fileset sources_1

  # Unmanaged and scoped to modules, so they are read when the design is open: after synthesis, before anything is placed.
  launch_runs synth_1 -jobs 4
  wait_on_run synth_1
  open_run synth_1
  source $here/../../constraints/read.tcl
  opt_design
  place_design
  phys_opt_design
  route_design
  write_checkpoint -force $here/build/routed.dcp
  report_utilization -hierarchical -file $here/build/utilization.txt
  report_timing_summary -max_paths 20 -file $here/build/timing.txt
  report_cdc -details -file $here/build/cdc.txt
  report_bus_skew -file $here/build/bus_skew.txt
  report_methodology -file $here/build/methodology.txt
  set slack [get_property SLACK [get_timing_paths -max_paths 1]]
  puts "worst slack: $slack ns"
  if {$slack < 0} {
    error "timing is not met: $here/build/timing.txt"
  }
  if {[string match xcv* $part]} {
    write_device_image -force $here/build/$top.pdi
  } else {
    write_bitstream -force $here/build/$top.bit
  }
}
