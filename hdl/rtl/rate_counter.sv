// SPDX-License-Identifier: BSD-3-Clause
// What was counted in the last whole second.
//
// Contract: `tick` is high for one cycle a second; `rate` is the sum of `add` in the cycles from one tick up to the one before
// the next, and stays for a second. 0 until a whole second has passed since reset or `clear`.
`default_nettype none

module rate_counter (
    input  wire         clk,
    input  wire         rst,
    input  wire         clear,
    input  wire         tick,
    input  wire  [15:0] add,
    output logic [39:0] rate  // 400 Gb/s are 5e10 bytes a second: 36 bits
);

  logic [39:0] sum;
  logic        whole;  // the present second began with a tick

  always_ff @(posedge clk) begin
    sum <= (tick ? 40'd0 : sum) + {24'd0, add};
    if (tick) begin
      rate  <= whole ? sum : 40'd0;
      whole <= 1'b1;
    end
    if (rst || clear) begin
      sum   <= 40'd0;
      rate  <= 40'd0;
      whole <= 1'b0;
    end
  end

endmodule

`default_nettype wire
