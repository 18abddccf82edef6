// SPDX-License-Identifier: BSD-3-Clause
// A small first-word-fall-through FIFO of words, in distributed memory.
//
// Contract: words leave in order, none lost or doubled. Latency one cycle, throughput one word a cycle.
`default_nettype none

module stream_fifo #(
    parameter int BITS  = 32,
    parameter int DEPTH = 16   // a power of two
) (
    input  wire             clk,
    input  wire             rst,
    input  wire  [BITS-1:0] s_data,
    input  wire             s_valid,
    output logic            s_ready,
    output logic [BITS-1:0] m_data,
    output logic            m_valid,
    input  wire             m_ready
);

  localparam int AB = $clog2(DEPTH);

  logic [BITS-1:0] memory[0:DEPTH-1];
  logic [AB:0] write_at, read_at;

  assign s_ready = (write_at - read_at) != (AB + 1)'(DEPTH);
  assign m_valid = write_at != read_at;
  assign m_data  = memory[read_at[AB-1:0]];

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) memory[write_at[AB-1:0]] <= s_data;
    if (s_valid && s_ready) write_at <= write_at + 1'b1;
    if (m_valid && m_ready) read_at <= read_at + 1'b1;
    if (rst) begin
      write_at <= '0;
      read_at  <= '0;
    end
  end

endmodule

`default_nettype wire
