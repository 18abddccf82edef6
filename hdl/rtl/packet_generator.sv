// SPDX-License-Identifier: BSD-3-Clause
// Makes packets at a set rate: counted ones, or the heaps of digitizers.
//
// Streams take turns packet by packet. Each has its own destination, and a 64-bit sequence number that it is handed with
// `turn` and hands back through `next`. Payloads, all numbers big-endian, `length` bytes in all:
//     counter    8 bytes sequence number; then byte i of the rest is (sequence number + i) mod 256; goes up by 1
//     digitizer  72 bytes of SPEAD header (one packet a heap: timestamp = sequence number, digitiser_id = stream_id);
//                then 8-bit samples (sample_pattern) timestamp - delay, timestamp - delay + 1, ...; goes up by their number
// `beats` of every `period` clocks may enter the pipeline: a rate limit that does not make up for back-pressure.
//
// Contract: starts when `enable` rises, with stream 0; stops between packets when it falls, or after `limit` packets of
// every stream if that is not 0. Configuration stands still while `running`. A beat that is offered waits unchanged.
// Throughput: a beat a clock, also between packets. Latency: 7 clocks.
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
  // The table of streams: the entry of `stream` is there in the same clock; `next_write` stores `next_sequence` at
  // `next_stream`.
  output logic [STREAM_BITS-1:0]      stream,
  input  wire logic [31:0]            stream_ip,
  input  wire logic [15:0]            stream_port,
  input  wire logic [15:0]            stream_id,
  input  wire logic [31:0]            stream_delay,
  output logic [STREAM_BITS-1:0]      sequence_of,
  input  wire logic [63:0]            sequence_now,
  output logic                        next_write,
  output logic [63:0]                 sequence_next,
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
  localparam int PATTERN = 6;  // latency of sample_pattern

  logic advance;
  assign advance = !m_axis_tvalid || m_axis_tready;
  assign m_axis_tuser = 1'b0;

  // ---------------------------------------------------------------- which beat is next, and whether it may go already
  logic [31:0] clocks, allowed;
  logic        due;
  assign due = allowed != 32'd0;

  logic        was_enabled;
  logic [15:0] beat;        // of the packet
  logic [15:0] left;        // bytes after this beat and the ones before
  logic [31:0] rounds;      // packets that every stream has sent
  logic        first, last, issue, last_stream;
  logic [15:0] at_first;
  assign first = beat == 16'd0;
  assign at_first = first ? length : left;
  assign last = at_first <= 16'(KEEP);
  assign issue = running && advance && due;
  assign last_stream = 8'(stream) + 8'd1 >= streams;
  assign sequence_of = shared ? '0 : stream;
  assign next_write = issue && last;
  assign sequence_next = sequence_now + (digitizer ? 64'(length - 16'(SPEAD)) : 64'd1);

  always_ff @(posedge clk) begin
    was_enabled <= enable;
    if (clocks + 32'd1 >= period) begin
      clocks <= '0;
      allowed <= beats;
    end else begin
      clocks <= clocks + 32'd1;
      if (issue && beats != '1) allowed <= allowed - 32'd1;
    end
    if (enable && !was_enabled) begin
      running <= 1'b1;
      stream <= '0;
      beat <= '0;
      rounds <= '0;
      sent <= '0;
      clocks <= '0;
      allowed <= beats;
    end else if (running && !enable && first && !issue) begin
      running <= 1'b0;
    end
    if (issue) begin
      beat <= last ? 16'd0 : beat + 16'd1;
      left <= at_first - 16'(KEEP);
      if (last) begin
        sent <= sent + 64'd1;
        stream <= last_stream ? '0 : stream + 1'b1;
        if (last_stream) rounds <= rounds + 32'd1;
        if (!enable || (last_stream && limit != '0 && rounds + 32'd1 == limit)) running <= 1'b0;
      end
    end
    if (rst) begin
      running <= 1'b0;
      was_enabled <= 1'b0;
      stream <= '0;
      beat <= '0;
      left <= '0;
      rounds <= '0;
      sent <= '0;
      clocks <= '0;
      allowed <= '0;
    end
  end

  // Index of lane 0's sample; lane 0 of the first beat would be the header's first byte.
  logic [31:0] index, index_later;
  assign index = first ? sequence_now[31:0] - stream_delay - 32'(SPEAD) : index_later;
  always_ff @(posedge clk) if (issue) index_later <= index + 32'(KEEP);

  logic [WIDTH-1:0] samples;
  sample_pattern #(.WIDTH(WIDTH)) pattern (
    .clk, .advance, .index, .tone_step, .tone_shift, .noise_shift, .seed, .samples
  );

  // ------------------------------------------------------- what is known of a beat waits until its samples are there
  localparam int INFO = 1 + 1 + 16 + 16 + 64 + 16 + 32 + 16;
  logic [PATTERN-1:0][INFO-1:0] info;
  always_ff @(posedge clk) begin
    if (advance) begin
      info <= {info[PATTERN-2:0], {issue, last, at_first, beat, sequence_now, stream_id, stream_ip, stream_port}};
    end
    if (rst) info <= '0;
  end
  logic        has, ends;
  logic [15:0] remaining, number, id, port;
  logic [63:0] sequence_here;
  logic [31:0] ip;
  assign {has, ends, remaining, number, sequence_here, id, ip, port} = info[PATTERN-1];

  // ------------------------------------------------------------------------------------------- headers, in stream order
  function automatic logic [63:0] swap8(input logic [63:0] x);
    swap8 = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40], x[55:48], x[63:56]};
  endfunction
  // An item of 64 bits: address mode, ID, value.
  function automatic logic [63:0] item(input logic immediate, input logic [14:0] name, input logic [47:0] value);
    item = swap8({immediate, name, value});
  endfunction
  logic [15:0] heap_bytes;
  assign heap_bytes = length - 16'(SPEAD);
  logic [HEADER_BEATS*WIDTH-1:0] spead;
  assign spead = (HEADER_BEATS * WIDTH)'({
    item(1'b0, 15'h3300, 48'd0),                                // samples begin at byte 0 of the payload
    item(1'b1, 15'h3102, 48'd0),                                // status
    item(1'b1, 15'h3101, {32'd0, id}),
    item(1'b1, 15'h1600, sequence_here[47:0]),                  // timestamp
    item(1'b1, 15'h0004, {32'd0, heap_bytes}),                  // payload length
    item(1'b1, 15'h0003, 48'd0),                                // payload offset
    item(1'b1, 15'h0002, {32'd0, heap_bytes}),                  // heap length
    item(1'b1, 15'h0001, {sequence_here[31:0], id}),            // heap count: differs between heaps that are open at once
    swap8(64'h5304_0206_0000_0008)                              // SPEAD-64-48, eight items
  });
  logic [WIDTH-1:0] spead_beat;
  always_comb begin
    spead_beat = spead[WIDTH-1:0];
    for (int b = 1; b < HEADER_BEATS; b++) if (number == 16'(b)) spead_beat = spead[b*WIDTH+:WIDTH];
  end

  // ------------------------------------------------------------------------------------------------------------- a beat
  logic [WIDTH-1:0] payload;
  logic [63:0]      counter;
  logic [7:0]       ramp;  // what lane 0 counts
  assign counter = swap8(sequence_here);
  assign ramp = 8'(sequence_here[7:0] + 8'({number, {LANE_BITS{1'b0}}}) - 8'd8);
  genvar i;
  generate
    for (i = 0; i < KEEP; i = i + 1) begin : g_lane
      logic        in_header;
      logic [7:0]  counted;
      assign in_header = {number, LANE_BITS'(i)} < (16 + LANE_BITS)'(SPEAD);
      if (i < 8) begin : g_counter
        assign counted = number == 16'd0 ? counter[8*i+:8] : ramp + 8'(i);
      end else begin : g_ramp
        assign counted = ramp + 8'(i);
      end
      assign payload[8*i+:8] = !digitizer ? counted : in_header ? spead_beat[8*i+:8] : samples[8*i+:8];
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (advance) begin
      m_axis_tvalid <= has;
      m_axis_tdata <= payload;
      m_axis_tlast <= ends;
      m_axis_tkeep <= ends ? {KEEP{1'b1}} >> (16'(KEEP) - remaining) : {KEEP{1'b1}};
      m_axis_dst_ip <= ip;
      m_axis_dst_port <= port;
      m_axis_src_port <= source_port;
    end
    if (rst) m_axis_tvalid <= 1'b0;
  end
endmodule

`default_nettype wire
