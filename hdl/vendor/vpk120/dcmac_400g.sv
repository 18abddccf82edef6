// SPDX-License-Identifier: BSD-3-Clause
// AMD's DCMAC as one 400G port with its transceivers, as the segments that mac_segmented has.
//
// Inside: `dcmac_0_exdes_support_wrapper` and `dcmac_0_clk_wiz_0`, which Vivado writes as the example design of DCMAC 2.3 (ip.tcl
// asks for it): MAC, two GTM quads of four lanes each, reference clocks. Names of their ports, and what a 400G port wants at each,
// are those of dcmactop.sv in liuweiseu/fourhundred_gbe (commit 2d424a7). Version 3 divides it otherwise (vendor/README.md).
// Clocks: `clk`, 390.625 MHz, is what the MAC's AXI4-Streams run on; `axi_clk` its registers. The MAC starts when software has
// written its registers (PG369, "Register Space"): rate, FEC, and the resets there. `rx_reset_request`, in any clock, resets the
// transceivers' receivers.
`default_nettype none

module dcmac_400g (
    output wire          clk,
    output logic         rst,           // in clk: until the transceivers' transmitters are ready
    input  wire  [1:0]   refclk_p, refclk_n,
    input  wire  [7:0]   rxp, rxn,
    output wire  [7:0]   txp, txn,
    input  wire          reset_all,     // asynchronous
    input  wire          rx_reset_request,
    input  wire  [2:0]   loopback,
    output logic         ready,         // in clk: transmitters and receivers of all lanes are
    // Segments, in clk.
    input  wire  [1023:0] tx_data,
    input  wire  [7:0]   tx_ena, tx_sop, tx_eop, tx_err,
    input  wire  [31:0]  tx_mty,
    input  wire          tx_valid,
    output wire          tx_ready,
    output wire  [1023:0] rx_data,
    output wire  [7:0]   rx_ena, rx_sop, rx_eop, rx_err,
    output wire  [31:0]  rx_mty,
    output wire          rx_valid,
    // The MAC's registers.
    input  wire          axi_clk, axi_rstn,
    input  wire  [31:0]  s_axi_awaddr,
    input  wire          s_axi_awvalid,
    output wire          s_axi_awready,
    input  wire  [31:0]  s_axi_wdata,
    input  wire          s_axi_wvalid,
    output wire          s_axi_wready,
    output wire  [1:0]   s_axi_bresp,
    output wire          s_axi_bvalid,
    input  wire          s_axi_bready,
    input  wire  [31:0]  s_axi_araddr,
    input  wire          s_axi_arvalid,
    output wire          s_axi_arready,
    output wire  [31:0]  s_axi_rdata,
    output wire  [1:0]   s_axi_rresp,
    output wire          s_axi_rvalid,
    input  wire          s_axi_rready
);

  logic refclk, core_clk, ts_clk, locked;
  logic tx_usrclk, tx_usrclk2, rx_usrclk, rx_usrclk2;
  logic [7:0] tx_done, rx_done;
  logic [1:0] powergood;

  // 156.25 MHz in; core 782, AXI4-Stream 390.625, time stamps 350.
  dcmac_0_clk_wiz_0 clocks (.reset(1'b0), .clk_in1(refclk), .locked, .clk_out1(core_clk), .clk_out2(clk), .clk_out3(ts_clk));

  // Resets follow the transceivers', each in the clock of what it resets.
  logic tx_ready_all, rx_ready_all, tx_core_up, rx_core_up, tx_up, rx_up;
  assign tx_ready_all = locked && &tx_done;
  assign rx_ready_all = locked && &rx_done;
  cdc_bit tx_core_seen (.clk(core_clk), .d(tx_ready_all), .q(tx_core_up));
  cdc_bit rx_core_seen (.clk(core_clk), .d(rx_ready_all), .q(rx_core_up));
  cdc_bit tx_seen (.clk, .d(tx_ready_all), .q(tx_up));
  cdc_bit rx_seen (.clk, .d(rx_ready_all), .q(rx_up));
  always_ff @(posedge clk) begin
    rst   <= !tx_up;
    ready <= tx_up && rx_up;
  end

  dcmac_0_exdes_support_wrapper support (
      .CLK_IN_D_0_clk_p(refclk_p[0]), .CLK_IN_D_0_clk_n(refclk_n[0]), .CLK_IN_D_1_clk_p(refclk_p[1]),
      .CLK_IN_D_1_clk_n(refclk_n[1]),
      .GT_Serial_grx_p(rxp[3:0]), .GT_Serial_grx_n(rxn[3:0]), .GT_Serial_gtx_p(txp[3:0]), .GT_Serial_gtx_n(txn[3:0]),
      .GT_Serial_1_grx_p(rxp[7:4]), .GT_Serial_1_grx_n(rxn[7:4]), .GT_Serial_1_gtx_p(txp[7:4]), .GT_Serial_1_gtx_n(txn[7:4]),
      .IBUFDS_ODIV2(refclk),
      .gt_rxcdrhold(1'b0), .gt_txprecursor(6'd0), .gt_txpostcursor(6'd0), .gt_txmaincursor(7'd76),
      .ch0_loopback_0(loopback), .ch0_loopback_1(loopback), .ch0_rxrate_0(8'd0), .ch0_rxrate_1(8'd0), .ch0_txrate_0(8'd0),
      .ch0_txrate_1(8'd0),
      .ch1_loopback_0(loopback), .ch1_loopback_1(loopback), .ch1_rxrate_0(8'd0), .ch1_rxrate_1(8'd0), .ch1_txrate_0(8'd0),
      .ch1_txrate_1(8'd0),
      .ch2_loopback_0(loopback), .ch2_loopback_1(loopback), .ch2_rxrate_0(8'd0), .ch2_rxrate_1(8'd0), .ch2_txrate_0(8'd0),
      .ch2_txrate_1(8'd0),
      .ch3_loopback_0(loopback), .ch3_loopback_1(loopback), .ch3_rxrate_0(8'd0), .ch3_rxrate_1(8'd0), .ch3_txrate_0(8'd0),
      .ch3_txrate_1(8'd0),
      .ch0_tx_usr_clk2_0(tx_usrclk2), .ch0_tx_usr_clk_0(tx_usrclk), .ch0_rx_usr_clk2_0(rx_usrclk2), .ch0_rx_usr_clk_0(rx_usrclk),
      .gtpowergood_0(powergood[0]), .gtpowergood_1(powergood[1]), .gtpowergood_in(&powergood),
      .gt_reset_all_in(reset_all), .gpo(),
      .gt_reset_tx_datapath_in_0(1'b0), .gt_reset_rx_datapath_in_0(rx_reset_request), .gt_tx_reset_done_out_0(tx_done[0]),
      .gt_rx_reset_done_out_0(rx_done[0]),
      .gt_reset_tx_datapath_in_1(1'b0), .gt_reset_rx_datapath_in_1(rx_reset_request), .gt_tx_reset_done_out_1(tx_done[1]),
      .gt_rx_reset_done_out_1(rx_done[1]),
      .gt_reset_tx_datapath_in_2(1'b0), .gt_reset_rx_datapath_in_2(rx_reset_request), .gt_tx_reset_done_out_2(tx_done[2]),
      .gt_rx_reset_done_out_2(rx_done[2]),
      .gt_reset_tx_datapath_in_3(1'b0), .gt_reset_rx_datapath_in_3(rx_reset_request), .gt_tx_reset_done_out_3(tx_done[3]),
      .gt_rx_reset_done_out_3(rx_done[3]),
      .gt_reset_tx_datapath_in_4(1'b0), .gt_reset_rx_datapath_in_4(rx_reset_request), .gt_tx_reset_done_out_4(tx_done[4]),
      .gt_rx_reset_done_out_4(rx_done[4]),
      .gt_reset_tx_datapath_in_5(1'b0), .gt_reset_rx_datapath_in_5(rx_reset_request), .gt_tx_reset_done_out_5(tx_done[5]),
      .gt_rx_reset_done_out_5(rx_done[5]),
      .gt_reset_tx_datapath_in_6(1'b0), .gt_reset_rx_datapath_in_6(rx_reset_request), .gt_tx_reset_done_out_6(tx_done[6]),
      .gt_rx_reset_done_out_6(rx_done[6]),
      .gt_reset_tx_datapath_in_7(1'b0), .gt_reset_rx_datapath_in_7(rx_reset_request), .gt_tx_reset_done_out_7(tx_done[7]),
      .gt_rx_reset_done_out_7(rx_done[7]),
      // Distance of lane markers, and those of 100G (IEEE 802.3, table 82-2), which a 400G port does not send.
      .ctl_port_ctl_rx_custom_vl_length_minus1(16'd256), .ctl_port_ctl_tx_custom_vl_length_minus1(16'd256),
      .ctl_port_ctl_vl_marker_id0(64'hc16821003e97de00), .ctl_port_ctl_vl_marker_id1(64'h9d718e00628e7100),
      .ctl_port_ctl_vl_marker_id2(64'h594be800a6b41700), .ctl_port_ctl_vl_marker_id3(64'h4d957b00b26a8400),
      .ctl_port_ctl_vl_marker_id4(64'hf50709000af8f600), .ctl_port_ctl_vl_marker_id5(64'hdd14c20022eb3d00),
      .ctl_port_ctl_vl_marker_id6(64'h9a4a260065b5d900), .ctl_port_ctl_vl_marker_id7(64'h7b45660084ba9900),
      .ctl_port_ctl_vl_marker_id8(64'ha02476005fdb8900), .ctl_port_ctl_vl_marker_id9(64'h68c9fb0097360400),
      .ctl_port_ctl_vl_marker_id10(64'hfd6c990002936600), .ctl_port_ctl_vl_marker_id11(64'hb9915500466eaa00),
      .ctl_port_ctl_vl_marker_id12(64'h5cb9b200a3464d00), .ctl_port_ctl_vl_marker_id13(64'h1af8bd00e5074200),
      .ctl_port_ctl_vl_marker_id14(64'h83c7ca007c383500), .ctl_port_ctl_vl_marker_id15(64'h3536cd00cac93200),
      .ctl_port_ctl_vl_marker_id16(64'hc4314c003bceb300), .ctl_port_ctl_vl_marker_id17(64'hadd6b70052294800),
      .ctl_port_ctl_vl_marker_id18(64'h5f662a00a099d500), .ctl_port_ctl_vl_marker_id19(64'hc0f0e5003f0f1a00),
      .ctl_txrx_port0_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port0_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port0_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port0_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port0_ctl_tx_send_rfi_in(1'b0),
      .ctl_txrx_port1_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port1_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port1_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port1_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port1_ctl_tx_send_rfi_in(1'b0),
      .ctl_txrx_port2_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port2_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port2_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port2_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port2_ctl_tx_send_rfi_in(1'b0),
      .ctl_txrx_port3_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port3_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port3_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port3_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port3_ctl_tx_send_rfi_in(1'b0),
      .ctl_txrx_port4_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port4_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port4_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port4_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port4_ctl_tx_send_rfi_in(1'b0),
      .ctl_txrx_port5_ctl_tx_lane0_vlm_bip7_override(1'b0), .ctl_txrx_port5_ctl_tx_lane0_vlm_bip7_override_value(8'd0),
      .ctl_txrx_port5_ctl_tx_send_idle_in(1'b0), .ctl_txrx_port5_ctl_tx_send_lfi_in(1'b0),
      .ctl_txrx_port5_ctl_tx_send_rfi_in(1'b0),
      .ctl_rsvd_in(120'd0), .rsvd_in_rx_mac(8'd0), .rsvd_in_rx_phy(8'd0),
      .tx_core_clk(core_clk), .rx_core_clk(core_clk), .tx_core_reset(!tx_core_up), .rx_core_reset(!rx_core_up),
      .tx_serdes_reset({6{!tx_ready_all}}), .rx_serdes_reset({6{!rx_ready_all}}),
      .tx_serdes_clk({2'b00, {4{tx_usrclk}}}), .rx_serdes_clk({2'b00, {4{rx_usrclk}}}),
      .tx_alt_serdes_clk({2'b00, {4{tx_usrclk2}}}), .rx_alt_serdes_clk({2'b00, {4{rx_usrclk2}}}),
      .tx_axi_clk(clk), .rx_axi_clk(clk), .tx_flexif_clk({6{clk}}), .rx_flexif_clk({6{clk}}), .tx_macif_clk(clk),
      .rx_macif_clk(clk),
      .ts_clk({6{ts_clk}}), .tx_channel_flush(6'd0), .rx_channel_flush(6'd0),
      .tx_all_channel_mac_pm_tick(1'b0), .rx_all_channel_mac_pm_tick(1'b0), .tx_port_pm_tick(6'd0), .rx_port_pm_tick(6'd0),
      .rx_serdes_fifo_flagin_0(1'b0), .rx_serdes_fifo_flagin_1(1'b0), .rx_serdes_fifo_flagin_2(1'b0),
      .rx_serdes_fifo_flagin_3(1'b0), .rx_serdes_fifo_flagin_4(1'b0), .rx_serdes_fifo_flagin_5(1'b0),
      .tx_preamblein_0(56'd0), .tx_axis_taf_0(), .tx_axis_tready_0(tx_ready), .tx_axis_tvalid_0(tx_valid),
      .tx_axis_tdata0(tx_data[0+:128]), .tx_axis_tuser_ena0(tx_ena[0]), .tx_axis_tuser_sop0(tx_sop[0]),
      .tx_axis_tuser_eop0(tx_eop[0]), .tx_axis_tuser_err0(tx_err[0]), .tx_axis_tuser_mty0(tx_mty[0+:4]),
      .tx_axis_tdata1(tx_data[128+:128]), .tx_axis_tuser_ena1(tx_ena[1]), .tx_axis_tuser_sop1(tx_sop[1]),
      .tx_axis_tuser_eop1(tx_eop[1]), .tx_axis_tuser_err1(tx_err[1]), .tx_axis_tuser_mty1(tx_mty[4+:4]),
      .tx_axis_tdata2(tx_data[256+:128]), .tx_axis_tuser_ena2(tx_ena[2]), .tx_axis_tuser_sop2(tx_sop[2]),
      .tx_axis_tuser_eop2(tx_eop[2]), .tx_axis_tuser_err2(tx_err[2]), .tx_axis_tuser_mty2(tx_mty[8+:4]),
      .tx_axis_tdata3(tx_data[384+:128]), .tx_axis_tuser_ena3(tx_ena[3]), .tx_axis_tuser_sop3(tx_sop[3]),
      .tx_axis_tuser_eop3(tx_eop[3]), .tx_axis_tuser_err3(tx_err[3]), .tx_axis_tuser_mty3(tx_mty[12+:4]),
      .tx_axis_tdata4(tx_data[512+:128]), .tx_axis_tuser_ena4(tx_ena[4]), .tx_axis_tuser_sop4(tx_sop[4]),
      .tx_axis_tuser_eop4(tx_eop[4]), .tx_axis_tuser_err4(tx_err[4]), .tx_axis_tuser_mty4(tx_mty[16+:4]),
      .tx_axis_tdata5(tx_data[640+:128]), .tx_axis_tuser_ena5(tx_ena[5]), .tx_axis_tuser_sop5(tx_sop[5]),
      .tx_axis_tuser_eop5(tx_eop[5]), .tx_axis_tuser_err5(tx_err[5]), .tx_axis_tuser_mty5(tx_mty[20+:4]),
      .tx_axis_tdata6(tx_data[768+:128]), .tx_axis_tuser_ena6(tx_ena[6]), .tx_axis_tuser_sop6(tx_sop[6]),
      .tx_axis_tuser_eop6(tx_eop[6]), .tx_axis_tuser_err6(tx_err[6]), .tx_axis_tuser_mty6(tx_mty[24+:4]),
      .tx_axis_tdata7(tx_data[896+:128]), .tx_axis_tuser_ena7(tx_ena[7]), .tx_axis_tuser_sop7(tx_sop[7]),
      .tx_axis_tuser_eop7(tx_eop[7]), .tx_axis_tuser_err7(tx_err[7]), .tx_axis_tuser_mty7(tx_mty[28+:4]),
      .rx_preambleout_0(), .rx_axis_tvalid_0(rx_valid),
      .rx_axis_tdata0(rx_data[0+:128]), .rx_axis_tuser_ena0(rx_ena[0]), .rx_axis_tuser_sop0(rx_sop[0]),
      .rx_axis_tuser_eop0(rx_eop[0]), .rx_axis_tuser_err0(rx_err[0]), .rx_axis_tuser_mty0(rx_mty[0+:4]),
      .rx_axis_tdata1(rx_data[128+:128]), .rx_axis_tuser_ena1(rx_ena[1]), .rx_axis_tuser_sop1(rx_sop[1]),
      .rx_axis_tuser_eop1(rx_eop[1]), .rx_axis_tuser_err1(rx_err[1]), .rx_axis_tuser_mty1(rx_mty[4+:4]),
      .rx_axis_tdata2(rx_data[256+:128]), .rx_axis_tuser_ena2(rx_ena[2]), .rx_axis_tuser_sop2(rx_sop[2]),
      .rx_axis_tuser_eop2(rx_eop[2]), .rx_axis_tuser_err2(rx_err[2]), .rx_axis_tuser_mty2(rx_mty[8+:4]),
      .rx_axis_tdata3(rx_data[384+:128]), .rx_axis_tuser_ena3(rx_ena[3]), .rx_axis_tuser_sop3(rx_sop[3]),
      .rx_axis_tuser_eop3(rx_eop[3]), .rx_axis_tuser_err3(rx_err[3]), .rx_axis_tuser_mty3(rx_mty[12+:4]),
      .rx_axis_tdata4(rx_data[512+:128]), .rx_axis_tuser_ena4(rx_ena[4]), .rx_axis_tuser_sop4(rx_sop[4]),
      .rx_axis_tuser_eop4(rx_eop[4]), .rx_axis_tuser_err4(rx_err[4]), .rx_axis_tuser_mty4(rx_mty[16+:4]),
      .rx_axis_tdata5(rx_data[640+:128]), .rx_axis_tuser_ena5(rx_ena[5]), .rx_axis_tuser_sop5(rx_sop[5]),
      .rx_axis_tuser_eop5(rx_eop[5]), .rx_axis_tuser_err5(rx_err[5]), .rx_axis_tuser_mty5(rx_mty[20+:4]),
      .rx_axis_tdata6(rx_data[768+:128]), .rx_axis_tuser_ena6(rx_ena[6]), .rx_axis_tuser_sop6(rx_sop[6]),
      .rx_axis_tuser_eop6(rx_eop[6]), .rx_axis_tuser_err6(rx_err[6]), .rx_axis_tuser_mty6(rx_mty[24+:4]),
      .rx_axis_tdata7(rx_data[896+:128]), .rx_axis_tuser_ena7(rx_ena[7]), .rx_axis_tuser_sop7(rx_sop[7]),
      .rx_axis_tuser_eop7(rx_eop[7]), .rx_axis_tuser_err7(rx_err[7]), .rx_axis_tuser_mty7(rx_mty[28+:4]),
      .apb3clk_quad(axi_clk), .s_axi_aclk(axi_clk), .s_axi_aresetn(axi_rstn),
      .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wvalid, .s_axi_wready,
      .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid, .s_axi_arready,
      .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready
  );

endmodule

`default_nettype wire
