# SPDX-License-Identifier: BSD-3-Clause
# Vivado, in an open project: makes the parts of ryle_vpk120 that are AMD's.
if {![info exists here]} {
  set here [file dirname [file normalize [info script]]]
}

# DCMAC as one 400G port of eight lanes of 53 Gb/s (400GAUI-8) with RS(544,514). FCS is inserted and taken away, pause frames are not the MAC's.
# Names of properties are those of version 2.3 (Vivado 2023.2), whose example design dcmac_400g.sv is written for.
create_ip -name dcmac -vendor xilinx.com -library ip -version 2.3 -module_name dcmac_0
set properties {
  CONFIG.DCMAC_CONFIGURATION_TYPE {Static Configuration}
  CONFIG.DCMAC_DATA_PATH_INTERFACE_C0 {391MHz Upto 6 Ports}
  CONFIG.DCMAC_MODE_C0 {Coupled MAC+PCS}
  CONFIG.FEC_SLICE0_CFG_C0 {RS(544) CL119}
  CONFIG.GT_REF_CLK_FREQ_C0 {156.25}
  CONFIG.GT_TYPE_C0 {GTM}
  CONFIG.MAC_PORT0_CONFIG_C0 {400GAUI-8}
}
foreach port {0 1 2 3} {
  lappend properties CONFIG.MAC_PORT${port}_ENABLE_C0 1 CONFIG.MAC_PORT${port}_TX_INSERT_C0 1 CONFIG.MAC_PORT${port}_RX_STRIP_C0 1
  lappend properties CONFIG.MAC_PORT${port}_TX_FLOW_C0 0 CONFIG.MAC_PORT${port}_RX_FLOW_C0 0
}
set_property -dict $properties [get_ips dcmac_0]

# MAC and transceivers together are in the example design, which Vivado writes into build/example: the block design dcmac_0_exdes_support and the
# clock wizard dcmac_0_clk_wiz_0.
set home [current_project]
open_example_project -force -in_process -dir $here/build/example [get_ips dcmac_0]
set found [get_files -quiet {*dcmac_0_exdes_support.bd *dcmac_0_clk_wiz_0.xci}]
close_project
current_project $home
if {[llength $found] != 2} {
  error "the example design of this version of DCMAC has not what dcmac_400g.sv takes, but: $found (vendor/README.md)"
}
import_files -norecurse $found
add_files -norecurse [make_wrapper -files [get_files dcmac_0_exdes_support.bd] -top -import]

# A Versal needs its processor system (UG1387), which AMD wants configured in a block design (UG1273): the smallest there is, of CIPS and two AXI4-Lite
# masters. The core's registers are at A400_0000, the MAC's at A500_0000.
create_bd_design ryle_ps
set cips [create_bd_cell -type ip -vlnv xilinx.com:ip:versal_cips cips]
set_property CONFIG.PS_PMC_CONFIG {
  PS_USE_M_AXI_FPD 1 PS_M_AXI_FPD_DATA_WIDTH 32 PS_USE_PMCPLCLK0 1 PS_NUM_FABRIC_RESETS 1 PMC_CRP_PL0_REF_CTRL_FREQMHZ 100
} $cips
set bus [create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect bus]
set_property -dict {CONFIG.NUM_SI 1 CONFIG.NUM_MI 2} $bus
set clock [get_bd_pins cips/pl0_ref_clk]
connect_bd_net $clock [get_bd_pins cips/m_axi_fpd_aclk] [get_bd_pins bus/aclk]
connect_bd_net [get_bd_pins cips/pl0_resetn] [get_bd_pins bus/aresetn]
connect_bd_intf_net [get_bd_intf_pins cips/M_AXI_FPD] [get_bd_intf_pins bus/S00_AXI]
create_bd_port -dir O -type clk pl_clk
create_bd_port -dir O -type rst pl_resetn
connect_bd_net $clock [get_bd_ports pl_clk]
connect_bd_net [get_bd_pins cips/pl0_resetn] [get_bd_ports pl_resetn]
foreach {name pin offset range} {core M00_AXI 0xA4000000 64K mac M01_AXI 0xA5000000 16M} {
  set port [create_bd_intf_port -mode Master -vlnv xilinx.com:interface:aximm_rtl:1.0 $name]
  set_property -dict {CONFIG.PROTOCOL AXI4LITE CONFIG.ADDR_WIDTH 32 CONFIG.DATA_WIDTH 32} $port
  connect_bd_intf_net [get_bd_intf_pins bus/$pin] $port
  assign_bd_address -offset $offset -range $range [get_bd_addr_segs $name/Reg]
}
set_property CONFIG.ASSOCIATED_BUSIF {core:mac} [get_bd_ports pl_clk]
validate_bd_design
save_bd_design
add_files -norecurse [make_wrapper -files [get_files ryle_ps.bd] -top -import]
