// SPDX-License-Identifier: BSD-3-Clause
// Counts to 2^64 at full clock rate: the carry into the upper half takes a cycle of its own.
//
// Contract: `total` is the sum of `add` since reset or `clear`. Latency: 2 cycles; both halves are of the same moment.
`default_nettype none

module event_counter #(
    parameter int BITS = 16  // of `add`
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             clear,
    input  wire  [BITS-1:0] add,
    output logic [63:0]     total
);

  logic [31:0] low, low_then, high, add_high;
  logic        carry;
  wire  [32:0] high_sum = {high, 1'b1} + {add_high, carry};  // one adder: its lowest bit makes the carry

  assign total = {high, low_then};

  always_ff @(posedge clk) begin
    {carry, low} <= {1'b0, low} + 33'(32'(add));
    add_high     <= 32'(64'(add) >> 32);
    low_then     <= low;
    high         <= high_sum[32:1];
    if (rst || clear) begin
      {carry, low} <= 33'd0;
      add_high     <= 32'd0;
      low_then     <= 32'd0;
      high         <= 32'd0;
    end
  end

endmodule

`default_nettype wire
