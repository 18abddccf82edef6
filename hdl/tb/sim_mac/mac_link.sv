// SPDX-License-Identifier: BSD-3-Clause
// Bench: sim_mac and, at the other end of its line, mac_model. `cut`: no words arrive; `flip`: a bit of those that do is
// wrong; `cut_far`: no words arrive at the other end.
`default_nettype none

module mac_link #(
    parameter int MAC   = 1,
    parameter int WIDTH = 512
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                cut,
    input  wire                cut_far,
    input  wire                flip,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    output logic               m_axis_tlast,
    output logic               m_axis_tuser,
    output logic [63:0]        phy_status,
    output logic               wrong,
    output logic               underflow,
    input  wire  [WIDTH-1:0]   far_tx_tdata,
    input  wire  [WIDTH/8-1:0] far_tx_tkeep,
    input  wire                far_tx_tvalid,
    output logic               far_tx_tready,
    input  wire                far_tx_tlast,
    output logic [WIDTH-1:0]   far_rx_tdata,
    output logic [WIDTH/8-1:0] far_rx_tkeep,
    output logic               far_rx_tvalid,
    output logic               far_rx_tlast,
    output logic               far_rx_tuser,
    output logic               far_remote_fault
);

  logic [WIDTH-1:0] out_data, back_data;
  logic [WIDTH/8-1:0] out_ctrl, back_ctrl;
  logic out_valid, back_valid;

  sim_mac #(.MAC(MAC), .WIDTH(WIDTH), .FATAL(0)) mac (
      .clk, .rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser, .phy_status, .wrong, .underflow,
      .wire_tx_data(out_data), .wire_tx_ctrl(out_ctrl), .wire_tx_valid(out_valid),
      .wire_rx_data(back_data ^ WIDTH'(flip)), .wire_rx_ctrl(back_ctrl), .wire_rx_valid(back_valid && !cut)
  );

  localparam bit SLOW = MAC == 1;
  mac_model #(.WIDTH(WIDTH), .RATE_NUM(SLOW ? 20 : 1), .RATE_DEN(SLOW ? 33 : 1), .FATAL_UNDERFLOW(0)) far (
      .clk, .rst, .pause(1'b0),
      .s_axis_tdata(far_tx_tdata), .s_axis_tkeep(far_tx_tkeep), .s_axis_tvalid(far_tx_tvalid),
      .s_axis_tready(far_tx_tready), .s_axis_tlast(far_tx_tlast),
      .m_axis_tdata(far_rx_tdata), .m_axis_tkeep(far_rx_tkeep), .m_axis_tvalid(far_rx_tvalid),
      .m_axis_tlast(far_rx_tlast), .m_axis_tuser(far_rx_tuser),
      .wire_tx_data(back_data), .wire_tx_ctrl(back_ctrl), .wire_tx_valid(back_valid),
      .wire_rx_data(out_data), .wire_rx_ctrl(out_ctrl), .wire_rx_valid(out_valid && !cut_far),
      .link_up(), .local_fault(), .remote_fault(far_remote_fault), .bad_fcs(), .overrun(), .underflow()
  );

endmodule

`default_nettype wire
