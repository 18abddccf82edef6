// SPDX-License-Identifier: BSD-3-Clause
// One-cycle pulses from `src_clk` to `dst_clk`: each flips a level, which crosses in two flip-flops.
//
// Contract: one pulse in gives exactly one pulse out if pulses are at least three periods of the slower clock apart.
// Closer ones may be lost; streams of events must be counted on their own side, and the count brought over (cdc_bus).
// Latency: 1 cycle of src_clk and 3 to 4 of dst_clk.
`default_nettype none

module cdc_pulse (
    input  wire  src_clk,
    input  wire  src_rst,
    input  wire  src_pulse,
    input  wire  dst_clk,
    input  wire  dst_rst,
    output logic dst_pulse
);

  logic level, level_dst, level_was;

  always_ff @(posedge src_clk)
    if (src_rst) level <= 1'b0;
    else if (src_pulse) level <= !level;

  cdc_bit sync (.clk(dst_clk), .d(level), .q(level_dst));

  always_ff @(posedge dst_clk)
    if (dst_rst) begin
      level_was <= level_dst;  // a reset of either side makes no pulse while the other is in reset too
      dst_pulse <= 1'b0;
    end else begin
      level_was <= level_dst;
      dst_pulse <= level_dst != level_was;
    end

endmodule

`default_nettype wire
