# SPDX-License-Identifier: BSD-3-Clause
# Clocks of ryle_vpk120. Those of processors and clock wizard come with their IP; crossings are constrained in hdl/constraints, each in its module.
create_clock -name qsfp_refclk_0 -period 6.400 [get_ports {qsfp_refclk_p[0]}]
create_clock -name qsfp_refclk_1 -period 6.400 [get_ports {qsfp_refclk_p[1]}]
