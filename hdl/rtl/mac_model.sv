// SPDX-License-Identifier: BSD-3-Clause
// Behavioural MAC and PHY: both directions and the status that the core's registers show. See mac_model_tx, mac_model_rx.
`default_nettype none

module mac_model #(
    parameter int WIDTH           = 1024,
    parameter int RATE_NUM        = 1,
    parameter int RATE_DEN        = 1,
    parameter bit FATAL_UNDERFLOW = 1
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                pause,
    // From and to the core.
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
    // The line.
    output logic [WIDTH-1:0]   wire_tx_data,
    output logic [WIDTH/8-1:0] wire_tx_ctrl,
    output logic               wire_tx_valid,
    input  wire  [WIDTH-1:0]   wire_rx_data,
    input  wire  [WIDTH/8-1:0] wire_rx_ctrl,
    input  wire                wire_rx_valid,
    // Status.
    output logic               link_up,
    output logic               local_fault,
    output logic               remote_fault,
    output logic               bad_fcs,
    output logic               overrun,
    output logic               underflow
);

  assign link_up = !local_fault && !remote_fault;

  mac_model_tx #(.WIDTH(WIDTH), .RATE_NUM(RATE_NUM), .RATE_DEN(RATE_DEN), .FATAL_UNDERFLOW(FATAL_UNDERFLOW)) tx (
      .clk, .rst, .pause, .local_fault, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
      .wire_data(wire_tx_data), .wire_ctrl(wire_tx_ctrl), .wire_valid(wire_tx_valid), .underflow
  );

  mac_model_rx #(.WIDTH(WIDTH)) rx (
      .clk, .rst, .wire_data(wire_rx_data), .wire_ctrl(wire_rx_ctrl), .wire_valid(wire_rx_valid),
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser,
      .bad_fcs, .overrun, .local_fault, .remote_fault
  );

endmodule

`default_nettype wire
