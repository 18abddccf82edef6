// SPDX-License-Identifier: BSD-3-Clause
// One frame made of header fields alone: a vector of bytes becomes beats.
//
// Contract: `fields` (in the order of the wire, byte n at bits 8*(BYTES-1-n)) is taken with `start` while `ready`, and leaves as one
// frame of BYTES bytes. Throughput: one frame in ceil(BYTES / (WIDTH/8)) + 1 cycles. Latency: 1 cycle.
`default_nettype none

module field_frame #(
    parameter int WIDTH = 1024,
    parameter int BYTES = 42
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                start,
    input  wire  [BYTES*8-1:0] fields,
    output logic               ready,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  localparam int KEEP  = WIDTH / 8;
  localparam int BEATS = (BYTES + KEEP - 1) / KEEP;
  localparam int TAIL  = BYTES - (BEATS - 1) * KEEP;  // bytes of the last beat

  logic       busy;  // a frame is in `frame`
  logic [2:0] beat;
  logic [BEATS*WIDTH-1:0] frame;

  assign ready = !busy;

  always_ff @(posedge clk) begin
    if (start && ready) begin
      busy  <= 1'b1;
      beat  <= 3'd0;
      frame <= '0;
      for (int n = 0; n < BYTES; n++) frame[8*n+:8] <= fields[8*(BYTES-1-n)+:8];
    end else if (busy && m_axis_tready) begin
      frame <= frame >> WIDTH;
      beat  <= beat + 1'b1;
      busy  <= !m_axis_tlast;
    end
    if (rst) busy <= 1'b0;
  end

  assign m_axis_tvalid = busy;
  assign m_axis_tdata  = frame[WIDTH-1:0];
  assign m_axis_tlast  = beat == 3'(BEATS - 1);
  assign m_axis_tkeep  = m_axis_tlast ? {KEEP{1'b1}} >> (KEEP - TAIL) : {KEEP{1'b1}};

endmodule

`default_nettype wire
