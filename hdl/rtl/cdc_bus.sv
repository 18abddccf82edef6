// SPDX-License-Identifier: BSD-3-Clause
// A word of BITS bits from `src_clk` to `dst_clk` by handshake: data is held while a flag crosses and comes back.
//
// Contract: a word taken (src_valid and src_ready) appears whole on `dst_data` with one cycle of `dst_valid`, and stays
// there until the next. Throughput: one word in about three periods of each clock. Both resets must overlap.
// Latency: 1 cycle of src_clk and 3 to 4 of dst_clk.
`default_nettype none

module cdc_bus #(
    parameter int BITS = 32
) (
    input  wire             src_clk,
    input  wire             src_rst,
    input  wire  [BITS-1:0] src_data,
    input  wire             src_valid,
    output logic            src_ready,
    input  wire             dst_clk,
    input  wire             dst_rst,
    output logic [BITS-1:0] dst_data,
    output logic            dst_valid
);

  logic [BITS-1:0] held;
  logic request, request_dst, acknowledge, acknowledge_src;

  assign src_ready = (request == acknowledge_src) && !src_rst;

  always_ff @(posedge src_clk) begin
    if (src_rst) request <= 1'b0;
    else if (src_valid && src_ready) request <= !request;
    if (src_valid && src_ready) held <= src_data;  // stable while the destination looks at it
  end

  cdc_bit to_dst (.clk(dst_clk), .d(request), .q(request_dst));
  cdc_bit to_src (.clk(src_clk), .d(acknowledge), .q(acknowledge_src));

  always_ff @(posedge dst_clk)
    if (dst_rst) begin
      acknowledge <= 1'b0;
      dst_valid   <= 1'b0;
      dst_data    <= '0;
    end else begin
      acknowledge <= request_dst;
      dst_valid   <= request_dst != acknowledge;
      if (request_dst != acknowledge) dst_data <= held;
    end

endmodule

`default_nettype wire
