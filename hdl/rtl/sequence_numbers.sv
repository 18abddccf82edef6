// SPDX-License-Identifier: BSD-3-Clause
// The streams' 64-bit sequence numbers, of which one goes up in every clock, and the same one again in the next.
//
// How: what goes round in one clock is an addition of 16 bits. The carry out of it is kept beside the number and reaches the
// upper 48 bits with the next addition; what leaves has it added.
//
// Contract: `number` is what the number of `stream` was one clock before, where `advance` let it through. `turn` adds `step` to that
// number, and says that `stream` will be what `following` is now; `load` says so without adding. `write` stores `value` for the stream
// `select` while nothing turns; `held` is that stream's number. Throughput: a number a clock.
// Latency: 1 clock to `number`, 2 to `held`.
`default_nettype none

module sequence_numbers #(
  parameter int STREAM_BITS = 4
) (
  input  wire logic                   clk,
  input  wire logic                   rst,
  input  wire logic [STREAM_BITS-1:0] select,
  input  wire logic                   write,
  input  wire logic [63:0]            value,
  output logic [63:0]                 held,
  input  wire logic                   advance,
  input  wire logic                   load,
  input  wire logic                   turn,
  input  wire logic [15:0]            step,
  input  wire logic [STREAM_BITS-1:0] stream,
  input  wire logic [STREAM_BITS-1:0] following,
  output logic [63:0]                 number
);
  localparam int STREAMS = 1 << STREAM_BITS;

  typedef struct packed {
    logic [47:0] high;
    logic        carry;  // into high
    logic [15:0] low;
  } split_t;

  // A bit turns over if all below it are ones: no chain of carries.
  function automatic logic [47:0] carried(input split_t x);
    for (int i = 0; i < 48; i++) carried[i] = x.high[i] ^ (x.carry && &(x.high | ~((48'd1 << i) - 48'd1)));
  endfunction

  split_t numbers[STREAMS];
  split_t now, gone_up, selected;
  logic [16:0] low_sum;
  assign low_sum = {1'b0, now.low} + {1'b0, step};
  assign gone_up = '{high: carried(now), carry: low_sum[16], low: low_sum[15:0]};

  always_ff @(posedge clk) begin
    if (turn || load) now <= turn && following == stream ? gone_up : numbers[following];
    if (advance) number <= {carried(now), now.low};
    selected <= numbers[select];
    held <= {carried(selected), selected.low};
    if (write) numbers[select] <= '{high: value[63:16], carry: 1'b0, low: value[15:0]};
    else if (turn) numbers[stream] <= gone_up;
    if (rst) for (int s = 0; s < STREAMS; s++) numbers[s] <= '0;
  end
endmodule

`default_nettype wire
