// SPDX-License-Identifier: BSD-3-Clause
// Moves frames that start in any segment of a MAC's beat to byte 0 of a beat of their own.
//
// Contract, input (PG369): beats of segments of 16 bytes with ena, sop, eop, err, mty, as mac_segmented's header says; rx_valid
// may fall inside a frame, and nothing can be held up. Segments in use follow each other without gaps, a frame's from sop to eop;
// behind an eop the next frame follows at once, or the rest of the beat is empty.
// Contract, output: beats of frames, byte 0 first, tkeep full but on the last beat; tuser on the last beat: the MAC marked the
// frame, or beats of it were lost. No tready: the core takes a beat in every cycle. One beat of one frame leaves in a cycle, and
// as many frames as the input holds can wait in DEPTH beats. If they are full, a beat is lost: `lost` counts the frames that began
// in it and are not seen again; a frame of which the start was kept leaves, cut off, with tuser, when the next beat has come. So
// frames in = frames out + lost.
// Latency: 6 cycles from a frame's last segments to its last beat, if none waits. Throughput: a beat of a frame a cycle.
//
// How: beats are stored as they are. `head` and `next` are the two oldest, and `at` is the segment of `head` where the frame goes
// on: its next output beat is eight segments from there on, of both. What has to be known of the beat for each value of `at` is
// worked out before it comes to `next`, so that the step to the next `at` is a choice.
`default_nettype none

module segment_realigner #(
    parameter int WIDTH = 1024,
    parameter int DEPTH = 64,   // beats, a power of two
    localparam int SEGMENTS = WIDTH / 128
) (
    input  wire                               clk,
    input  wire                               rst,
    input  wire  [WIDTH-1:0]                  rx_data,
    input  wire  [SEGMENTS-1:0]               rx_ena,
    input  wire  [SEGMENTS-1:0]               rx_sop,
    input  wire  [SEGMENTS-1:0]               rx_eop,
    input  wire  [SEGMENTS-1:0]               rx_err,
    input  wire  [4*SEGMENTS-1:0]             rx_mty,
    input  wire                               rx_valid,
    output logic [WIDTH-1:0]                  m_axis_tdata,
    output logic [WIDTH/8-1:0]                m_axis_tkeep,
    output logic                              m_axis_tvalid,
    output logic                              m_axis_tlast,
    output logic                              m_axis_tuser,
    output logic [$clog2(SEGMENTS+1)-1:0]     lost
);

  localparam int SB = $clog2(SEGMENTS);

  typedef struct packed {
    logic [SEGMENTS-1:0]      sop, eop, err;
    logic [SEGMENTS-1:0][3:0] mty;
    logic [SEGMENTS-1:0][127:0] data;
  } beat_t;

  // ---- 1: beats with something in them, into the FIFO ---------------------------------------------------------------------

  beat_t arrived, stored;
  logic arrived_valid, arrived_gap, stored_valid, stored_gap, room, fetch;

  always_ff @(posedge clk) begin
    arrived_valid <= rx_valid && rx_ena[0] && !rst;
    arrived.sop   <= rx_sop & rx_ena;
    arrived.eop   <= rx_eop & rx_ena;
    arrived.err   <= rx_err;
    arrived.mty   <= rx_mty;
    arrived.data  <= rx_data;
  end

  stream_fifo #(.BITS($bits(beat_t) + 1), .DEPTH(DEPTH)) fifo (
      .clk, .rst, .s_data({arrived_gap, arrived}), .s_valid(arrived_valid), .s_ready(room),
      .m_data({stored_gap, stored}), .m_valid(stored_valid), .m_ready(fetch)
  );

  // Beats were lost before the one that arrives now; frames that began in one that is lost.
  always_ff @(posedge clk) begin
    if (arrived_valid) arrived_gap <= !room;
    lost <= '0;
    if (arrived_valid && !room) lost <= ($bits(lost))'($countones(arrived.sop));
    if (rst) begin
      arrived_gap <= 1'b0;
      lost        <= '0;
    end
  end

  // ---- 2: what is to be known of a beat, for each segment in which one may begin to look ---------------------------------------

  typedef struct packed {
    logic          starts;   // a frame starts here
    logic          later;    // a frame starts here or behind
    logic          ends;     // the frame that is here ends in this beat,
    logic [SB-1:0] last;     // in this segment,
    logic          follows;  // and another starts behind it
  } place_t;

  function automatic place_t [SEGMENTS-1:0] places(input logic [SEGMENTS-1:0] sop, input logic [SEGMENTS-1:0] eop);
    for (int p = 0; p < SEGMENTS; p++) begin
      places[p].starts  = sop[p];
      places[p].later   = |(sop >> p);
      places[p].ends    = |(eop >> p);
      places[p].last    = '0;
      places[p].follows = 1'b0;
      for (int e = SEGMENTS - 1; e >= p; e--) begin
        if (eop[e]) begin
          places[p].last    = SB'(e);
          places[p].follows = e < SEGMENTS - 1 && sop[(e+1)%SEGMENTS];
        end
      end
    end
  endfunction

  beat_t head, next;
  place_t [SEGMENTS-1:0] head_places, next_places;
  logic head_valid, next_valid, next_gap;
  logic advance;  // `head` has been used up
  wire take = advance || !head_valid;
  assign fetch = take || !next_valid;

  always_ff @(posedge clk) begin
    if (take) begin
      head        <= next;
      head_places <= next_places;
      head_valid  <= next_valid;
    end
    if (fetch) begin
      next        <= stored;
      next_places <= places(stored.sop, stored.eop);
      next_gap    <= stored_gap;
      next_valid  <= stored_valid;
    end
    if (rst) begin
      head_valid <= 1'b0;
      next_valid <= 1'b0;
    end
  end

  // ---- 3: one beat of one frame ----------------------------------------------------------------------------------------

  logic [SB-1:0] at, at_next;
  logic in_frame, in_frame_next;  // a frame that began before goes on at `at`
  logic leaves, ends, cut;    // a beat leaves; it is the frame's last; as the rest was lost

  place_t here;
  assign here = head_places[at];
  wire active = head_valid && (in_frame || here.starts);
  wire over = next_places[0].ends && next_places[0].last < at;  // it ends in the part of `next` that is still its beat's

  always_comb begin
    at_next = at;
    in_frame_next = in_frame;
    advance = 1'b0;
    leaves = 1'b0;
    ends = 1'b0;
    cut = 1'b0;
    if (active && here.ends) begin
      leaves = 1'b1;
      ends = 1'b1;
      in_frame_next = 1'b0;
      advance = !here.follows;
      at_next = here.follows ? here.last + 1'b1 : '0;
    end else if (active) begin
      // The frame goes on in `next`, or is known to be cut off there.
      leaves = next_valid;
      advance = next_valid;
      ends = next_gap || over;
      cut = next_gap;
      if (next_valid) begin
        in_frame_next = !next_gap && !over;
        at_next = next_gap ? '0 : over ? next_places[0].last + 1'b1 : at;
      end
    end else if (head_valid) begin
      // Nothing of a frame here: behind a gap, or behind the end of a frame.
      advance = !here.later;
      at_next = here.later ? at + 1'b1 : '0;
    end
  end

  always_ff @(posedge clk) begin
    at     <= at_next;
    in_frame <= in_frame_next;
    if (rst) begin
      at     <= '0;
      in_frame <= 1'b0;
    end
  end

  logic [SEGMENTS-1:0][127:0] window_data;
  logic [SEGMENTS-1:0][3:0] window_mty;
  logic [SEGMENTS-1:0] window_eop, window_err, kept;  // `kept`: of `head`, if the frame is cut off behind it
  logic window_valid, window_ends, window_cut;

  always_ff @(posedge clk) begin
    window_valid <= leaves && !rst;
    window_ends  <= ends;
    window_cut   <= cut;
    window_data  <= WIDTH'({next.data, head.data} >> {at, 7'd0});
    window_mty   <= (4 * SEGMENTS)'({next.mty, head.mty} >> {at, 2'd0});
    window_eop   <= SEGMENTS'({next.eop, head.eop} >> at);
    window_err   <= SEGMENTS'({next.err, head.err} >> at);
    kept       <= cut ? {SEGMENTS{1'b1}} >> at : {SEGMENTS{1'b1}};
  end

  // ---- 4: its bytes -----------------------------------------------------------------------------------------------------

  logic [SEGMENTS-1:0] used;  // up to the first eop
  always_comb begin
    used[0] = kept[0];
    for (int s = 1; s < SEGMENTS; s++) used[s] = kept[s] && !(|(window_eop & ~({SEGMENTS{1'b1}} << s)));
  end

  always_ff @(posedge clk) begin
    m_axis_tvalid <= window_valid && !rst;
    m_axis_tdata  <= window_data;
    m_axis_tlast  <= window_ends;
    m_axis_tuser  <= window_ends && (window_cut || |(used & window_eop & window_err));
    for (int s = 0; s < SEGMENTS; s++)
      for (int b = 0; b < 16; b++) m_axis_tkeep[16*s+b] <= used[s] && !(window_eop[s] && 4'(15 - b) < window_mty[s]);
  end

endmodule

`default_nettype wire
