// SPDX-License-Identifier: BSD-3-Clause
// Store-and-forward frame FIFO between two clocks.
//
// The writer publishes whole frames: a frame's length and sideband enter a small list when its last beat is written, and
// the list's gray-coded write count is all that crosses forward. So the reader sees a frame only when all of it is in the
// memory, and a frame that has begun never runs dry, whatever the clocks. The reader gives back beats (gray-coded count).
//
// Contract, input: one frame = beats up to s_axis_tlast; tkeep full but on the last beat. A frame is dropped whole, with one
// pulse of its reason (on s_clk), if
//   dropped_bad       tuser was set on the last beat,
//   dropped_oversize  it has more than MAX_BYTES bytes,
//   dropped_full      DROP_WHEN_FULL = 1 and no room was left for a beat (or FRAMES frames wait).
// With DROP_WHEN_FULL = 1 tready is always high; with 0 tready falls instead while there is no room.
// Contract, output: frames in order, bit-exact, no idle beat inside a frame nor between frames that wait. m_length (bytes) and
// m_meta (s_meta at the input's last beat) are valid with every beat. tkeep is exact. `almost_full` (s_clk): a frame of
// MAX_BYTES may not fit.
// Latency: 3 + SYNC_STAGES cycles from last beat in to first beat out. Throughput: one beat a cycle on both sides.
// Reset: both resets must be active together for SYNC_STAGES + 1 cycles of the slower clock.
`default_nettype none

module async_packet_fifo #(
    parameter int WIDTH          = 1024,
    parameter int DEPTH          = 262144 / WIDTH,  // beats, a power of two; 32 KiB
    parameter int FRAMES         = 64,    // frames, a power of two
    parameter int META           = 1,     // sideband bits a frame
    parameter int MAX_BYTES      = 9216,
    parameter bit DROP_WHEN_FULL = 0,
    parameter int SYNC_STAGES    = 2      // 0: both clocks are the same
) (
    input  wire                s_clk,
    input  wire                s_rst,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    input  wire                s_axis_tuser,
    input  wire  [META-1:0]    s_meta,
    output logic               stored,
    output logic               dropped_bad,
    output logic               dropped_oversize,
    output logic               dropped_full,
    output logic               almost_full,

    input  wire                m_clk,
    input  wire                m_rst,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [15:0]        m_length,
    output logic [META-1:0]    m_meta
);

  localparam int KEEP      = WIDTH / 8;
  localparam int KB        = $clog2(KEEP);
  localparam int AB        = $clog2(DEPTH);
  localparam int FB        = $clog2(FRAMES);
  localparam int MAX_BEATS = (MAX_BYTES + KEEP - 1) / KEEP;

  // A frame of MAX_BYTES must fit, or a full FIFO that waits would wait for ever. (Icarus does not know $error here.)
`ifndef __ICARUS__
  if (MAX_BEATS > DEPTH || MAX_BYTES > 65535) begin : g_check
    $error("async_packet_fifo: DEPTH beats cannot hold a frame of MAX_BYTES bytes");
  end
`endif

  logic [WIDTH-1:0]   memory[0:DEPTH-1];
  logic [16+META-1:0] list  [0:FRAMES-1];  // {length, sideband}

  function automatic logic [AB:0] beat_gray(input logic [AB:0] x);
    beat_gray = x ^ (x >> 1);
  endfunction
  function automatic logic [FB:0] frame_gray(input logic [FB:0] x);
    frame_gray = x ^ (x >> 1);
  endfunction
  function automatic logic [AB:0] beat_binary(input logic [AB:0] g);
    for (int i = 0; i <= AB; i++) beat_binary[i] = ^(g >> i);
  endfunction
  function automatic logic [FB:0] frame_binary(input logic [FB:0] g);
    for (int i = 0; i <= FB; i++) frame_binary[i] = ^(g >> i);
  endfunction

  // ---- write side -----------------------------------------------------------------------------------------------------

  logic [AB:0] write_beat, begun_beat;  // where the next beat goes; where the present frame began
  logic [FB:0] write_frame, write_frame_gray;
  logic [AB:0] freed_beat, freed_gray, freed_gray_m;  // read pointer as seen by the writer
  logic [FB:0] freed_frame, freed_frame_gray, freed_frame_gray_m;
  logic [15:0] bytes;                                 // of the present frame before this beat
  logic [16:0] bytes_now;                             // and with it
  logic        dropping;                              // the rest of a frame already counted as dropped

  logic [KB:0] kept;  // bytes of this beat
  always_comb begin
    kept = '0;
    for (int i = 0; i < KEEP; i++) if (s_axis_tkeep[i]) kept = (KB + 1)'(i + 1);
  end

  wire no_room = (write_beat - freed_beat) == (AB + 1)'(DEPTH) || (write_frame - freed_frame) == (FB + 1)'(FRAMES);
  wire beat_in = s_axis_tvalid && s_axis_tready;
  wire oversize = bytes_now > 17'(MAX_BYTES);
  wire bad = s_axis_tlast && s_axis_tuser;
  wire drop = beat_in && !dropping && (oversize || bad || no_room);
  wire keep_beat = beat_in && !dropping && !drop;

  assign bytes_now = {1'b0, bytes} + 17'(kept);
  assign s_axis_tready = !s_rst && (DROP_WHEN_FULL || dropping || !no_room);

  always_ff @(posedge s_clk) begin
    if (keep_beat) memory[write_beat[AB-1:0]] <= s_axis_tdata;
    if (keep_beat && s_axis_tlast) list[write_frame[FB-1:0]] <= {bytes_now[15:0], s_meta};
  end

  always_ff @(posedge s_clk) begin
    stored           <= keep_beat && s_axis_tlast;
    dropped_oversize <= drop && oversize;
    dropped_full     <= drop && !oversize && no_room;
    dropped_bad      <= drop && !oversize && !no_room;
    almost_full      <= (write_beat - freed_beat) > (AB + 1)'(DEPTH - MAX_BEATS) ||
                        (write_frame - freed_frame) == (FB + 1)'(FRAMES);
    if (beat_in) bytes <= s_axis_tlast ? 16'd0 : bytes_now[15:0];
    if (drop) begin
      write_beat <= begun_beat;
      dropping   <= !s_axis_tlast;
      bytes      <= 16'd0;
    end else if (beat_in && dropping) begin
      dropping <= !s_axis_tlast;
      bytes    <= 16'd0;
    end else if (keep_beat) begin
      write_beat <= write_beat + 1'b1;
      if (s_axis_tlast) begin
        begun_beat       <= write_beat + 1'b1;
        write_frame      <= write_frame + 1'b1;
        write_frame_gray <= frame_gray(write_frame + 1'b1);
      end
    end
    if (s_rst) begin
      stored           <= 1'b0;
      dropped_oversize <= 1'b0;
      dropped_full     <= 1'b0;
      dropped_bad      <= 1'b0;
      almost_full      <= 1'b0;
      write_beat       <= '0;
      begun_beat       <= '0;
      write_frame      <= '0;
      write_frame_gray <= '0;
      bytes            <= 16'd0;
      dropping         <= 1'b0;
    end
  end

  assign freed_beat  = beat_binary(freed_gray);
  assign freed_frame = frame_binary(freed_frame_gray);

  // ---- the counts that cross ------------------------------------------------------------------------------------------

  logic [FB:0] ready_gray;  // frames written, as the reader sees it
  genvar g;
  generate
    if (SYNC_STAGES == 0) begin : g_same
      assign freed_gray       = freed_gray_m;
      assign freed_frame_gray = freed_frame_gray_m;
      assign ready_gray       = write_frame_gray;
    end else begin : g_cross
      for (g = 0; g <= AB; g = g + 1) begin : g_beat
        cdc_bit #(.STAGES(SYNC_STAGES)) sync (.clk(s_clk), .d(freed_gray_m[g]), .q(freed_gray[g]));
      end
      for (g = 0; g <= FB; g = g + 1) begin : g_frame
        cdc_bit #(.STAGES(SYNC_STAGES)) back (.clk(s_clk), .d(freed_frame_gray_m[g]), .q(freed_frame_gray[g]));
        cdc_bit #(.STAGES(SYNC_STAGES)) there (.clk(m_clk), .d(write_frame_gray[g]), .q(ready_gray[g]));
      end
    end
  endgenerate

  // ---- read side ------------------------------------------------------------------------------------------------------

  logic [AB:0] read_beat;
  logic [FB:0] read_frame;
  logic [15:0] remaining;  // bytes of the present frame not yet read; 0: the next read begins a frame
  logic [KB:0] out_bytes;

  wire [16+META-1:0] head = list[read_frame[FB-1:0]];
  wire [15:0] head_length = head[META+:16];
  wire starting = remaining == 16'd0;
  wire [15:0] left = starting ? head_length : remaining;
  wire ends = left <= 16'(KEEP);
  wire advance = !m_axis_tvalid || m_axis_tready;
  wire read = advance && (!starting || read_frame != frame_binary(ready_gray));

  always_ff @(posedge m_clk) if (read) m_axis_tdata <= memory[read_beat[AB-1:0]];

  always_ff @(posedge m_clk) begin
    if (advance) m_axis_tvalid <= read;
    if (read) begin
      read_beat    <= read_beat + 1'b1;
      freed_gray_m <= beat_gray(read_beat + 1'b1);
      remaining    <= ends ? 16'd0 : left - 16'(KEEP);
      m_axis_tlast <= ends;
      out_bytes    <= ends ? (KB + 1)'(left) : (KB + 1)'(KEEP);
      if (starting) begin
        m_length <= head_length;
        m_meta   <= head[META-1:0];
      end
      if (ends) begin
        read_frame         <= read_frame + 1'b1;
        freed_frame_gray_m <= frame_gray(read_frame + 1'b1);
      end
    end
    if (m_rst) begin
      m_axis_tvalid      <= 1'b0;
      read_beat          <= '0;
      freed_gray_m       <= '0;
      read_frame         <= '0;
      freed_frame_gray_m <= '0;
      remaining          <= 16'd0;
    end
  end

  always_comb for (int k = 0; k < KEEP; k++) m_axis_tkeep[k] = (KB + 1)'(k) < out_bytes;

endmodule

`default_nettype wire
