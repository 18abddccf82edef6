// SPDX-License-Identifier: BSD-3-Clause
// Makes packets at a set rate: counted ones, or the heaps of digitizers.
//
// Streams take turns packet by packet. Each has its own destination, and a 64-bit sequence number that sequence_numbers keeps.
// Payloads, all numbers big-endian, `length` bytes in all:
//     counter    8 bytes sequence number; then byte i of the rest is (sequence number + i) mod 256; goes up by 1
//     digitizer  72 bytes of SPEAD header (one packet a heap: timestamp = sequence number, digitiser_id = stream_id);
//                then 8-bit samples (sample_pattern) timestamp - delay, timestamp - delay + 1, ...; goes up by their number
// `beats` of every `period` clocks may enter the pipeline: a rate limit that does not make up for back-pressure.
//
// Contract: starts when `enable` rises, with stream 0; stops between packets when it falls, or after `limit` packets of
// every stream if that is not 0. Configuration stands still while `running`, which is until the last beat is taken. A beat that is
// offered waits unchanged. Throughput: a beat a clock, also between packets. Latency: 14 clocks.
`default_nettype none

module packet_generator #(
  parameter int WIDTH = 1024,
  parameter int STREAM_BITS = 4,
  localparam int KEEP = WIDTH / 8
) (
  input  wire logic                   clk,
  input  wire logic                   rst,
  // Configuration.
  input  wire logic                   enable,
  output logic                        running,
  input  wire logic                   digitizer,     // format: 0 counter, 1 digitizer
  input  wire logic                   shared,        // all streams use stream 0's sequence number
  input  wire logic [7:0]             streams,       // 1 to 2^STREAM_BITS
  input  wire logic [15:0]            length,
  input  wire logic [15:0]            source_port,
  input  wire logic [31:0]            beats,
  input  wire logic [31:0]            period,
  input  wire logic [31:0]            limit,
  input  wire logic [7:0]             tone_step,
  input  wire logic [3:0]             tone_shift,
  input  wire logic [3:0]             noise_shift,
  input  wire logic [31:0]            seed,
  output logic [63:0]                 sent,          // packets since enable rose
  // The table of streams: the entry of `stream` is there in the same clock.
  output logic [STREAM_BITS-1:0]      stream,
  input  wire logic [31:0]            stream_ip,
  input  wire logic [15:0]            stream_port,
  input  wire logic [15:0]            stream_id,
  input  wire logic [31:0]            stream_delay,
  // Sequence numbers, as sequence_numbers has them.
  output logic                        advance,
  output logic                        load,
  output logic                        turn,
  output logic [15:0]                 step,
  output logic [STREAM_BITS-1:0]      number_of,
  output logic [STREAM_BITS-1:0]      number_after,
  input  wire logic [63:0]            number,
  // Packets.
  output logic [WIDTH-1:0]            m_axis_tdata,
  output logic [KEEP-1:0]             m_axis_tkeep,
  output logic                        m_axis_tvalid,
  input  wire logic                   m_axis_tready,
  output logic                        m_axis_tlast,
  output logic [0:0]                  m_axis_tuser,
  output logic [31:0]                 m_axis_dst_ip,
  output logic [15:0]                 m_axis_dst_port,
  output logic [15:0]                 m_axis_src_port
);
  localparam int LANE_BITS = $clog2(KEEP);
  localparam int SPEAD = 72;
  localparam int HEADER_BEATS = (SPEAD + KEEP - 1) / KEEP;
  localparam int PATTERN = 9;           // latency of sample_pattern
  localparam int STAGES = 4 + PATTERN;  // until a beat's samples are there

  assign m_axis_tuser = 1'b0;

  // What follows from the configuration has a clock for itself.
  logic [16:0]     packet_beats;
  logic [KEEP-1:0] tail;          // tkeep of a packet's last beat
  always_ff @(posedge clk) begin
    packet_beats <= (17'(length) + 17'(KEEP - 1)) >> LANE_BITS;
    for (int b = 0; b < KEEP; b++) tail[b] <= LANE_BITS'(length - 16'd1) >= LANE_BITS'(b);
    step <= digitizer ? length - 16'(SPEAD) : 16'd1;
  end

  // ---------------------------------------------------------------- which beat is next, and whether it may go already
  logic [31:0] clocks, allowed;  // of the period that are left, and beats in them
  logic        due;              // allowed is not 0
  logic        on;               // enable; if that falls, then until the last packet has left this stage
  logic        active, first, last, issue;
  logic [3:0]  place;            // beat of the packet; the last is for all later ones
  logic [16:0] left;             // beats of the packet, this one included
  logic [31:0] rounds;           // packets of every stream that are to come
  logic [STREAM_BITS-1:0] following;
  assign issue = active && advance && due;
  assign turn = issue && last;
  assign number_of = shared ? '0 : stream;
  assign number_after = shared ? '0 : following;

  always_ff @(posedge clk) begin
    on <= enable && (on || !active);
    load <= enable && !on && !active && !load;
    if (load || clocks[31:1] == '0) begin
      clocks <= period;
      allowed <= beats;
      due <= beats != '0;
    end else begin
      clocks <= clocks - 32'd1;
      if (issue && beats != '1) begin
        allowed <= allowed - 32'd1;
        due <= allowed[31:1] != '0;
      end
    end
    if (load || turn) begin
      first <= 1'b1;
      place <= '0;
      left <= packet_beats;
      last <= packet_beats[16:1] == '0;
      stream <= following;
      following <= 8'(following) + 8'd1 >= streams ? '0 : following + 1'b1;
    end else if (issue) begin
      first <= 1'b0;
      place <= place + 4'(!(&place));
      left <= left - 17'd1;
      last <= left == 17'd2;
    end
    if (load) begin
      active <= 1'b1;
      rounds <= limit;
    end else if (turn) begin
      if (following == '0) rounds <= rounds - 32'd1;
      if (!on || (following == '0 && rounds == 32'd1 && limit != '0)) active <= 1'b0;
    end else if (!on && first && !issue) begin
      active <= 1'b0;
    end
    if (!active && !load) following <= '0;
    if (rst) begin
      {on, load, active, due} <= '0;
      clocks <= '0;
      allowed <= '0;
      following <= '0;
    end
  end

  logic turned;
  always_ff @(posedge clk) turned <= turn && !rst;
  event_counter #(.BITS(1)) count_sent (.clk, .rst, .clear(load), .add(turned), .total(sent));

  // ------------------------------------------------------- what is known of a beat waits until its samples are there
  typedef struct packed {
    logic        last;
    logic [3:0]  place;
    logic [15:0] id;
    logic [31:0] ip;
    logic [15:0] port;
  } beat_t;
  logic [STAGES:1]       valid;
  beat_t [STAGES:1]      beat;
  logic [STAGES:2][63:0] numbers;  // of the first stage: `number`
  logic [7:0]            ramp;     // what lane 0 counts, one stage before the last
  logic                  offered;
  assign running = load || active || valid != '0 || offered;
  always_ff @(posedge clk) begin
    if (advance) begin
      valid <= {valid[STAGES-1:1], issue};
      beat <= {beat[STAGES-1:1], beat_t'{last: last, place: place, id: stream_id, ip: stream_ip, port: stream_port}};
      numbers <= {numbers[STAGES-1:2], number};
      if (valid[STAGES-2]) begin
        ramp <= beat[STAGES-2].place == '0 ? numbers[STAGES-2][7:0] - 8'd8 : ramp + 8'(KEEP);
      end
    end
    if (rst) valid <= '0;
  end

  // Index of lane 0's sample; lane 0 of the first beat would be the header's first byte. A subtraction in two halves.
  logic [31:0]  delay_1, back_2, index_4;
  logic [16:0]  low_3;  // with borrow
  logic [31:16] back_3;
  wire  [16:0]  high_3 = {numbers[3][31:16], 1'b1} + {~back_3, !low_3[16]};  // one adder: its lowest bit makes the borrow
  always_ff @(posedge clk) begin
    if (advance) begin
      delay_1 <= stream_delay;
      back_2 <= delay_1 + 32'(SPEAD);
      low_3 <= {1'b0, numbers[2][15:0]} - {1'b0, back_2[15:0]};
      back_3 <= back_2[31:16];
      if (valid[3]) index_4 <= beat[3].place == '0 ? {high_3[16:1], low_3[15:0]} : index_4 + 32'(KEEP);
    end
  end

  logic [WIDTH-1:0] samples;
  sample_pattern #(.WIDTH(WIDTH)) pattern (
    .clk, .advance, .index(index_4), .tone_step, .tone_shift, .noise_shift, .seed, .samples
  );

  // ------------------------------------------------------------------------------------------- headers, in stream order
  function automatic logic [63:0] swap8(input logic [63:0] x);
    swap8 = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40], x[55:48], x[63:56]};
  endfunction
  // An item of 64 bits: address mode, ID, value.
  function automatic logic [63:0] item(input logic immediate, input logic [14:0] name, input logic [47:0] value);
    item = swap8({immediate, name, value});
  endfunction
  beat_t       here;
  logic [63:0] sequence_here;
  assign here = beat[STAGES-1];
  assign sequence_here = numbers[STAGES-1];
  logic [HEADER_BEATS*WIDTH-1:0] spead;
  assign spead = (HEADER_BEATS * WIDTH)'({
    item(1'b0, 15'h3300, 48'd0),                                // samples begin at byte 0 of the payload
    item(1'b1, 15'h3102, 48'd0),                                // status
    item(1'b1, 15'h3101, {32'd0, here.id}),
    item(1'b1, 15'h1600, sequence_here[47:0]),                  // timestamp
    item(1'b1, 15'h0004, {32'd0, step}),                        // payload length
    item(1'b1, 15'h0003, 48'd0),                                // payload offset
    item(1'b1, 15'h0002, {32'd0, step}),                        // heap length
    item(1'b1, 15'h0001, {sequence_here[31:0], here.id}),       // heap count: differs between heaps that are open at once
    swap8(64'h5304_0206_0000_0008)                              // SPEAD-64-48, eight items
  });
  logic [WIDTH-1:0] spead_beat;
  always_comb begin
    spead_beat = spead[WIDTH-1:0];
    for (int b = 1; b < HEADER_BEATS; b++) if (here.place == 4'(b)) spead_beat = spead[b*WIDTH+:WIDTH];
  end

  // ------------------------------------------------------------------------------------------------------------- a beat
  // Header or count is chosen a stage before the samples are there.
  logic [WIDTH-1:0] counted, front, payload;
  logic [63:0]      counter;
  assign counter = swap8(sequence_here);
  always_comb begin
    for (int i = 0; i < KEEP; i++) begin
      counted[8*i+:8] = i < 8 && here.place == '0 ? counter[8*(i%8)+:8] : ramp + 8'(i);
      payload[8*i+:8] = digitizer && {beat[STAGES].place, LANE_BITS'(i)} >= (4 + LANE_BITS)'(SPEAD) ? samples[8*i+:8]
                                                                                                : front[8*i+:8];
    end
  end
  always_ff @(posedge clk) if (advance) front <= digitizer ? spead_beat : counted;

  skid_buffer #(.BITS(WIDTH + KEEP + 65)) out (
    .clk, .rst, .s_valid(valid[STAGES]), .s_ready(advance),
    .s_data({
      source_port, beat[STAGES].port, beat[STAGES].ip, beat[STAGES].last,
      beat[STAGES].last ? tail : {KEEP{1'b1}}, payload
    }),
    .m_data({m_axis_src_port, m_axis_dst_port, m_axis_dst_ip, m_axis_tlast, m_axis_tkeep, m_axis_tdata}),
    .m_valid(offered), .m_ready(m_axis_tready)
  );
  assign m_axis_tvalid = offered;
endmodule

`default_nettype wire
