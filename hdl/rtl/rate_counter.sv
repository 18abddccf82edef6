// SPDX-License-Identifier: BSD-3-Clause
// What was counted in the last whole second.
//
// Contract: `tick` is high for one cycle a second; `rate` is the sum of `add` in the cycles from one tick up to the one before
// the next; it stays for a second. Latency: 2 cycles from the tick. 0 until a whole second has passed since reset or `clear`.
`default_nettype none

module rate_counter (
    input  wire         clk,
    input  wire         rst,
    input  wire         clear,
    input  wire         tick,
    input  wire  [15:0] add,
    output logic [39:0] rate  // 400 Gb/s are 5e10 bytes a second: 36 bits
);

  // In two halves, a cycle after each other: a carry of 40 bits is too long.
  logic [19:0] low, low_then, high;
  logic        carry, tick_then;
  logic        whole;  // the present second began with a tick

  always_ff @(posedge clk) begin
    {carry, low} <= {1'b0, tick ? 20'd0 : low} + {5'd0, add};
    low_then     <= low;
    tick_then    <= tick;
    high         <= (tick_then ? 20'd0 : high) + {19'd0, carry};
    if (tick_then) begin
      rate  <= whole ? {high, low_then} : 40'd0;
      whole <= 1'b1;
    end
    if (rst || clear) begin
      {carry, low} <= 21'd0;
      tick_then    <= 1'b0;
      high         <= 20'd0;
      rate         <= 40'd0;
      whole        <= 1'b0;
    end
  end

endmodule

`default_nettype wire
