// SPDX-License-Identifier: BSD-3-Clause
// One reset for the core's clock and N application clocks, so that FIFOs between them are reset on both sides at once.
//
// Contract: `rst` rises the cycle after `request`; after `gentle`, when the gates of all streams have closed: `open` and
// app_open[i] fall, and `closed` and app_closed[i] answer, each in its clock (frame_gate). `rst` stays until both requests have
// fallen and every application's side has been in reset for four of its cycles. Then app_rst[i] falls within three cycles of
// its clock, and the gates open when all have. One cycle of a request is enough, also while the last one still ends. All clocks must
// run (tie the clock of an application that is not used to `clk`).
// Latency: 1 cycle from `request` to `rst`. From configuration on all is in reset until a `request` has come and gone.
`default_nettype none

module reset_domains #(
    parameter int N = 1
) (
    input  wire         clk,
    input  wire         request,
    input  wire         gentle,
    output logic        rst = 1'b1,
    output logic        open = 1'b0,
    input  wire         closed,
    input  wire [N-1:0] app_clk,
    output logic [N-1:0] app_rst,
    output logic [N-1:0] app_open,
    input  wire [N-1:0] app_closed
);

  // LEAVE: sides must be seen to leave a reset before they enter the next. RUN, likewise: gates must be seen open before they close.
  localparam logic [1:0] RESET = 2'd0, LEAVE = 2'd1, RUN = 2'd2, CLOSE = 2'd3;

  logic [1:0] state = RESET;
  logic pending = 1'b1, gentle_pending = 1'b0;  // requests that have not been carried out on all sides
  logic drive = 1'b0;                         // what the sides follow
  logic [N-1:0] in_reset, in_reset_seen, closed_seen;

  wire now    = request || pending;
  wire soon   = gentle || gentle_pending;
  wire done   = state == RESET && drive && !request && !gentle && (&in_reset_seen);
  wire opened = !closed && !(|closed_seen);

  always_ff @(posedge clk) begin
    case (state)
      RESET: if (done) state <= LEAVE;
      LEAVE: if (!(|in_reset_seen)) state <= now || soon ? RESET : RUN;
      RUN:   state <= now ? RESET : soon && opened ? CLOSE : RUN;
      CLOSE: if (now || (closed && (&closed_seen))) state <= RESET;
    endcase
    pending      <= now && !done;
    gentle_pending <= soon && !done;
    drive        <= state == RESET && !done;
    open         <= state == RUN && !now;
    rst          <= !done && (now || state == RESET);
  end

  genvar i;
  generate
    for (i = 0; i < N; i = i + 1) begin : g_app
      logic [3:0] since = 4'd0;
      cdc_bit there (.clk(app_clk[i]), .d(drive), .q(app_rst[i]));
      always_ff @(posedge app_clk[i]) since <= {since[2:0], 1'b1} & {4{app_rst[i]}};
      assign in_reset[i] = since[3];
      cdc_bit back (.clk, .d(in_reset[i]), .q(in_reset_seen[i]));
      cdc_bit open_there (.clk(app_clk[i]), .d(open), .q(app_open[i]));
      cdc_bit closed_back (.clk, .d(app_closed[i]), .q(closed_seen[i]));
    end
  endgenerate

endmodule

`default_nettype wire
