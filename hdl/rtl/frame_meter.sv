// SPDX-License-Identifier: BSD-3-Clause
// Counts what passes on a stream: after each frame, one cycle of `frame` with its length.
//
// Contract: looks only. Latency: 2 cycles from the last beat to `frame`. Frames of 64 KiB or more are not measured rightly.
`default_nettype none

module frame_meter #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [WIDTH/8-1:0] tkeep,
    input  wire                tvalid,
    input  wire                tready,
    input  wire                tlast,
    output logic               frame,
    output logic [15:0]        bytes
);

  localparam int KEEP = WIDTH / 8;
  localparam int KB   = $clog2(KEEP);

  logic [KB:0] kept_now, kept;
  keep_count #(.KEEP(KEEP)) counted (.keep(tkeep), .count(kept_now));

  logic beat, last;
  logic [15-KB:0] earlier;  // full beats of the frame before this one

  always_ff @(posedge clk) begin
    beat  <= tvalid && tready && !rst;
    last  <= tlast;
    kept  <= kept_now;
    frame <= beat && last && !rst;
    bytes <= {earlier + (16 - KB)'(kept[KB]), kept[KB-1:0]};
    if (beat) earlier <= last ? '0 : earlier + 1'b1;
    if (rst) earlier <= '0;
  end

endmodule

`default_nettype wire
