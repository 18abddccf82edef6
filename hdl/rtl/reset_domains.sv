// SPDX-License-Identifier: BSD-3-Clause
// One reset for the core's clock and N application clocks, so that FIFOs between them are reset on both sides at once.
//
// Contract: `rst` rises the cycle after `request` (both of `clk`), and stays until `request` has fallen and every application's side
// has been in reset for four of its cycles. Then app_rst[i] falls within three cycles of its clock. All clocks must run (tie
// the clock of an application that is not used to `clk`). A request that comes while the last one still ends is kept.
`default_nettype none

module reset_domains #(
    parameter int N = 1
) (
    input  wire         clk,
    input  wire         request,
    output logic        rst,
    input  wire [N-1:0] app_clk,
    output logic [N-1:0] app_rst
);

  logic [N-1:0] in_reset, in_reset_seen;
  logic pending;    // a request that has not been carried out on all sides
  logic releasing;  // the last one is over here, but not yet everywhere: sides must be seen to leave before they enter again
  logic drive;      // what the sides follow
  wire finished = drive && !request && (&in_reset_seen);

  always_ff @(posedge clk) begin
    drive     <= pending && !releasing && !finished;
    pending   <= request || (pending && !finished);
    rst       <= request || (pending && !finished);
    releasing <= finished || (releasing && (|in_reset_seen));
  end

  genvar i;
  generate
    for (i = 0; i < N; i = i + 1) begin : g_app
      logic [3:0] since;
      cdc_bit there (.clk(app_clk[i]), .d(drive), .q(app_rst[i]));
      always_ff @(posedge app_clk[i]) since <= {since[2:0], 1'b1} & {4{app_rst[i]}};
      assign in_reset[i] = since[3];
      cdc_bit back (.clk, .d(in_reset[i]), .q(in_reset_seen[i]));
    end
  endgenerate

endmodule

`default_nettype wire
