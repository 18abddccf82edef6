// SPDX-License-Identifier: BSD-3-Clause
// A simulated FPGA: the core with packet generator and checker behind it, its MAC, and the MAC of whom it is connected to.
//
// The far end's frames come and go on far_rx (what arrived over the wire, FCS checked and removed) and far_tx. `loopback`
// connects the core's wire to itself instead; far_rx still sees all that is sent. MAC: as of sim_mac; 1 takes 512 bits, 2 takes
// 1024. One clock for MAC, generator and checker; registers have their own.
`default_nettype none

module ethernet_core_sim #(
  parameter int WIDTH = 1024,
  parameter int CLOCK_HZ = 250_000,
  parameter int MAC = 0
) (
  input  wire logic               clk,
  input  wire logic               rst,
  input  wire logic               loopback,
  // The far end.
  input  wire logic [WIDTH-1:0]   far_tx_tdata,
  input  wire logic [WIDTH/8-1:0] far_tx_tkeep,
  input  wire logic               far_tx_tvalid,
  output logic                    far_tx_tready,
  input  wire logic               far_tx_tlast,
  output logic [WIDTH-1:0]        far_rx_tdata,
  output logic [WIDTH/8-1:0]      far_rx_tkeep,
  output logic                    far_rx_tvalid,
  output logic                    far_rx_tlast,
  output logic                    far_rx_tuser,
  output logic                    underflow,     // the core let a frame run dry
  output logic                    generating,    // time must go on
  // Registers.
  input  wire logic               s_axi_aclk,
  input  wire logic               s_axi_aresetn,
  input  wire logic [15:0]        s_axi_awaddr,
  input  wire logic               s_axi_awvalid,
  output logic                    s_axi_awready,
  input  wire logic [31:0]        s_axi_wdata,
  input  wire logic [3:0]         s_axi_wstrb,
  input  wire logic               s_axi_wvalid,
  output logic                    s_axi_wready,
  output logic [1:0]              s_axi_bresp,
  output logic                    s_axi_bvalid,
  input  wire logic               s_axi_bready,
  input  wire logic [15:0]        s_axi_araddr,
  input  wire logic               s_axi_arvalid,
  output logic                    s_axi_arready,
  output logic [31:0]             s_axi_rdata,
  output logic [1:0]              s_axi_rresp,
  output logic                    s_axi_rvalid,
  input  wire logic               s_axi_rready
);
  logic [WIDTH-1:0]   mac_tx_tdata, mac_rx_tdata, wire_out, wire_in, wire_far;
  logic [WIDTH/8-1:0] mac_tx_tkeep, mac_rx_tkeep, ctrl_out, ctrl_in, ctrl_far;
  logic               mac_tx_tvalid, mac_tx_tready, mac_tx_tlast;
  logic               mac_rx_tvalid, mac_rx_tlast, mac_rx_tuser;
  logic               valid_out, valid_in, valid_far;
  logic               running;
  logic [63:0]        phy_status;

  localparam bit SLOW = MAC == 1;  // the line of a CMAC, in words of its clock
  core_with_traffic #(
    .WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ), .QUANTA_256(SLOW ? 155 : WIDTH / 2)
  ) ryle (
    .clk, .rst, .running,
    .mac_tx_tdata, .mac_tx_tkeep, .mac_tx_tvalid, .mac_tx_tready, .mac_tx_tlast,
    .mac_rx_tdata, .mac_rx_tkeep, .mac_rx_tvalid, .mac_rx_tlast, .mac_rx_tuser, .phy_status, .phy_control(),
    .s_axi_aclk, .s_axi_aresetn, .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb,
    .s_axi_wvalid, .s_axi_wready, .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid,
    .s_axi_arready, .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready
  );

  sim_mac #(.MAC(MAC), .WIDTH(WIDTH)) mac (
    .clk, .rst,
    .s_axis_tdata(mac_tx_tdata), .s_axis_tkeep(mac_tx_tkeep), .s_axis_tvalid(mac_tx_tvalid),
    .s_axis_tready(mac_tx_tready), .s_axis_tlast(mac_tx_tlast),
    .m_axis_tdata(mac_rx_tdata), .m_axis_tkeep(mac_rx_tkeep), .m_axis_tvalid(mac_rx_tvalid),
    .m_axis_tlast(mac_rx_tlast), .m_axis_tuser(mac_rx_tuser),
    .wire_tx_data(wire_out), .wire_tx_ctrl(ctrl_out), .wire_tx_valid(valid_out),
    .wire_rx_data(wire_in), .wire_rx_ctrl(ctrl_in), .wire_rx_valid(valid_in),
    .phy_status, .wrong(), .underflow
  );

  mac_model #(.WIDTH(WIDTH), .RATE_NUM(SLOW ? 20 : 1), .RATE_DEN(SLOW ? 33 : 1)) far (
    .clk, .rst, .pause(1'b0),
    .s_axis_tdata(far_tx_tdata), .s_axis_tkeep(far_tx_tkeep), .s_axis_tvalid(far_tx_tvalid),
    .s_axis_tready(far_tx_tready), .s_axis_tlast(far_tx_tlast),
    .m_axis_tdata(far_rx_tdata), .m_axis_tkeep(far_rx_tkeep), .m_axis_tvalid(far_rx_tvalid),
    .m_axis_tlast(far_rx_tlast), .m_axis_tuser(far_rx_tuser),
    .wire_tx_data(wire_far), .wire_tx_ctrl(ctrl_far), .wire_tx_valid(valid_far),
    .wire_rx_data(wire_out), .wire_rx_ctrl(ctrl_out), .wire_rx_valid(valid_out),
    .link_up(), .local_fault(), .remote_fault(), .bad_fcs(), .overrun(), .underflow()
  );

  assign generating = running || ryle.core.reports_due;
  assign wire_in = loopback ? wire_out : wire_far;
  assign ctrl_in = loopback ? ctrl_out : ctrl_far;
  assign valid_in = loopback ? valid_out : valid_far;
endmodule

`default_nettype wire
