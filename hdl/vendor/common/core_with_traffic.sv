// SPDX-License-Identifier: BSD-3-Clause
// The core with packet generator and checker as its application, in one clock: what the example tops have behind their MACs.
//
// Contract: that of ethernet_core's ports of the same names.
`default_nettype none

module core_with_traffic #(
    parameter int WIDTH      = 1024,
    parameter int CLOCK_HZ   = 390_625_000,
    parameter int QUANTA_256 = WIDTH / 2
) (
    input  wire                clk,
    input  wire                rst,
    output logic [WIDTH-1:0]   mac_tx_tdata,
    output logic [WIDTH/8-1:0] mac_tx_tkeep,
    output logic               mac_tx_tvalid,
    input  wire                mac_tx_tready,
    output logic               mac_tx_tlast,
    input  wire  [WIDTH-1:0]   mac_rx_tdata,
    input  wire  [WIDTH/8-1:0] mac_rx_tkeep,
    input  wire                mac_rx_tvalid,
    input  wire                mac_rx_tlast,
    input  wire                mac_rx_tuser,
    input  wire  [63:0]        phy_status,
    output logic [63:0]        phy_control,
    output logic               running,        // the generator sends
    input  wire                s_axi_aclk,
    input  wire                s_axi_aresetn,
    input  wire  [15:0]        s_axi_awaddr,
    input  wire                s_axi_awvalid,
    output logic               s_axi_awready,
    input  wire  [31:0]        s_axi_wdata,
    input  wire  [3:0]         s_axi_wstrb,
    input  wire                s_axi_wvalid,
    output logic               s_axi_wready,
    output logic [1:0]         s_axi_bresp,
    output logic               s_axi_bvalid,
    input  wire                s_axi_bready,
    input  wire  [15:0]        s_axi_araddr,
    input  wire                s_axi_arvalid,
    output logic               s_axi_arready,
    output logic [31:0]        s_axi_rdata,
    output logic [1:0]         s_axi_rresp,
    output logic               s_axi_rvalid,
    input  wire                s_axi_rready
);

  logic [WIDTH-1:0] app_tx_tdata, app_rx_tdata;
  logic [WIDTH/8-1:0] app_tx_tkeep, app_rx_tkeep;
  logic app_tx_tvalid, app_tx_tready, app_tx_tlast, app_tx_tuser, app_rx_tvalid, app_rx_tready, app_rx_tlast, app_rst;
  logic [31:0] app_tx_dst_ip;
  logic [15:0] app_tx_dst_port, app_tx_src_port, app_rx_dst_port, app_rx_length;
  logic ext_wr, ext_rd, ext_ack;
  logic [11:0] ext_addr;
  logic [31:0] ext_wdata, ext_rdata;

  ethernet_core #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ), .QUANTA_256(QUANTA_256)) core (
      .clk, .rst,
      .app_tx_clk(clk), .app_tx_rst(app_rst),
      .s_axis_tdata(app_tx_tdata), .s_axis_tkeep(app_tx_tkeep), .s_axis_tvalid(app_tx_tvalid),
      .s_axis_tready(app_tx_tready), .s_axis_tlast(app_tx_tlast), .s_axis_tuser(app_tx_tuser),
      .s_axis_dst_ip(app_tx_dst_ip), .s_axis_dst_port(app_tx_dst_port), .s_axis_src_port(app_tx_src_port),
      .app_rx_clk(clk), .app_rx_rst(),
      .m_axis_tdata(app_rx_tdata), .m_axis_tkeep(app_rx_tkeep), .m_axis_tvalid(app_rx_tvalid),
      .m_axis_tready(app_rx_tready), .m_axis_tlast(app_rx_tlast), .m_axis_length(app_rx_length),
      .m_axis_src_ip(), .m_axis_src_port(), .m_axis_dst_ip(), .m_axis_dst_port(app_rx_dst_port),
      .mac_tx_axis_tdata(mac_tx_tdata), .mac_tx_axis_tkeep(mac_tx_tkeep), .mac_tx_axis_tvalid(mac_tx_tvalid),
      .mac_tx_axis_tready(mac_tx_tready), .mac_tx_axis_tlast(mac_tx_tlast),
      .mac_rx_axis_tdata(mac_rx_tdata), .mac_rx_axis_tkeep(mac_rx_tkeep), .mac_rx_axis_tvalid(mac_rx_tvalid),
      .mac_rx_axis_tlast(mac_rx_tlast), .mac_rx_axis_tuser(mac_rx_tuser),
      .phy_status, .phy_control,
      .s_axi_aclk, .s_axi_aresetn, .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb,
      .s_axi_wvalid, .s_axi_wready, .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid,
      .s_axi_arready, .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready,
      .ext_wr, .ext_rd, .ext_addr, .ext_wdata, .ext_rdata, .ext_ack
  );

  traffic #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ)) application (
      .clk, .rst, .running, .ext_wr, .ext_rd, .ext_addr, .ext_wdata, .ext_rdata, .ext_ack,
      .m_axis_tdata(app_tx_tdata), .m_axis_tkeep(app_tx_tkeep), .m_axis_tvalid(app_tx_tvalid),
      .m_axis_tready(app_tx_tready && !app_rst), .m_axis_tlast(app_tx_tlast), .m_axis_tuser(app_tx_tuser),
      .m_axis_dst_ip(app_tx_dst_ip), .m_axis_dst_port(app_tx_dst_port), .m_axis_src_port(app_tx_src_port),
      .s_axis_tdata(app_rx_tdata), .s_axis_tkeep(app_rx_tkeep), .s_axis_tvalid(app_rx_tvalid),
      .s_axis_tready(app_rx_tready), .s_axis_tlast(app_rx_tlast), .s_axis_dst_port(app_rx_dst_port),
      .s_axis_length(app_rx_length)
  );

endmodule

`default_nettype wire
