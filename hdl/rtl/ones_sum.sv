// SPDX-License-Identifier: BSD-3-Clause
// Ones' complement sum (RFC 1071) of the bytes of a frame, a beat a cycle.
//
// Contract: byte n of a beat counts if keep[n] is set, any pattern; even bytes are the high halves of 16-bit words. LATENCY
// enabled cycles after the beat with `last`, `sum_valid` is high for one enabled cycle and `sum` is the folded sum (not
// complemented) of the frame's bytes. Frames up to 64 KiB; beats of successive frames may follow each other without a gap.
// Latency: 5 enabled cycles from the last beat.
// `enable` low freezes everything, so a stream delayed by LATENCY stages under the same enable stays in step with it.
`default_nettype none

module ones_sum #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                enable,
    input  wire  [WIDTH-1:0]   data,
    input  wire  [WIDTH/8-1:0] keep,
    input  wire                valid,
    input  wire                last,
    output logic [15:0]        sum,
    output logic               sum_valid
);

  localparam int LATENCY = 5;

  // Rows of words that are left behind so many layers of ones_layer.
  localparam int WORDS = WIDTH / 16;
  localparam int ROWS_1 = eth_pkg::ones_rows(WORDS);
  localparam int ROWS_2 = eth_pkg::ones_rows(ROWS_1);
  localparam int ROWS_3 = eth_pkg::ones_rows(ROWS_2);
  localparam int ROWS_4 = eth_pkg::ones_rows(ROWS_3);
  localparam int ROWS_5 = eth_pkg::ones_rows(ROWS_4);  // 3 at 1024 bits, never more

  logic [LATENCY-1:0] valid_at, last_at;

  // 1: the words that count, through two layers.
  logic [WORDS*16-1:0] words;
  logic [ROWS_1*16-1:0] rows_1;
  logic [ROWS_2*16-1:0] rows_2, group;
  always_comb
    for (int w = 0; w < WORDS; w++)
      words[w*16+:16] = {keep[w*2] ? data[w*16+:8] : 8'd0, keep[w*2+1] ? data[w*16+8+:8] : 8'd0};
  ones_layer #(.ROWS(WORDS)) layer_1 (.rows(words), .left(rows_1));
  ones_layer #(.ROWS(ROWS_1)) layer_2 (.rows(rows_1), .left(rows_2));

  // 2: the beat, in three rows.
  logic [ROWS_3*16-1:0] rows_3;
  logic [ROWS_4*16-1:0] rows_4;
  logic [ROWS_5*16-1:0] rows_5;
  logic [47:0] beat;
  ones_layer #(.ROWS(ROWS_2)) layer_3 (.rows(group), .left(rows_3));
  ones_layer #(.ROWS(ROWS_3)) layer_4 (.rows(rows_3), .left(rows_4));
  ones_layer #(.ROWS(ROWS_4)) layer_5 (.rows(rows_4), .left(rows_5));

  // 3: the frame so far, in two. 4: their sum. 5: its carry.
  logic [47:0] more;
  logic [31:0] total, total_next;
  logic [16:0] added;
  logic first;  // the next beat begins a frame
  ones_layer #(.ROWS(5)) layer_6 (.rows({first ? 32'd0 : total, beat}), .left(more));
  ones_layer #(.ROWS(3)) layer_7 (.rows(more), .left(total_next));

  always_ff @(posedge clk) begin
    if (enable) begin
      valid_at <= {valid_at[LATENCY-2:0], valid};
      last_at  <= {last_at[LATENCY-2:0], last};
      group    <= rows_2;
      beat     <= 48'(rows_5);
      if (valid_at[1]) begin
        total <= total_next;
        first <= last_at[1];
      end
      added <= {1'b0, total[15:0]} + {1'b0, total[31:16]};
      sum   <= added[15:0] + {15'd0, added[16]};
    end
    if (rst) begin
      valid_at <= '0;
      first <= 1'b1;
    end
  end

  assign sum_valid = valid_at[LATENCY-1] && last_at[LATENCY-1];

endmodule

`default_nettype wire
