// SPDX-License-Identifier: BSD-3-Clause
// Cuts both combinational paths (forward and ready) of a stream; the second register takes the beat in flight.
//
// Contract: beats leave in order, none lost or doubled; `m_data` is stable while `m_valid` waits. Latency: 1 cycle;
// throughput one beat a cycle; all outputs come from flip-flops.
`default_nettype none

module skid_buffer #(
    parameter int BITS = 32
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

  logic [BITS-1:0] spare;
  logic spare_valid;

  assign s_ready = !spare_valid;

  always_ff @(posedge clk) begin
    if (!m_valid || m_ready) begin
      m_data  <= spare_valid ? spare : s_data;
      m_valid <= spare_valid || s_valid;
      spare_valid <= 1'b0;
    end else if (s_valid && s_ready) begin
      spare <= s_data;
      spare_valid <= 1'b1;
    end
    if (rst) begin
      m_valid <= 1'b0;
      spare_valid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
