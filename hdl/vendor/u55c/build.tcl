# SPDX-License-Identifier: BSD-3-Clause
# vivado -mode batch -source hdl/vendor/u55c/build.tcl
set here [file dirname [file normalize [info script]]]
source $here/../common/build.tcl
build $here xcu55c-fsvh2892-2L-e ryle_u55c {timing.xdc pins.xdc}
