// SPDX-License-Identifier: BSD-3-Clause
// Ones' complement sum (RFC 1071) of the bytes of a frame, a beat a cycle.
//
// Contract: byte n of a beat counts if keep[n] is set, any pattern; even bytes are the high halves of 16-bit words. LATENCY
// enabled cycles after the beat with `last`, `sum_valid` is high for one enabled cycle and `sum` is the folded sum (not
// complemented) of the frame's bytes. Frames up to 64 KiB; beats of successive frames may follow each other without a gap.
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

  localparam int LATENCY = 4;
  localparam int GROUPS = WIDTH / 64;  // of four words

  // 1: four words at a time.
  logic [GROUPS*18-1:0] group, group_next;
  logic [LATENCY-1:0] valid_at, last_at;
  always_comb begin
    group_next = '0;
    for (int g = 0; g < GROUPS; g++)
      for (int w = 0; w < 4; w++)
        group_next[g*18+:18] = group_next[g*18+:18] + {
            2'b00,
            keep[g*8+w*2] ? data[(g*8+w*2)*8+:8] : 8'd0,
            keep[g*8+w*2+1] ? data[(g*8+w*2+1)*8+:8] : 8'd0
        };
  end

  // 2: the beat.
  logic [21:0] beat, beat_next;  // 64 words of 16 bits at most
  always_comb begin
    beat_next = '0;
    for (int g = 0; g < GROUPS; g++) beat_next = beat_next + {4'd0, group[g*18+:18]};
  end

  // 3: the frame so far. 4: fold.
  logic [31:0] total;
  logic first;  // the next beat begins a frame

  always_ff @(posedge clk) begin
    if (enable) begin
      valid_at <= {valid_at[LATENCY-2:0], valid};
      last_at  <= {last_at[LATENCY-2:0], last};
      group    <= group_next;
      beat     <= beat_next;
      if (valid_at[1]) begin
        total <= (first ? 32'd0 : total) + {10'd0, beat};
        first <= last_at[1];
      end
      sum <= eth_pkg::ones_fold(total);
    end
    if (rst) begin
      valid_at <= '0;
      first <= 1'b1;
    end
  end

  assign sum_valid = valid_at[LATENCY-1] && last_at[LATENCY-1];

endmodule

`default_nettype wire
