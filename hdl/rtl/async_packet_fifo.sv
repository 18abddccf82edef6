// SPDX-License-Identifier: BSD-3-Clause
// Store-and-forward frame FIFO between two clocks.
//
// The writer publishes whole frames: a frame's length and sideband enter a small list when its last beat is written, and
// the list's gray-coded write count is all that crosses forward. So the reader sees a frame only when all of it is in the
// memory, and a frame that has begun never runs dry, whatever the clocks. The reader gives back beats (gray-coded count).
// Lengths are counted in beats, and in bytes of the last beat alone: no adder follows tkeep.
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
// Latency: 6 cycles from last beat in to first beat out; 4 more than SYNC_STAGES. Throughput: one beat a cycle on both sides.
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
  localparam int FULL_BEATS = MAX_BYTES / KEEP;         // full beats in a frame of MAX_BYTES,
  localparam int REST       = MAX_BYTES % KEEP;         // bytes behind them
  localparam int NB         = $clog2(FULL_BEATS + 2);   // bits that count the beats before the last
  localparam int ENTRY      = NB + KB + 1 + META;

  // A frame of MAX_BYTES must fit, or a full FIFO that waits would wait for ever. (Icarus does not know $error here.)
`ifndef __ICARUS__
  if (MAX_BEATS > DEPTH || MAX_BYTES > 65535) begin : g_check
    $error("async_packet_fifo: DEPTH beats cannot hold a frame of MAX_BYTES bytes");
  end
`endif

  logic [WIDTH-1:0]   memory[0:DEPTH-1];
  logic [ENTRY-1:0]   list  [0:FRAMES-1];  // {beats before the last, bytes of the last, sideband}

  function automatic logic [AB:0] beat_gray(input logic [AB:0] x);
    beat_gray = x ^ (x >> 1);
  endfunction
  function automatic logic [FB:0] frame_gray(input logic [FB:0] x);
    frame_gray = x ^ (x >> 1);
  endfunction
  function automatic logic [AB:0] beat_binary(input logic [AB:0] g);
    for (int i = 0; i <= AB; i++) beat_binary[i] = ^(g >> i);
  endfunction
  // A gray-coded count is full by 2^N if it differs from the other in its two top bits alone.
  localparam logic [AB:0] BEATS_FULL  = (AB + 1)'(3) << (AB - 1);
  localparam logic [FB:0] FRAMES_FULL = (FB + 1)'(3) << (FB - 1);

  // ---- write side -----------------------------------------------------------------------------------------------------

  logic [AB:0] write_beat, begun_beat;  // where the next beat goes; where the present frame began
  logic [FB:0] write_frame, write_frame_gray;
  logic [AB:0] freed_gray, freed_gray_m;  // read pointer as seen by the writer
  logic [FB:0] freed_frame_gray, freed_frame_gray_m;
  logic [NB-1:0] earlier;                  // beats of the present frame before this one
  logic        dropping;                  // the rest of a frame already counted as dropped

  logic [KB:0] kept;  // bytes of this beat
  keep_count #(.KEEP(KEEP)) counted (.keep(s_axis_tkeep), .count(kept));

  wire frames_full = (write_frame_gray ^ freed_frame_gray) == FRAMES_FULL;
  wire no_room = (beat_gray(write_beat) ^ freed_gray) == BEATS_FULL || frames_full;
  wire beat_in = s_axis_tvalid && s_axis_tready;
  wire oversize = earlier == NB'(FULL_BEATS) && s_axis_tkeep[REST];
  wire bad = s_axis_tlast && s_axis_tuser;
  wire drop = beat_in && !dropping && (oversize || bad || no_room);
  wire keep_beat = beat_in && !dropping && !drop;

  assign s_axis_tready = !s_rst && (DROP_WHEN_FULL || dropping || !no_room);

  always_ff @(posedge s_clk) begin
    if (keep_beat) memory[write_beat[AB-1:0]] <= s_axis_tdata;
    if (keep_beat && s_axis_tlast) list[write_frame[FB-1:0]] <= {earlier, kept, s_meta};
  end

  logic [AB:0] freed_beat, waiting;  // as far as `almost_full` knows
  always_ff @(posedge s_clk) begin
    stored           <= keep_beat && s_axis_tlast;
    dropped_oversize <= drop && oversize;
    dropped_full     <= drop && !oversize && no_room;
    dropped_bad      <= drop && !oversize && !no_room;
    freed_beat       <= beat_binary(freed_gray);
    waiting          <= write_beat - freed_beat;
    almost_full      <= waiting > (AB + 1)'(DEPTH - MAX_BEATS) || frames_full;
    if (beat_in) earlier <= s_axis_tlast || dropping || drop ? '0 : earlier + 1'b1;
    if (drop) begin
      write_beat <= begun_beat;
      dropping   <= !s_axis_tlast;
    end else if (beat_in && dropping) begin
      dropping <= !s_axis_tlast;
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
      earlier          <= '0;
      dropping         <= 1'b0;
      freed_beat       <= '0;
      waiting          <= '0;
    end
  end

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

  // The next frame leaves the list for registers of its own, where what its beats need is at hand.
  logic [AB:0]     read_beat;
  logic [FB:0]     list_frame, list_frame_gray, read_frame;  // the frame that leaves the list; the one whose beats leave
  logic            present, first, ends;                     // a frame is at hand; at its first beat; at its last
  logic [NB-1:0]   later;                                    // its beats behind this one
  logic [KB:0]     tail;                                     // bytes of its last beat
  logic [META-1:0] meta;

  wire [ENTRY-1:0] head = list[list_frame[FB-1:0]];
  wire [NB-1:0] head_later = head[ENTRY-1-:NB];
  wire advance = !m_axis_tvalid || m_axis_tready;
  wire read = advance && present;
  wire listed = list_frame_gray != ready_gray;
  wire load = listed && (!present || (read && ends));

  always_ff @(posedge m_clk) if (read) m_axis_tdata <= memory[read_beat[AB-1:0]];

  always_ff @(posedge m_clk) begin
    if (read) begin
      first <= 1'b0;
      later <= later - 1'b1;
      ends  <= later == NB'(1);
    end
    if (load) begin
      list_frame      <= list_frame + 1'b1;
      list_frame_gray <= frame_gray(list_frame + 1'b1);
      first           <= 1'b1;
      later           <= head_later;
      ends            <= head_later == '0;
      {tail, meta}    <= head[KB+META:0];
    end
    if (load || (read && ends)) present <= load;
    if (advance) m_axis_tvalid <= present;
    if (read) begin
      read_beat    <= read_beat + 1'b1;
      freed_gray_m <= beat_gray(read_beat + 1'b1);
      m_axis_tlast <= ends;
      for (int k = 0; k < KEEP; k++) m_axis_tkeep[k] <= !ends || (KB + 1)'(k) < tail;
      if (first) begin
        m_length <= 16'({later + NB'(tail[KB]), tail[KB-1:0]});
        m_meta   <= meta;
      end
      if (ends) begin
        read_frame         <= read_frame + 1'b1;
        freed_frame_gray_m <= frame_gray(read_frame + 1'b1);
      end
    end
    if (m_rst) begin
      m_axis_tvalid      <= 1'b0;
      present            <= 1'b0;
      read_beat          <= '0;
      freed_gray_m       <= '0;
      list_frame         <= '0;
      list_frame_gray    <= '0;
      read_frame         <= '0;
      freed_frame_gray_m <= '0;
    end
  end

`ifdef VERILATOR
  // A binary count would pass most benches: what is seen for a cycle while its bits change is seldom looked at twice.
  logic [FB:0] write_frame_was, freed_frame_was;
  logic [AB:0] freed_was;
  logic s_rst_was, m_rst_was, s_begun = 1'b0, m_begun = 1'b0;  // begun: there has been a reset
  always_ff @(posedge s_clk) begin
    write_frame_was <= write_frame_gray;
    s_rst_was       <= s_rst;
    s_begun         <= s_begun || s_rst;
    if (s_begun && !s_rst && !s_rst_was)
      assert ($onehot0(write_frame_gray ^ write_frame_was)) else $error("async_packet_fifo: more than one bit changes");
  end
  always_ff @(posedge m_clk) begin
    freed_frame_was <= freed_frame_gray_m;
    freed_was       <= freed_gray_m;
    m_rst_was       <= m_rst;
    m_begun         <= m_begun || m_rst;
    if (m_begun && !m_rst && !m_rst_was)
      assert ($onehot0(freed_frame_gray_m ^ freed_frame_was) && $onehot0(freed_gray_m ^ freed_was))
      else $error("async_packet_fifo: more than one bit changes");
  end
`endif

endmodule

`default_nettype wire
