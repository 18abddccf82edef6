// SPDX-License-Identifier: BSD-3-Clause
// Events from `src_clk` to `dst_clk`, however close together: a gray-coded count crosses, and the far side replays it.
//
// Contract: every cycle with src_event gives exactly one cycle with dst_event, so counters on the far side are exact, as
// long as fewer than 2^BITS events wait (they wait only while events come faster than `dst_clk` ticks). Both resets must
// overlap. Latency: 1 cycle of src_clk and 2 to 3 of dst_clk.
`default_nettype none

module cdc_events #(
    parameter int BITS = 8
) (
    input  wire  src_clk,
    input  wire  src_rst,
    input  wire  src_event,
    input  wire  dst_clk,
    input  wire  dst_rst,
    output logic dst_event
);

  logic [BITS-1:0] count, count_next, gray, gray_dst, arrived, replayed;

  assign count_next = count + {{BITS - 1{1'b0}}, src_event};

  always_ff @(posedge src_clk) begin
    count <= count_next;
    gray  <= count_next ^ (count_next >> 1);
    if (src_rst) begin
      count <= '0;
      gray  <= '0;
    end
  end

  genvar i;
  generate
    for (i = 0; i < BITS; i = i + 1) begin : g_bit
      cdc_bit sync (.clk(dst_clk), .d(gray[i]), .q(gray_dst[i]));
    end
  endgenerate

  always_comb for (int b = 0; b < BITS; b++) arrived[b] = ^(gray_dst >> b);

  assign dst_event = (replayed != arrived) && !dst_rst;

  always_ff @(posedge dst_clk)
    if (dst_rst) replayed <= '0;
    else if (dst_event) replayed <= replayed + 1'b1;

`ifdef VERILATOR
  // A binary count would pass most benches: what is seen for a cycle while its bits change is seldom looked at twice.
  logic [BITS-1:0] gray_was;
  logic rst_was, begun = 1'b0;  // begun: there has been a reset
  always_ff @(posedge src_clk) begin
    gray_was <= gray;
    rst_was  <= src_rst;
    begun    <= begun || src_rst;
    if (begun && !src_rst && !rst_was) assert ($onehot0(gray ^ gray_was)) else $error("cdc_events: more than one bit changes");
  end
`endif

endmodule

`default_nettype wire
