# SPDX-License-Identifier: BSD-3-Clause
# Pins of the Alveo U55C that ryle_u55c uses, as in constr/au55c/pins.xdc of Xilinx/open-nic-shell (commit 4cff715). Lanes of PCIe and QSFP0 have no
# lines: their transceivers are placed by the IP (ip.tcl).
set_property -dict {PACKAGE_PIN BF41 IOSTANDARD LVCMOS18} [get_ports pcie_rstn]
set_property PACKAGE_PIN AR15 [get_ports pcie_refclk_p]
set_property PACKAGE_PIN AR14 [get_ports pcie_refclk_n]
set_property PACKAGE_PIN AD42 [get_ports qsfp_refclk_p]
set_property PACKAGE_PIN AD43 [get_ports qsfp_refclk_n]
set_property -dict {PACKAGE_PIN BE45 IOSTANDARD LVCMOS18 PULLDOWN TRUE} [get_ports hbm_cattrip]
