// SPDX-License-Identifier: BSD-3-Clause
// Pads frames to 60 bytes, for a MAC that does not: with its FCS a frame then has Ethernet's least, 64 bytes.
//
// Contract: beats of frames as in hdl/README.md; a frame of fewer than 60 bytes gets zeros behind its last byte, whatever lay
// there. Other frames pass unchanged. WIDTH is 512 or more, so that such a frame is one beat. No register: Latency: 0 cycles.
`default_nettype none

module frame_pad #(
    parameter int WIDTH = 512
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  localparam int LEAST = 60;

  if (WIDTH < 512) begin : g_check
    $error("frame_pad: a frame of fewer than 60 bytes must be one beat, so WIDTH is 512 or more");
  end

  logic first;  // the next beat begins a frame
  wire alone = first && s_axis_tlast;

  always_ff @(posedge clk) begin
    if (rst) first <= 1'b1;
    else if (s_axis_tvalid && s_axis_tready) first <= s_axis_tlast;
  end

  always_comb begin
    m_axis_tdata = s_axis_tdata;
    m_axis_tkeep = s_axis_tkeep;
    for (int i = 0; i < LEAST; i++) begin
      if (alone) m_axis_tkeep[i] = 1'b1;
      if (alone && !s_axis_tkeep[i]) m_axis_tdata[8*i+:8] = 8'd0;
    end
  end
  assign m_axis_tvalid = s_axis_tvalid;
  assign m_axis_tlast  = s_axis_tlast;
  assign s_axis_tready = m_axis_tready;

endmodule

`default_nettype wire
