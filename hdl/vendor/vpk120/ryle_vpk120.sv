// SPDX-License-Identifier: BSD-3-Clause
// Example top for AMD's VPK120 (Versal Premium): one 400G port (QSFP-DD) behind DCMAC, registers at the processors' bus, packet
// generator and checker as application.
//
// Clocks: `clk`, 390.625 MHz, drives core, application and the MAC's AXI4-Streams; `axi_clk`, 100 MHz, the registers of core and
// MAC. The core crosses between the two itself. The processors see the core's registers at A400_0000 and the MAC's at A500_0000
// (ip.tcl); software starts the MAC.
// phy_status: bit 0 is that the transceivers are ready, as the MAC tells alignment and faults in its registers alone. phy_control:
// bit 0 holds the transceivers' receivers in reset, bit 1 resets all of them, bits 6..4 loop back (AM017).
// It has been elaborated with black boxes for AMD's parts, and never been built: vendor/README.md.
`default_nettype none

module ryle_vpk120 (
    input  wire [1:0] qsfp_refclk_p, qsfp_refclk_n,
    input  wire [7:0] qsfp_rxp, qsfp_rxn,
    output wire [7:0] qsfp_txp, qsfp_txn
);

  localparam int WIDTH    = 1024;
  localparam int CLOCK_HZ = 390625000;

  // ---- processors -------------------------------------------------------------------------------------------------------

  logic axi_clk, axi_rstn;
  logic [31:0] awaddr, wdata, araddr, rdata, mac_awaddr, mac_wdata, mac_araddr, mac_rdata;
  logic [3:0] wstrb;
  logic awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  logic mac_awvalid, mac_awready, mac_wvalid, mac_wready, mac_bvalid, mac_bready, mac_arvalid, mac_arready, mac_rvalid, mac_rready;
  logic [1:0] bresp, rresp, mac_bresp, mac_rresp;

  ryle_ps_wrapper ps (
      .pl_clk(axi_clk), .pl_resetn(axi_rstn),
      .core_awaddr(awaddr), .core_awprot(), .core_awvalid(awvalid), .core_awready(awready),
      .core_wdata(wdata), .core_wstrb(wstrb), .core_wvalid(wvalid), .core_wready(wready),
      .core_bresp(bresp), .core_bvalid(bvalid), .core_bready(bready),
      .core_araddr(araddr), .core_arprot(), .core_arvalid(arvalid), .core_arready(arready),
      .core_rdata(rdata), .core_rresp(rresp), .core_rvalid(rvalid), .core_rready(rready),
      .mac_awaddr, .mac_awprot(), .mac_awvalid, .mac_awready, .mac_wdata, .mac_wstrb(), .mac_wvalid, .mac_wready,
      .mac_bresp, .mac_bvalid, .mac_bready, .mac_araddr, .mac_arprot(), .mac_arvalid, .mac_arready,
      .mac_rdata, .mac_rresp, .mac_rvalid, .mac_rready
  );

  // ---- MAC ------------------------------------------------------------------------------------------------------------

  logic clk, rst, ready, reset_all, reset_wanted;
  logic [WIDTH-1:0] mac_tx_tdata, mac_rx_tdata, tx_data, rx_data;
  logic [WIDTH/8-1:0] mac_tx_tkeep, mac_rx_tkeep;
  logic mac_tx_tvalid, mac_tx_tready, mac_tx_tlast, mac_rx_tvalid, mac_rx_tlast, mac_rx_tuser;
  logic [7:0] tx_ena, tx_sop, tx_eop, tx_err, rx_ena, rx_sop, rx_eop, rx_err;
  logic [31:0] tx_mty, rx_mty;
  logic tx_valid, tx_ready, rx_valid;
  logic [63:0] phy_status, phy_control;

  // Long enough for the transceivers, as this reset clears the register that asks for it: 256 clocks of the registers.
  logic [7:0] hold;
  cdc_bit reset_seen (.clk(axi_clk), .d(phy_control[1]), .q(reset_wanted));
  always_ff @(posedge axi_clk) begin
    if (!axi_rstn || reset_wanted) hold <= '1;
    else if (hold != '0) hold <= hold - 1'b1;
    reset_all <= !axi_rstn || hold != '0;
  end

  dcmac_400g mac (
      .clk, .rst, .refclk_p(qsfp_refclk_p), .refclk_n(qsfp_refclk_n),
      .rxp(qsfp_rxp), .rxn(qsfp_rxn), .txp(qsfp_txp), .txn(qsfp_txn),
      .reset_all, .rx_reset_request(phy_control[0]), .loopback(phy_control[6:4]), .ready,
      .tx_data, .tx_ena, .tx_sop, .tx_eop, .tx_err, .tx_mty, .tx_valid, .tx_ready,
      .rx_data, .rx_ena, .rx_sop, .rx_eop, .rx_err, .rx_mty, .rx_valid,
      .axi_clk, .axi_rstn,
      .s_axi_awaddr(mac_awaddr), .s_axi_awvalid(mac_awvalid), .s_axi_awready(mac_awready),
      .s_axi_wdata(mac_wdata), .s_axi_wvalid(mac_wvalid), .s_axi_wready(mac_wready),
      .s_axi_bresp(mac_bresp), .s_axi_bvalid(mac_bvalid), .s_axi_bready(mac_bready),
      .s_axi_araddr(mac_araddr), .s_axi_arvalid(mac_arvalid), .s_axi_arready(mac_arready),
      .s_axi_rdata(mac_rdata), .s_axi_rresp(mac_rresp), .s_axi_rvalid(mac_rvalid), .s_axi_rready(mac_rready)
  );

  mac_segmented #(.WIDTH(WIDTH)) adapter (
      .clk, .rst,
      .s_axis_tdata(mac_tx_tdata), .s_axis_tkeep(mac_tx_tkeep), .s_axis_tvalid(mac_tx_tvalid),
      .s_axis_tready(mac_tx_tready), .s_axis_tlast(mac_tx_tlast),
      .m_axis_tdata(mac_rx_tdata), .m_axis_tkeep(mac_rx_tkeep), .m_axis_tvalid(mac_rx_tvalid),
      .m_axis_tlast(mac_rx_tlast), .m_axis_tuser(mac_rx_tuser), .phy_status,
      .tx_data, .tx_ena, .tx_sop, .tx_eop, .tx_err, .tx_mty, .tx_valid, .tx_ready,
      .rx_data, .rx_ena, .rx_sop, .rx_eop, .rx_err, .rx_mty, .rx_valid, .rx_overrun(),
      .stat_link_up(ready), .stat_local_fault(1'b0), .stat_remote_fault(1'b0)
  );

  // ---- core and application -------------------------------------------------------------------------------------------

  core_with_traffic #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ)) ryle (
      .clk, .rst, .running(),
      .mac_tx_tdata, .mac_tx_tkeep, .mac_tx_tvalid, .mac_tx_tready, .mac_tx_tlast,
      .mac_rx_tdata, .mac_rx_tkeep, .mac_rx_tvalid, .mac_rx_tlast, .mac_rx_tuser, .phy_status, .phy_control,
      .s_axi_aclk(axi_clk), .s_axi_aresetn(axi_rstn),
      .s_axi_awaddr(awaddr[15:0]), .s_axi_awvalid(awvalid), .s_axi_awready(awready),
      .s_axi_wdata(wdata), .s_axi_wstrb(wstrb), .s_axi_wvalid(wvalid), .s_axi_wready(wready),
      .s_axi_bresp(bresp), .s_axi_bvalid(bvalid), .s_axi_bready(bready),
      .s_axi_araddr(araddr[15:0]), .s_axi_arvalid(arvalid), .s_axi_arready(arready),
      .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid), .s_axi_rready(rready)
  );

endmodule

`default_nettype wire
