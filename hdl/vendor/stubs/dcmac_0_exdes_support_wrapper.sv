// SPDX-License-Identifier: BSD-3-Clause
// Black boxes for elaboration: what Vivado writes as the DCMAC's example design. The ports that vpk120/dcmac_400g.sv connects;
// there are more outputs. Names and widths as in dcmactop.sv of liuweiseu/fourhundred_gbe.
`default_nettype none

(* blackbox *)
module dcmac_0_exdes_support_wrapper (
    input wire CLK_IN_D_0_clk_p, CLK_IN_D_0_clk_n, CLK_IN_D_1_clk_p, CLK_IN_D_1_clk_n, gt_rxcdrhold, gtpowergood_in,
        gt_reset_all_in, gt_reset_tx_datapath_in_0, gt_reset_rx_datapath_in_0, gt_reset_tx_datapath_in_1,
        gt_reset_rx_datapath_in_1, gt_reset_tx_datapath_in_2, gt_reset_rx_datapath_in_2, gt_reset_tx_datapath_in_3,
        gt_reset_rx_datapath_in_3, gt_reset_tx_datapath_in_4, gt_reset_rx_datapath_in_4, gt_reset_tx_datapath_in_5,
        gt_reset_rx_datapath_in_5, gt_reset_tx_datapath_in_6, gt_reset_rx_datapath_in_6, gt_reset_tx_datapath_in_7,
        gt_reset_rx_datapath_in_7, ctl_txrx_port0_ctl_tx_lane0_vlm_bip7_override, ctl_txrx_port0_ctl_tx_send_idle_in,
        ctl_txrx_port0_ctl_tx_send_lfi_in, ctl_txrx_port0_ctl_tx_send_rfi_in, ctl_txrx_port1_ctl_tx_lane0_vlm_bip7_override,
        ctl_txrx_port1_ctl_tx_send_idle_in, ctl_txrx_port1_ctl_tx_send_lfi_in, ctl_txrx_port1_ctl_tx_send_rfi_in,
        ctl_txrx_port2_ctl_tx_lane0_vlm_bip7_override, ctl_txrx_port2_ctl_tx_send_idle_in, ctl_txrx_port2_ctl_tx_send_lfi_in,
        ctl_txrx_port2_ctl_tx_send_rfi_in, ctl_txrx_port3_ctl_tx_lane0_vlm_bip7_override, ctl_txrx_port3_ctl_tx_send_idle_in,
        ctl_txrx_port3_ctl_tx_send_lfi_in, ctl_txrx_port3_ctl_tx_send_rfi_in, ctl_txrx_port4_ctl_tx_lane0_vlm_bip7_override,
        ctl_txrx_port4_ctl_tx_send_idle_in, ctl_txrx_port4_ctl_tx_send_lfi_in, ctl_txrx_port4_ctl_tx_send_rfi_in,
        ctl_txrx_port5_ctl_tx_lane0_vlm_bip7_override, ctl_txrx_port5_ctl_tx_send_idle_in, ctl_txrx_port5_ctl_tx_send_lfi_in,
        ctl_txrx_port5_ctl_tx_send_rfi_in, tx_core_clk, rx_core_clk, tx_core_reset, rx_core_reset, tx_axi_clk, rx_axi_clk,
        tx_macif_clk, rx_macif_clk, tx_all_channel_mac_pm_tick, rx_all_channel_mac_pm_tick, rx_serdes_fifo_flagin_0,
        rx_serdes_fifo_flagin_1, rx_serdes_fifo_flagin_2, rx_serdes_fifo_flagin_3, rx_serdes_fifo_flagin_4,
        rx_serdes_fifo_flagin_5, tx_axis_tvalid_0, tx_axis_tuser_ena0, tx_axis_tuser_sop0, tx_axis_tuser_eop0,
        tx_axis_tuser_err0, tx_axis_tuser_ena1, tx_axis_tuser_sop1, tx_axis_tuser_eop1, tx_axis_tuser_err1, tx_axis_tuser_ena2,
        tx_axis_tuser_sop2, tx_axis_tuser_eop2, tx_axis_tuser_err2, tx_axis_tuser_ena3, tx_axis_tuser_sop3, tx_axis_tuser_eop3,
        tx_axis_tuser_err3, tx_axis_tuser_ena4, tx_axis_tuser_sop4, tx_axis_tuser_eop4, tx_axis_tuser_err4, tx_axis_tuser_ena5,
        tx_axis_tuser_sop5, tx_axis_tuser_eop5, tx_axis_tuser_err5, tx_axis_tuser_ena6, tx_axis_tuser_sop6, tx_axis_tuser_eop6,
        tx_axis_tuser_err6, tx_axis_tuser_ena7, tx_axis_tuser_sop7, tx_axis_tuser_eop7, tx_axis_tuser_err7, apb3clk_quad,
        s_axi_aclk, s_axi_aresetn, s_axi_awvalid, s_axi_wvalid, s_axi_bready, s_axi_arvalid, s_axi_rready,
    input wire [3:0] GT_Serial_grx_p, GT_Serial_grx_n, GT_Serial_1_grx_p, GT_Serial_1_grx_n, tx_axis_tuser_mty0,
        tx_axis_tuser_mty1, tx_axis_tuser_mty2, tx_axis_tuser_mty3, tx_axis_tuser_mty4, tx_axis_tuser_mty5, tx_axis_tuser_mty6,
        tx_axis_tuser_mty7,
    output wire [3:0] GT_Serial_gtx_p, GT_Serial_gtx_n, GT_Serial_1_gtx_p, GT_Serial_1_gtx_n, rx_axis_tuser_mty0,
        rx_axis_tuser_mty1, rx_axis_tuser_mty2, rx_axis_tuser_mty3, rx_axis_tuser_mty4, rx_axis_tuser_mty5, rx_axis_tuser_mty6,
        rx_axis_tuser_mty7,
    output wire IBUFDS_ODIV2, ch0_tx_usr_clk2_0, ch0_tx_usr_clk_0, ch0_rx_usr_clk2_0, ch0_rx_usr_clk_0, gtpowergood_0,
        gtpowergood_1, gt_tx_reset_done_out_0, gt_rx_reset_done_out_0, gt_tx_reset_done_out_1, gt_rx_reset_done_out_1,
        gt_tx_reset_done_out_2, gt_rx_reset_done_out_2, gt_tx_reset_done_out_3, gt_rx_reset_done_out_3, gt_tx_reset_done_out_4,
        gt_rx_reset_done_out_4, gt_tx_reset_done_out_5, gt_rx_reset_done_out_5, gt_tx_reset_done_out_6, gt_rx_reset_done_out_6,
        gt_tx_reset_done_out_7, gt_rx_reset_done_out_7, tx_axis_taf_0, tx_axis_tready_0, rx_axis_tvalid_0, rx_axis_tuser_ena0,
        rx_axis_tuser_sop0, rx_axis_tuser_eop0, rx_axis_tuser_err0, rx_axis_tuser_ena1, rx_axis_tuser_sop1, rx_axis_tuser_eop1,
        rx_axis_tuser_err1, rx_axis_tuser_ena2, rx_axis_tuser_sop2, rx_axis_tuser_eop2, rx_axis_tuser_err2, rx_axis_tuser_ena3,
        rx_axis_tuser_sop3, rx_axis_tuser_eop3, rx_axis_tuser_err3, rx_axis_tuser_ena4, rx_axis_tuser_sop4, rx_axis_tuser_eop4,
        rx_axis_tuser_err4, rx_axis_tuser_ena5, rx_axis_tuser_sop5, rx_axis_tuser_eop5, rx_axis_tuser_err5, rx_axis_tuser_ena6,
        rx_axis_tuser_sop6, rx_axis_tuser_eop6, rx_axis_tuser_err6, rx_axis_tuser_ena7, rx_axis_tuser_sop7, rx_axis_tuser_eop7,
        rx_axis_tuser_err7, s_axi_awready, s_axi_wready, s_axi_bvalid, s_axi_arready, s_axi_rvalid,
    input wire [5:0] gt_txprecursor, gt_txpostcursor, tx_serdes_reset, rx_serdes_reset, tx_serdes_clk, rx_serdes_clk,
        tx_alt_serdes_clk, rx_alt_serdes_clk, tx_flexif_clk, rx_flexif_clk, ts_clk, tx_channel_flush, rx_channel_flush,
        tx_port_pm_tick, rx_port_pm_tick,
    input wire [6:0] gt_txmaincursor,
    input wire [2:0] ch0_loopback_0, ch0_loopback_1, ch1_loopback_0, ch1_loopback_1, ch2_loopback_0, ch2_loopback_1,
        ch3_loopback_0, ch3_loopback_1,
    input wire [7:0] ch0_rxrate_0, ch0_rxrate_1, ch0_txrate_0, ch0_txrate_1, ch1_rxrate_0, ch1_rxrate_1, ch1_txrate_0,
        ch1_txrate_1, ch2_rxrate_0, ch2_rxrate_1, ch2_txrate_0, ch2_txrate_1, ch3_rxrate_0, ch3_rxrate_1, ch3_txrate_0,
        ch3_txrate_1, ctl_txrx_port0_ctl_tx_lane0_vlm_bip7_override_value, ctl_txrx_port1_ctl_tx_lane0_vlm_bip7_override_value,
        ctl_txrx_port2_ctl_tx_lane0_vlm_bip7_override_value, ctl_txrx_port3_ctl_tx_lane0_vlm_bip7_override_value,
        ctl_txrx_port4_ctl_tx_lane0_vlm_bip7_override_value, ctl_txrx_port5_ctl_tx_lane0_vlm_bip7_override_value,
        rsvd_in_rx_mac, rsvd_in_rx_phy,
    output wire [31:0] gpo, s_axi_rdata,
    input wire [15:0] ctl_port_ctl_rx_custom_vl_length_minus1, ctl_port_ctl_tx_custom_vl_length_minus1,
    input wire [63:0] ctl_port_ctl_vl_marker_id0, ctl_port_ctl_vl_marker_id1, ctl_port_ctl_vl_marker_id2,
        ctl_port_ctl_vl_marker_id3, ctl_port_ctl_vl_marker_id4, ctl_port_ctl_vl_marker_id5, ctl_port_ctl_vl_marker_id6,
        ctl_port_ctl_vl_marker_id7, ctl_port_ctl_vl_marker_id8, ctl_port_ctl_vl_marker_id9, ctl_port_ctl_vl_marker_id10,
        ctl_port_ctl_vl_marker_id11, ctl_port_ctl_vl_marker_id12, ctl_port_ctl_vl_marker_id13, ctl_port_ctl_vl_marker_id14,
        ctl_port_ctl_vl_marker_id15, ctl_port_ctl_vl_marker_id16, ctl_port_ctl_vl_marker_id17, ctl_port_ctl_vl_marker_id18,
        ctl_port_ctl_vl_marker_id19,
    input wire [119:0] ctl_rsvd_in,
    input wire [55:0] tx_preamblein_0,
    input wire [127:0] tx_axis_tdata0, tx_axis_tdata1, tx_axis_tdata2, tx_axis_tdata3, tx_axis_tdata4, tx_axis_tdata5,
        tx_axis_tdata6, tx_axis_tdata7,
    output wire [55:0] rx_preambleout_0,
    output wire [127:0] rx_axis_tdata0, rx_axis_tdata1, rx_axis_tdata2, rx_axis_tdata3, rx_axis_tdata4, rx_axis_tdata5,
        rx_axis_tdata6, rx_axis_tdata7,
    input wire [31:0] s_axi_awaddr, s_axi_wdata, s_axi_araddr,
    output wire [1:0] s_axi_bresp, s_axi_rresp
);
endmodule

(* blackbox *)
module dcmac_0_clk_wiz_0 (input wire reset, clk_in1, output wire locked, clk_out1, clk_out2, clk_out3);
endmodule

`default_nettype wire
