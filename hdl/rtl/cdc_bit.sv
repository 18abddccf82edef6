// SPDX-License-Identifier: BSD-3-Clause
// A level from any clock to `clk` through STAGES (2 or more) flip-flops.
//
// Contract: `q` follows `d`; a `d` shorter than a period of `clk` may be missed. Latency: 2 to 3 edges of `clk`; more with STAGES.
// `d` must come straight from a flip-flop. Bits that belong together must not cross in two of these: use cdc_bus.
// Constraints: hdl/constraints/cdc_bit.xdc.
// Simulation with CDC_SKEW defined, in ps: a change of `d` less than this before an edge is taken by it or not, as it falls,
// each bit for itself, and the first flip-flop decides once more half a period later. CDC_SKEW is at most the period that `d`
// is of: gray-coded bits then are never two steps apart.
`default_nettype none

module cdc_bit #(
    parameter int STAGES = 2
) (
    input  wire  clk,
    input  wire  d,
    output logic q
);

  (* ASYNC_REG = "TRUE" *) logic [STAGES-1:0] stage = '0;

`ifdef CDC_SKEW
  // verilator lint_off BLKSEQ
  realtime changed = -1.0e9;
  logic    was;        // `d` before it changed last
  logic    undecided;  // the last edge came too soon after that

  always @(edge d) begin
    changed = $realtime;
    was     = !d;
  end
  always @(edge clk)
    if (clk) begin
      undecided = $realtime - changed < 0.001 * `CDC_SKEW;
      stage    <= {stage[STAGES-2:0], undecided && $urandom_range(1) == 1 ? was : d};
    end else if (undecided) stage[0] <= $urandom_range(1) == 1;
  // verilator lint_on BLKSEQ
`else
  always_ff @(posedge clk) stage <= {stage[STAGES-2:0], d};
`endif

  assign q = stage[STAGES-1];

endmodule

`default_nettype wire
