// SPDX-License-Identifier: BSD-3-Clause
// Counts to 2^64 at full clock rate: the carry into the upper half takes a cycle of its own.
//
// Contract: `total` is the sum of `add` since reset or `clear`, two cycles late; both halves are of the same moment.
`default_nettype none

module event_counter (
    input  wire         clk,
    input  wire         rst,
    input  wire         clear,
    input  wire  [15:0] add,
    output logic [63:0] total
);

  logic [31:0] low, low_then, high;
  logic        carry;

  assign total = {high, low_then};

  always_ff @(posedge clk) begin
    {carry, low} <= {1'b0, low} + {17'd0, add};
    low_then     <= low;
    high         <= high + {31'd0, carry};
    if (rst || clear) begin
      {carry, low} <= 33'd0;
      low_then     <= 32'd0;
      high         <= 32'd0;
    end
  end

endmodule

`default_nettype wire
