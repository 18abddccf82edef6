# SPDX-License-Identifier: BSD-3-Clause
# vivado -mode batch -source hdl/vendor/vpk120/build.tcl
# pins.xdc is not in the repository: vendor/README.md.
set here [file dirname [file normalize [info script]]]
source $here/../common/build.tcl
build $here xcvp1202-vsva2785-2MP-e-S ryle_vpk120 {timing.xdc pins.xdc}
