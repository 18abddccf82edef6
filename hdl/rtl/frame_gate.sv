// SPDX-License-Identifier: BSD-3-Clause
// Lets frames through, or not: closes and opens between frames alone.
//
// Contract: while `open` is low no frame begins. A frame that has begun (its first beat was offered) goes through to its end; with
// THROW_AWAY (its first beat was taken) the rest of it is taken and goes nowhere, so that nobody need be ready behind the gate, which
// must be reset before the gate opens. Other frames wait. So tvalid never falls before tready and no frame's end is joined to
// another's beginning, on either side that is not reset.
// `closed` (a flip-flop): no frame is under way, and none begins until `open` has risen again.
// Handshakes alone pass here; data, tkeep, tlast and sideband go beside. Latency: 0 cycles.
`default_nettype none

module frame_gate #(
    parameter bit THROW_AWAY = 0
) (
    input  wire  clk,
    input  wire  rst,
    input  wire  open,
    output logic closed,
    input  wire  s_axis_tvalid,
    output logic s_axis_tready,
    input  wire  s_axis_tlast,
    output logic m_axis_tvalid,
    input  wire  m_axis_tready
);

  logic under_way;  // a frame has begun at the input, and its last beat has not been taken

  wire passes = open || (under_way && !THROW_AWAY);

  assign m_axis_tvalid = s_axis_tvalid && passes;
  assign s_axis_tready = passes ? m_axis_tready : under_way && THROW_AWAY;

  wire taken = s_axis_tvalid && s_axis_tready;
  wire begun = THROW_AWAY ? taken : m_axis_tvalid;
  wire stays = begun ? !(taken && s_axis_tlast) : under_way;

  always_ff @(posedge clk) begin
    under_way <= stays && !rst;
    closed    <= !open && (!stays || rst);
  end

endmodule

`default_nettype wire
