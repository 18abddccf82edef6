# SPDX-License-Identifier: BSD-3-Clause
# Vivado, in an open project: makes the parts of ryle_u55c that are AMD's, without a block design.

# CMAC in the place and with the lanes of QSFP0, as Xilinx/open-nic-shell has them (src/cmac_subsystem/vivado_ip/cmac_usplus_0_au55c.tcl, commit
# bf5e910), but started by pins instead of registers. Its receiver has the elastic buffer, so that its clock can be the transmitter's.
create_ip -name cmac_usplus -vendor xilinx.com -library ip -module_name cmac_usplus_0
set_property -dict {
  CONFIG.CMAC_CAUI4_MODE {1}
  CONFIG.NUM_LANES {4x25}
  CONFIG.GT_REF_CLK_FREQ {161.1328125}
  CONFIG.USER_INTERFACE {AXIS}
  CONFIG.GT_DRP_CLK {125.00}
  CONFIG.ENABLE_AXI_INTERFACE {0}
  CONFIG.INCLUDE_STATISTICS_COUNTERS {0}
  CONFIG.CMAC_CORE_SELECT {CMACE4_X0Y3}
  CONFIG.GT_GROUP_SELECT {X0Y24~X0Y27}
  CONFIG.LANE1_GT_LOC {X0Y24}
  CONFIG.LANE2_GT_LOC {X0Y25}
  CONFIG.LANE3_GT_LOC {X0Y26}
  CONFIG.LANE4_GT_LOC {X0Y27}
  CONFIG.RX_GT_BUFFER {1}
  CONFIG.GT_RX_BUFFER_BYPASS {0}
  CONFIG.INCLUDE_RS_FEC {1}
  CONFIG.TX_FLOW_CONTROL {0}
  CONFIG.RX_FLOW_CONTROL {0}
  CONFIG.TX_FCS_INS_ENABLE {1}
  CONFIG.RX_DELETE_FCS {1}
  CONFIG.RX_IGNORE_FCS {0}
  CONFIG.RX_MIN_PACKET_LEN {64}
  CONFIG.RX_MAX_PACKET_LEN {9600}
  CONFIG.ENABLE_PIPELINE_REG {1}
} [get_ips cmac_usplus_0]

# PCIe with an AXI4-Lite master of 64 KiB at BAR 0. 2.5 GT/s by 4 are enough for registers, and give the 125 MHz that CMAC starts with.
create_ip -name xdma -vendor xilinx.com -library ip -module_name xdma_0
set_property -dict {
  CONFIG.functional_mode {DMA}
  CONFIG.pl_link_cap_max_link_width {X4}
  CONFIG.pl_link_cap_max_link_speed {2.5_GT/s}
  CONFIG.axi_data_width {64_bit}
  CONFIG.axisten_freq {125}
  CONFIG.xdma_axi_intf_mm {AXI_Stream}
  CONFIG.axilite_master_en {true}
  CONFIG.axilite_master_size {64}
  CONFIG.axilite_master_scale {Kilobytes}
  CONFIG.pf0_device_id {9014}
  CONFIG.xdma_rnum_chnl {1}
  CONFIG.xdma_wnum_chnl {1}
  CONFIG.cfg_mgmt_if {false}
} [get_ips xdma_0]
