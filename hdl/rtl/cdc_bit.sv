// SPDX-License-Identifier: BSD-3-Clause
// A level from any clock to `clk` through STAGES (2 or more) flip-flops.
//
// Contract: `q` follows `d` after STAGES to STAGES+1 edges of `clk`; a `d` shorter than a period of `clk` may be missed.
// `d` must come straight from a flip-flop. Bits that belong together must not cross in two of these: use cdc_bus.
`default_nettype none

module cdc_bit #(
    parameter int STAGES = 2
) (
    input  wire  clk,
    input  wire  d,
    output logic q
);

  (* ASYNC_REG = "TRUE" *) logic [STAGES-1:0] stage;

  always_ff @(posedge clk) stage <= {stage[STAGES-2:0], d};

  assign q = stage[STAGES-1];

endmodule

`default_nettype wire
