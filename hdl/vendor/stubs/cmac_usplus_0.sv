// SPDX-License-Identifier: BSD-3-Clause
// Black box for elaboration: what u55c/ip.tcl makes of AMD's CMAC (PG203): AXI4-Stream, without its AXI4-Lite. The ports that
// ryle_u55c connects; the IP has more outputs, of statistics.
`default_nettype none
(* blackbox *)
module cmac_usplus_0 (
    input  wire [3:0]   gt_rxp_in, gt_rxn_in,
    output wire [3:0]   gt_txp_out, gt_txn_out,
    input  wire         gt_ref_clk_p, gt_ref_clk_n, init_clk, sys_reset,
    input  wire [11:0]  gt_loopback_in,
    output wire         gt_txusrclk2, usr_tx_reset, usr_rx_reset,
    input  wire         rx_clk, core_rx_reset, core_tx_reset, gtwiz_reset_tx_datapath, gtwiz_reset_rx_datapath,
    input  wire         ctl_rx_enable, ctl_rx_force_resync, ctl_rx_test_pattern,
    input  wire         ctl_tx_enable, ctl_tx_send_idle, ctl_tx_send_lfi, ctl_tx_send_rfi, ctl_tx_test_pattern,
    input  wire         ctl_tx_rsfec_enable, ctl_rx_rsfec_enable, ctl_rsfec_ieee_error_indication_mode,
    input  wire         ctl_rx_rsfec_enable_correction, ctl_rx_rsfec_enable_indication,
    input  wire [55:0]  tx_preamblein,
    input  wire [511:0] tx_axis_tdata,
    input  wire [63:0]  tx_axis_tkeep,
    input  wire         tx_axis_tvalid, tx_axis_tlast, tx_axis_tuser,
    output wire         tx_axis_tready, tx_ovfout, tx_unfout,
    output wire [511:0] rx_axis_tdata,
    output wire [63:0]  rx_axis_tkeep,
    output wire         rx_axis_tvalid, rx_axis_tlast, rx_axis_tuser,
    output wire         stat_rx_status, stat_rx_aligned, stat_rx_local_fault, stat_rx_remote_fault,
    input  wire         core_drp_reset, drp_clk, drp_en, drp_we,
    input  wire [9:0]   drp_addr,
    input  wire [15:0]  drp_di
);
endmodule
`default_nettype wire
