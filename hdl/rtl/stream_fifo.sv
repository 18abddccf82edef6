// SPDX-License-Identifier: BSD-3-Clause
// A small first-word-fall-through FIFO of words, in distributed memory.
//
// Contract: words leave in order, none lost or doubled; `s_ready` comes from a flip-flop. Latency: 1 cycle; throughput one word a cycle.
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

  wire push = s_valid && s_ready;
  wire [AB:0] write_next = write_at + (AB + 1)'(push);

  assign m_valid = write_at != read_at;
  assign m_data  = memory[read_at[AB-1:0]];

  always_ff @(posedge clk) begin
    if (push) memory[write_at[AB-1:0]] <= s_data;
    write_at <= write_next;
    s_ready  <= (write_next ^ read_at) != (AB + 1)'(DEPTH);  // a word that leaves now makes room a cycle later
    if (m_valid && m_ready) read_at <= read_at + 1'b1;
    if (rst) begin
      write_at <= '0;
      read_at  <= '0;
      s_ready  <= 1'b0;
    end
  end

endmodule

`default_nettype wire
