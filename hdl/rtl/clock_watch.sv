// SPDX-License-Identifier: BSD-3-Clause
// Says in `clk` whether `watched` stands.
//
// Contract: `stopped` rises CYCLES of `clk` after the last sign of life, which comes every 64 cycles of `watched`; it falls with the
// next. `watched` counts as running down to 64/CYCLES of the rate of `clk` and up to 128 times its rate.
// Latency: 3 to 4 cycles of `clk`.
`default_nettype none

module clock_watch #(
    parameter int CYCLES = 4096
) (
    input  wire  watched,
    input  wire  clk,
    output logic stopped = 1'b0
);

  logic [6:0] count = '0;
  logic sign, was = 1'b0;
  logic [31:0] since = 32'd0;  // cycles since the last sign

  always_ff @(posedge watched) count <= count + 1'b1;

  cdc_bit sync (.clk, .d(count[6]), .q(sign));

  always_ff @(posedge clk) begin
    was <= sign;
    if (sign != was) begin
      since   <= 32'd0;
      stopped <= 1'b0;
    end else if (since == 32'(CYCLES - 1)) stopped <= 1'b1;
    else since <= since + 1'b1;
  end

endmodule

`default_nettype wire
