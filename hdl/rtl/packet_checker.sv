// SPDX-License-Identifier: BSD-3-Clause
// Checks packets of packet_generator's counter format, to the last byte, and counts what it finds.
//
// A stream is known by the low STREAM_BITS bits of the destination port. Its first packet says where its sequence begins;
// after that a higher number than expected means that the ones between were lost, a lower one that the packet is late or
// a duplicate. Payload bytes are compared with the ramp that the packet's own number says. While `enable` is low, packets
// are taken and thrown away.
//
// Contract: `length` (of the payload, from the core) is compared with the bytes that come; counters never go back but by
// `clear`. Throughput: a beat a clock. Latency: 6 clocks to the counters, 9 to
// `lost`.
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

  // Whether a < b, and whether they are equal: a tree of three branches, each step of which is one LUT for either answer.
  function automatic logic [1:0] compare(input logic [63:0] a, input logic [63:0] b);
    logic [65:0] less, same;
    less = {2'b00, ~a & b};
    same = {2'b11, ~(a ^ b)};
    for (int n = 66; n > 1; n = (n + 2) / 3)
      for (int i = 0; 3 * i < n; i++) begin
        logic [2:0] l, s;
        for (int j = 0; j < 3; j++) begin
          l[j] = 3 * i + j < n ? less[3*i+j] : 1'b0;
          s[j] = 3 * i + j < n ? same[3*i+j] : 1'b1;
        end
        less[i] = l[2] | s[2] & l[1] | s[2] & s[1] & l[0];
        same[i] = &s;
      end
    compare = {less[0], same[0]};
  endfunction

  // ------------------------------------------------------------------------ 1: a beat, its number and its packet's number
  logic             take, amid;
  logic [63:0]      sequence_1;
  logic [7:0]       ramp_1;       // what lane 0 should be
  logic             valid_1, first_1, last_1;
  logic [3:0]       carry_1;      // into each 16 bits of the next number
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
        carry_1 <= {&s_axis_tdata[63:16], &s_axis_tdata[63:32], &s_axis_tdata[63:48], 1'b1};
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
  logic [$clog2(KEEP):0] count_1;
  keep_count #(.KEEP(KEEP)) counted_1 (.keep(keep_1), .count(count_1));
  logic                   valid_2, first_2, last_2, whole_2, known_2, late_now, same_now;
  logic [15:0]            count_2, length_2;
  logic [63:0]            sequence_2, following_2, expected_2;
  logic [STREAM_BITS-1:0] stream_2;
  logic [63:0]            expected[STREAMS];
  logic [STREAMS-1:0]     known;
  // What a stream expects is read a clock early: it comes from the packet before, if that was the same stream's and ends now. A
  // late packet does not put the expectation back.
  logic                   ends, again;
  assign ends = valid_2 && last_2 && whole_2;
  assign again = ends && stream_2 == stream_1;
  always_ff @(posedge clk) begin
    valid_2 <= valid_1;
    if (valid_1) begin
      first_2 <= first_1;
      last_2 <= last_1;
      differs_2 <= differs;
      count_2 <= 16'(count_1);
      length_2 <= length_1;
      sequence_2 <= sequence_1;
      for (int q = 0; q < 4; q++) following_2[16*q+:16] <= sequence_1[16*q+:16] + 16'(carry_1[q]);
      stream_2 <= stream_1;
      if (first_1) whole_2 <= keep_1[7];
      expected_2 <= again && !(known_2 && late_now) ? following_2 : expected[stream_1];
      known_2 <= again || known[stream_1];
    end
    if (ends && !(known_2 && late_now)) begin
      expected[stream_2] <= following_2;
      known[stream_2] <= 1'b1;
    end
    if (clear || rst) {known, known_2} <= '0;
    if (rst) valid_2 <= 1'b0;
  end

  // ------------------------------------------------------------- 3: the packet as a whole, and what its stream expected
  logic               wrong_so_far, wrong_3, whole_3, done_3, known_3, late_3, same_3;
  logic [15:0]        counted, total, total_3, length_3;
  logic [63:0]        sequence_3, following_3, expected_3;
  assign total = (first_2 ? 16'd0 : counted) + count_2;
  assign {late_now, same_now} = compare(sequence_2, expected_2);
  always_ff @(posedge clk) begin
    done_3 <= valid_2 && last_2;
    if (valid_2) begin
      counted <= total;
      wrong_so_far <= (!first_2 && wrong_so_far) || (|differs_2);
      wrong_3 <= (!first_2 && wrong_so_far) || (|differs_2);
      total_3 <= total;
      whole_3 <= whole_2;
      length_3 <= length_2;
      sequence_3 <= sequence_2;
      following_3 <= following_2;
      expected_3 <= expected_2;
      known_3 <= known_2;
      late_3 <= known_2 && late_now;
      same_3 <= same_now;
    end
    if (rst) done_3 <= 1'b0;
  end

  // -------------------------------------------------------- 4: what is to be counted. 4 to 8: lost ones, 16 bits a clock
  logic        short_now, numbered, done_4, wrong_4, short_4, late_4;
  logic [15:0] total_4;
  logic [7:4]  gap;
  assign short_now = !whole_3 || total_3 != length_3;
  assign numbered = done_3 && known_3 && !(short_now && total_3 < 16'd8);
  always_ff @(posedge clk) begin
    done_4 <= done_3;
    wrong_4 <= done_3 && wrong_3;
    short_4 <= done_3 && short_now;
    late_4 <= numbered && late_3;
    total_4 <= done_3 ? total_3 : 16'd0;
    gap <= {gap[6:4], numbered && !late_3 && !same_3};
    if (done_3) next <= late_3 ? expected_3 : following_3;
    if (clear || rst) begin
      {done_4, wrong_4, short_4, late_4, gap} <= '0;
      total_4 <= '0;
      next <= '0;
    end
  end

  // The number less what was expected is added to the sum of those before; each quarter follows the one below it.
  logic [3:0][63:0] number, due;  // without the quarters below
  logic [4:0]       whole, carry; // differences so far did not borrow; sums so far carry
  assign whole[0] = 1'b1;
  assign carry[0] = 1'b0;
  assign number[0] = sequence_3;
  assign due[0] = expected_3;
  generate
    for (i = 0; i < 4; i = i + 1) begin : g_quarter
      logic [15:0] less, sum;
      wire  [17:0] difference = {1'b0, number[i][15:0], 1'b1} + {1'b0, ~due[i][15:0], whole[i]};  // lowest bit: adds whole
      wire  [17:0] next_sum = {1'b0, sum, 1'b1} + {1'b0, gap[4+i] ? less : 16'd0, carry[i]};
      always_ff @(posedge clk) begin
        {whole[i+1], less} <= difference[17:1];
        {carry[i+1], sum} <= next_sum[17:1];
        if (clear || rst) {carry[i+1], sum} <= '0;
      end
      if (i < 3) begin : g_next
        always_ff @(posedge clk) begin
          number[i+1] <= number[i] >> 16;
          due[i+1] <= due[i] >> 16;
        end
      end
      delay_line #(.BITS(16), .CYCLES(4 - i)) wait_upper (.clk, .d(sum), .q(lost[16*i+:16]));
    end
  endgenerate

  // ---------------------------------------------------------------------------------------------------------- counters
  event_counter #(.BITS(1)) count_packets (.clk, .rst, .clear, .add(done_4), .total(packets));
  event_counter count_bytes (.clk, .rst, .clear, .add(total_4), .total(bytes));
  event_counter #(.BITS(1)) count_late (.clk, .rst, .clear, .add(late_4), .total(late));
  event_counter #(.BITS(1)) count_wrong (.clk, .rst, .clear, .add(wrong_4), .total(wrong));
  event_counter #(.BITS(1)) count_short (.clk, .rst, .clear, .add(short_4), .total(short));
endmodule

`default_nettype wire
