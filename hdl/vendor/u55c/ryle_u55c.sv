// SPDX-License-Identifier: BSD-3-Clause
// Example top for AMD's Alveo U55C: one 100G port (QSFP0) behind CMAC, registers in PCIe BAR 0, packet generator and checker as
// application.
//
// Clocks: `clk`, 322.266 MHz, is CMAC's gt_txusrclk2 and drives core, application and CMAC's receiver; `axi_clk`, 125 MHz, is
// XDMA's and drives the registers, and CMAC's start-up. The core crosses between the two itself. phy_control, a register of the
// core: bit 0 holds the transceivers' receivers in reset (after a cable came, set it and clear it), 1 turns RS-FEC (clause 91)
// off, 2 loops back inside the PMA.
// It has been elaborated with black boxes for AMD's parts, and never been built: vendor/README.md.
`default_nettype none

module ryle_u55c (
    input  wire        pcie_refclk_p, pcie_refclk_n, pcie_rstn,
    input  wire [3:0]  pcie_rxp, pcie_rxn,
    output wire [3:0]  pcie_txp, pcie_txn,
    input  wire        qsfp_refclk_p, qsfp_refclk_n,
    input  wire [3:0]  qsfp_rxp, qsfp_rxn,
    output wire [3:0]  qsfp_txp, qsfp_txn,
    output wire        hbm_cattrip
);

  localparam int WIDTH    = 512;
  localparam int CLOCK_HZ = 322265625;
  localparam int QUANTA_256 = 155;  // of pause frames: 100 Gb/s are 310 bits a clock

  assign hbm_cattrip = 1'b0;  // the card's controller takes 1 for overheating, and cuts the power

  // ---- PCIe -----------------------------------------------------------------------------------------------------------

  logic pcie_clk, pcie_clk_gt, pcie_rstn_in, axi_clk, axi_rstn;
  logic [31:0] awaddr, wdata, araddr, rdata;
  logic [3:0] wstrb;
  logic awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  logic [1:0] bresp, rresp;

  IBUFDS_GTE4 pcie_refclk_in (.I(pcie_refclk_p), .IB(pcie_refclk_n), .CEB(1'b0), .O(pcie_clk_gt), .ODIV2(pcie_clk));
  IBUF pcie_rstn_buffer (.I(pcie_rstn), .O(pcie_rstn_in));

  xdma_0 pcie (
      .sys_clk(pcie_clk), .sys_clk_gt(pcie_clk_gt), .sys_rst_n(pcie_rstn_in), .user_lnk_up(),
      .pci_exp_txp(pcie_txp), .pci_exp_txn(pcie_txn), .pci_exp_rxp(pcie_rxp), .pci_exp_rxn(pcie_rxn),
      .axi_aclk(axi_clk), .axi_aresetn(axi_rstn), .usr_irq_req(1'b0), .usr_irq_ack(),
      .m_axil_awaddr(awaddr), .m_axil_awprot(), .m_axil_awvalid(awvalid), .m_axil_awready(awready),
      .m_axil_wdata(wdata), .m_axil_wstrb(wstrb), .m_axil_wvalid(wvalid), .m_axil_wready(wready),
      .m_axil_bvalid(bvalid), .m_axil_bresp(bresp), .m_axil_bready(bready),
      .m_axil_araddr(araddr), .m_axil_arprot(), .m_axil_arvalid(arvalid), .m_axil_arready(arready),
      .m_axil_rdata(rdata), .m_axil_rresp(rresp), .m_axil_rvalid(rvalid), .m_axil_rready(rready),
      .s_axis_c2h_tdata_0(64'd0), .s_axis_c2h_tkeep_0(8'd0), .s_axis_c2h_tvalid_0(1'b0), .s_axis_c2h_tlast_0(1'b0),
      .s_axis_c2h_tready_0(), .m_axis_h2c_tdata_0(), .m_axis_h2c_tkeep_0(), .m_axis_h2c_tvalid_0(), .m_axis_h2c_tlast_0(),
      .m_axis_h2c_tready_0(1'b1)
  );

  // ---- MAC ------------------------------------------------------------------------------------------------------------

  logic clk, rst, rx_reset;
  logic [WIDTH-1:0] mac_tx_tdata, mac_rx_tdata, tx_axis_tdata, rx_axis_tdata;
  logic [WIDTH/8-1:0] mac_tx_tkeep, mac_rx_tkeep, tx_axis_tkeep, rx_axis_tkeep;
  logic mac_tx_tvalid, mac_tx_tready, mac_tx_tlast, mac_rx_tvalid, mac_rx_tlast, mac_rx_tuser;
  logic tx_axis_tvalid, tx_axis_tready, tx_axis_tlast, tx_axis_tuser, rx_axis_tvalid, rx_axis_tlast, rx_axis_tuser;
  logic tx_ovfout, tx_unfout, ctl_rx_enable, ctl_tx_enable, ctl_tx_send_rfi;
  logic stat_rx_status, stat_rx_aligned, stat_rx_local_fault, stat_rx_remote_fault;
  logic [63:0] phy_status, phy_control;

  cmac_adapter #(.WIDTH(WIDTH)) adapter (
      .clk, .rst,
      .s_axis_tdata(mac_tx_tdata), .s_axis_tkeep(mac_tx_tkeep), .s_axis_tvalid(mac_tx_tvalid),
      .s_axis_tready(mac_tx_tready), .s_axis_tlast(mac_tx_tlast),
      .m_axis_tdata(mac_rx_tdata), .m_axis_tkeep(mac_rx_tkeep), .m_axis_tvalid(mac_rx_tvalid),
      .m_axis_tlast(mac_rx_tlast), .m_axis_tuser(mac_rx_tuser), .phy_status,
      .tx_axis_tdata, .tx_axis_tkeep, .tx_axis_tvalid, .tx_axis_tready, .tx_axis_tlast, .tx_axis_tuser,
      .tx_ovfout, .tx_unfout,
      .rx_axis_tdata, .rx_axis_tkeep, .rx_axis_tvalid(rx_axis_tvalid && !rx_reset), .rx_axis_tlast, .rx_axis_tuser,
      .ctl_rx_enable, .ctl_tx_enable, .ctl_tx_send_rfi,
      .stat_rx_status, .stat_rx_aligned, .stat_rx_local_fault, .stat_rx_remote_fault
  );

  cmac_usplus_0 mac (
      .gt_rxp_in(qsfp_rxp), .gt_rxn_in(qsfp_rxn), .gt_txp_out(qsfp_txp), .gt_txn_out(qsfp_txn),
      .gt_ref_clk_p(qsfp_refclk_p), .gt_ref_clk_n(qsfp_refclk_n), .init_clk(axi_clk), .sys_reset(!axi_rstn),
      .gt_loopback_in({4{1'b0, phy_control[2], 1'b0}}), .gt_txusrclk2(clk), .usr_tx_reset(rst), .usr_rx_reset(rx_reset),
      .rx_clk(clk), .core_rx_reset(1'b0), .core_tx_reset(1'b0),
      .gtwiz_reset_tx_datapath(1'b0), .gtwiz_reset_rx_datapath(phy_control[0]),
      .ctl_rx_enable, .ctl_rx_force_resync(1'b0), .ctl_rx_test_pattern(1'b0),
      .ctl_tx_enable, .ctl_tx_send_idle(1'b0), .ctl_tx_send_lfi(1'b0), .ctl_tx_send_rfi, .ctl_tx_test_pattern(1'b0),
      .ctl_tx_rsfec_enable(!phy_control[1]), .ctl_rx_rsfec_enable(!phy_control[1]),
      .ctl_rsfec_ieee_error_indication_mode(1'b0), .ctl_rx_rsfec_enable_correction(!phy_control[1]),
      .ctl_rx_rsfec_enable_indication(!phy_control[1]), .tx_preamblein(56'd0),
      .tx_axis_tdata, .tx_axis_tkeep, .tx_axis_tvalid, .tx_axis_tlast, .tx_axis_tuser, .tx_axis_tready, .tx_ovfout, .tx_unfout,
      .rx_axis_tdata, .rx_axis_tkeep, .rx_axis_tvalid, .rx_axis_tlast, .rx_axis_tuser,
      .stat_rx_status, .stat_rx_aligned, .stat_rx_local_fault, .stat_rx_remote_fault,
      .core_drp_reset(1'b0), .drp_clk(1'b0), .drp_en(1'b0), .drp_we(1'b0), .drp_addr(10'd0), .drp_di(16'd0)
  );

  // ---- core and application -------------------------------------------------------------------------------------------

  core_with_traffic #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ), .QUANTA_256(QUANTA_256)) ryle (
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
