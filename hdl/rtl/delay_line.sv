// SPDX-License-Identifier: BSD-3-Clause
// BITS bits, later. Latency: CYCLES cycles. Without reset, so that synthesis can use shift-register memory.
`default_nettype none

module delay_line #(
    parameter int BITS   = 1,
    parameter int CYCLES = 1  // 1 or more
) (
    input  wire             clk,
    input  wire  [BITS-1:0] d,
    output logic [BITS-1:0] q
);

  logic [BITS-1:0] stage[0:CYCLES-1];

  always_ff @(posedge clk) begin
    stage[0] <= d;
    for (int i = 1; i < CYCLES; i++) stage[i] <= stage[i-1];
  end

  assign q = stage[CYCLES-1];

endmodule

`default_nettype wire
