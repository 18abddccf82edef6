// SPDX-License-Identifier: BSD-3-Clause
// ethernet_core with one transmit application, whose sidebands travel in tuser as other people's drivers have it:
//   s_axis_tuser  {destination IP, destination port, source port, bad}
//   m_axis_tuser  {length, source IP, source port, destination IP, destination port}
`default_nettype none

module outside_core #(
    parameter int WIDTH = 64
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                app_clk,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    input  wire  [64:0]        s_axis_tuser,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [111:0]       m_axis_tuser,
    output logic [WIDTH-1:0]   mac_tx_axis_tdata,
    output logic [WIDTH/8-1:0] mac_tx_axis_tkeep,
    output logic               mac_tx_axis_tvalid,
    input  wire                mac_tx_axis_tready,
    output logic               mac_tx_axis_tlast,
    output logic [0:0]         mac_tx_axis_tuser,
    input  wire  [WIDTH-1:0]   mac_rx_axis_tdata,
    input  wire  [WIDTH/8-1:0] mac_rx_axis_tkeep,
    input  wire                mac_rx_axis_tvalid,
    input  wire                mac_rx_axis_tlast,
    input  wire  [0:0]         mac_rx_axis_tuser,
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

  logic        app_tx_rst, app_rx_rst, ext_wr, ext_rd;
  logic [11:0] ext_addr;
  logic [31:0] ext_wdata;
  logic [63:0] phy_control;

  assign mac_tx_axis_tuser = 1'b0;

  ethernet_core #(.WIDTH(WIDTH), .TX_APPS(1), .CLOCK_HZ(100000)) core (
      .app_tx_clk(app_clk), .app_rx_clk(app_clk),
      .s_axis_tuser(s_axis_tuser[0]), .s_axis_src_port(s_axis_tuser[16:1]), .s_axis_dst_port(s_axis_tuser[32:17]),
      .s_axis_dst_ip(s_axis_tuser[64:33]),
      .m_axis_dst_port(m_axis_tuser[15:0]), .m_axis_dst_ip(m_axis_tuser[47:16]), .m_axis_src_port(m_axis_tuser[63:48]),
      .m_axis_src_ip(m_axis_tuser[95:64]), .m_axis_length(m_axis_tuser[111:96]),
      .mac_rx_axis_tuser(mac_rx_axis_tuser[0]), .phy_status(64'd1), .ext_rdata(32'd0), .ext_ack(1'b0), .*
  );

endmodule

`default_nettype wire
