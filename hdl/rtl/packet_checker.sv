// SPDX-License-Identifier: BSD-3-Clause
// Checks packets of packet_generator's counter format, to the last byte, and counts what it finds.
//
// A stream is known by the low STREAM_BITS bits of the destination port. Its first packet says where its sequence begins;
// after that a higher number than expected means that the ones between were lost, a lower one that the packet is late or
// a duplicate. Payload bytes are compared with the ramp that the packet's own number says. While `enable` is low, packets
// are taken and thrown away.
//
// Contract: `length` (of the payload, from the core) is compared with the bytes that come; counters are exact one clock
// after each other and never go back but by `clear`. Throughput: a beat a clock. Latency: 4 clocks to the counters.
`default_nettype none

module packet_checker #(
  parameter int WIDTH = 1024,
  parameter int STREAM_BITS = 4,
  localparam int KEEP = WIDTH / 8
) (
  input  wire logic             clk,
  input  wire logic             rst,
  input  wire logic             enable,
  input  wire logic             clear,      // counters to 0, all streams begin anew
  input  wire logic [7:0]       throttle,   // not ready in so many of 256 clocks
  input  wire logic [WIDTH-1:0] s_axis_tdata,
  input  wire logic [KEEP-1:0]  s_axis_tkeep,
  input  wire logic             s_axis_tvalid,
  output logic                  s_axis_tready,
  input  wire logic             s_axis_tlast,
  input  wire logic [15:0]      s_axis_dst_port,
  input  wire logic [15:0]      s_axis_length,
  output logic [63:0]           packets,
  output logic [63:0]           bytes,
  output logic [63:0]           lost,
  output logic [63:0]           late,
  output logic [63:0]           wrong,      // packets with a wrong byte
  output logic [63:0]           short,      // packets without a whole number, or with another length than `length`
  output logic [63:0]           next        // sequence number that the last packet's stream expects
);
  localparam int STREAMS = 1 << STREAM_BITS;

  // Ready by chance, from a maximal-length shift register (x^16 + x^14 + x^13 + x^11 + 1).
  logic [15:0] chance;
  always_ff @(posedge clk) begin
    chance <= {chance[14:0], chance[15] ^ chance[13] ^ chance[12] ^ chance[10]};
    s_axis_tready <= chance[7:0] >= throttle;
    if (rst) begin
      chance <= 16'h1;
      s_axis_tready <= 1'b0;
    end
  end

  function automatic logic [63:0] swap8(input logic [63:0] x);
    swap8 = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40], x[55:48], x[63:56]};
  endfunction

  // ------------------------------------------------------------------------ 1: a beat, its number and its packet's number
  logic             take, amid;
  logic [63:0]      sequence_1;
  logic [7:0]       ramp_1;       // what lane 0 should be
  logic             valid_1, first_1, last_1;
  logic [WIDTH-1:0] data_1;
  logic [KEEP-1:0]  keep_1;
  logic [STREAM_BITS-1:0] stream_1;
  logic [15:0]      length_1;
  assign take = s_axis_tvalid && s_axis_tready && enable;
  always_ff @(posedge clk) begin
    valid_1 <= take;
    if (take) begin
      amid <= !s_axis_tlast;
      first_1 <= !amid;
      last_1 <= s_axis_tlast;
      data_1 <= s_axis_tdata;
      keep_1 <= s_axis_tkeep;
      if (!amid) begin
        stream_1 <= s_axis_dst_port[STREAM_BITS-1:0];
        length_1 <= s_axis_length;
        sequence_1 <= swap8(s_axis_tdata[63:0]);
        ramp_1 <= s_axis_tdata[63:56] - 8'd8;
      end else begin
        ramp_1 <= ramp_1 + 8'(KEEP);
      end
    end
    if (rst) begin
      valid_1 <= 1'b0;
      amid <= 1'b0;
    end
  end

  // ------------------------------------------------------------------------------ 2: which lanes are wrong; bytes so far
  logic [KEEP-1:0] differs, differs_2;
  genvar i;
  generate
    for (i = 0; i < KEEP; i = i + 1) begin : g_lane
      assign differs[i] = keep_1[i] && data_1[8*i+:8] != 8'(ramp_1 + 8'(i)) && !(first_1 && i < 8);
    end
  endgenerate
  logic [$clog2(KEEP+1)-1:0] count_1;
  always_comb begin
    count_1 = '0;
    for (int b = 0; b < KEEP; b++) count_1 = count_1 + $bits(count_1)'(keep_1[b]);
  end
  logic                   valid_2, first_2, last_2, whole_2;
  logic [15:0]            count_2, length_2;
  logic [63:0]            sequence_2;
  logic [STREAM_BITS-1:0] stream_2;
  always_ff @(posedge clk) begin
    valid_2 <= valid_1;
    if (valid_1) begin
      first_2 <= first_1;
      last_2 <= last_1;
      differs_2 <= differs;
      count_2 <= 16'(count_1);
      length_2 <= length_1;
      sequence_2 <= sequence_1;
      stream_2 <= stream_1;
      if (first_1) whole_2 <= keep_1[7];
    end
    if (rst) valid_2 <= 1'b0;
  end

  // ------------------------------------------------------------- 3: the packet as a whole, and what its stream expected
  logic [63:0]        expected[STREAMS];
  logic [STREAMS-1:0] known;
  logic               wrong_so_far, wrong_3, short_3, done_3, known_3;
  logic [15:0]        counted, total, total_3;
  logic [63:0]        sequence_3, expected_3;
  assign total = (first_2 ? 16'd0 : counted) + count_2;
  always_ff @(posedge clk) begin
    done_3 <= valid_2 && last_2;
    if (valid_2) begin
      counted <= total;
      wrong_so_far <= (!first_2 && wrong_so_far) || (|differs_2);
      wrong_3 <= (!first_2 && wrong_so_far) || (|differs_2);
      total_3 <= total;
      short_3 <= !whole_2 || total != length_2;
      sequence_3 <= sequence_2;
      expected_3 <= expected[stream_2];
      known_3 <= known[stream_2];
      // A late packet does not put the expectation back.
      if (last_2 && whole_2 && !(known[stream_2] && sequence_2 < expected[stream_2])) begin
        expected[stream_2] <= sequence_2 + 64'd1;
        known[stream_2] <= 1'b1;
      end
    end
    if (clear || rst) known <= '0;
    if (rst) done_3 <= 1'b0;
  end

  // ---------------------------------------------------------------------------------------------------------- 4: counters
  logic numbered;
  assign numbered = done_3 && known_3 && !(short_3 && total_3 < 16'd8);
  always_ff @(posedge clk) begin
    if (done_3) begin
      packets <= packets + 64'd1;
      bytes <= bytes + 64'(total_3);
      if (wrong_3) wrong <= wrong + 64'd1;
      if (short_3) short <= short + 64'd1;
      next <= known_3 && sequence_3 < expected_3 ? expected_3 : sequence_3 + 64'd1;
    end
    if (numbered && sequence_3 > expected_3) lost <= lost + (sequence_3 - expected_3);
    if (numbered && sequence_3 < expected_3) late <= late + 64'd1;
    if (clear || rst) begin
      packets <= '0;
      bytes <= '0;
      lost <= '0;
      late <= '0;
      wrong <= '0;
      short <= '0;
      next <= '0;
    end
  end
endmodule

`default_nettype wire
