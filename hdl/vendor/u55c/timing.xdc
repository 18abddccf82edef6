# SPDX-License-Identifier: BSD-3-Clause
# Clocks of ryle_u55c. Those of CMAC and XDMA come with their IP; crossings between them are constrained in hdl/constraints, each in its module.
create_clock -name pcie_refclk -period 10.000 [get_ports pcie_refclk_p]
create_clock -name qsfp_refclk -period 6.206 [get_ports qsfp_refclk_p]
set_false_path -from [get_ports pcie_rstn]
set_property CONFIG_VOLTAGE 1.8 [current_design]
set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]
