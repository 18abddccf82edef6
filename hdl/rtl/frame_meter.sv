// SPDX-License-Identifier: BSD-3-Clause
// Counts what passes on a stream: after each frame, one cycle of `frame` with its length.
//
// Contract: looks only. `frame` follows the last beat by two cycles. Frames of 64 KiB or more are not measured rightly.
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

  logic beat, last;
  logic [15:0] kept, total;  // bytes of the beat; of the frame before it

  always_ff @(posedge clk) begin
    beat <= tvalid && tready && !rst;
    last <= tlast;
    kept <= '0;
    for (int i = 0; i < KEEP; i++) if (tkeep[i]) kept <= 16'(i + 1);
    frame <= beat && last && !rst;
    bytes <= total + kept;
    if (beat) total <= last ? 16'd0 : total + kept;
    if (rst) total <= 16'd0;
  end

endmodule

`default_nettype wire
