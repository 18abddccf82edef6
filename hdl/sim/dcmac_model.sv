// SPDX-License-Identifier: BSD-3-Clause
// Behavioural model of the client interface of AMD's DCMAC at 400G (PG369, segmented AXI4-Stream) over mac_model's line. For
// simulation.
//
// Transmit: frames may start in any segment that PG369 allows. What it forbids counts in `violations`, and is an error if FATAL:
// segments in use that are not contiguous, a start that is neither in segment 0 nor right behind an end, a beat inside a frame
// that is not full, tvalid that falls inside a frame, fewer than 60 bytes. Receive: frames are packed behind each other, as the
// MAC does; tvalid falls at any time (RX_PAUSE in 16 clocks, drawn), so that frames pile up and start in all segments, and the
// FIFO of the realigner has to take two ends and two starts in a beat.
`default_nettype none
/* verilator lint_off BLKSEQ */

module dcmac_model #(
    parameter int WIDTH    = 1024,
    parameter int RATE_NUM = 1,
    parameter int RATE_DEN = 1,
    parameter int RX_PAUSE = 4,
    parameter bit FATAL    = 1,
    localparam int SEGMENTS = WIDTH / 128
) (
    input  wire                   clk,
    input  wire                   rst,
    input  wire  [WIDTH-1:0]      tx_data,
    input  wire  [SEGMENTS-1:0]   tx_ena,
    input  wire  [SEGMENTS-1:0]   tx_sop,
    input  wire  [SEGMENTS-1:0]   tx_eop,
    input  wire  [SEGMENTS-1:0]   tx_err,
    input  wire  [4*SEGMENTS-1:0] tx_mty,
    input  wire                   tx_valid,
    output logic                  tx_ready,
    output logic [WIDTH-1:0]      rx_data,
    output logic [SEGMENTS-1:0]   rx_ena,
    output logic [SEGMENTS-1:0]   rx_sop,
    output logic [SEGMENTS-1:0]   rx_eop,
    output logic [SEGMENTS-1:0]   rx_err,
    output logic [4*SEGMENTS-1:0] rx_mty,
    output logic                  rx_valid,
    output logic                  stat_link_up,
    output logic                  stat_local_fault,
    output logic                  stat_remote_fault,
    output int                    violations,
    output logic                  underflow,
    // The line.
    output logic [WIDTH-1:0]      wire_tx_data,
    output logic [WIDTH/8-1:0]    wire_tx_ctrl,
    output logic                  wire_tx_valid,
    input  wire  [WIDTH-1:0]      wire_rx_data,
    input  wire  [WIDTH/8-1:0]    wire_rx_ctrl,
    input  wire                   wire_rx_valid
);

  localparam int KEEP = WIDTH / 8;

  assign stat_link_up = !stat_local_fault && !stat_remote_fault;

  // ---- transmit: segments to beats of frames --------------------------------------------------------------------------------

  typedef struct packed {
    logic             last;
    logic [KEEP-1:0]  keep;
    logic [WIDTH-1:0] data;
  } beat_t;

  beat_t beats[$], filling, sending;
  logic in_frame, sending_valid, line_tready, ended;
  int filled, length, bytes;

  task automatic wrong(input string what);
    violations += 1;
    if (FATAL) $error("dcmac_model: %s", what);
  endtask

  mac_model_tx #(.WIDTH(WIDTH), .RATE_NUM(RATE_NUM), .RATE_DEN(RATE_DEN), .FATAL_UNDERFLOW(0)) tx (
      .clk, .rst, .pause(1'b0), .local_fault(stat_local_fault), .s_axis_tdata(sending.data), .s_axis_tkeep(sending.keep),
      .s_axis_tvalid(sending_valid), .s_axis_tready(line_tready), .s_axis_tlast(sending.last),
      .wire_data(wire_tx_data), .wire_ctrl(wire_tx_ctrl), .wire_valid(wire_tx_valid), .underflow
  );

  always @(posedge clk) begin
    if (tx_ready && !tx_valid && in_frame) wrong("tvalid fell inside a frame");
    if (tx_ready && tx_valid) begin
      ended = 1'b1;  // a frame may start in segment 0, and where one ended right before
      for (int s = 0; s < SEGMENTS; s++) begin
        if (!tx_ena[s]) begin
          if (in_frame) wrong("a segment inside a frame is not in use");
          if (s < SEGMENTS - 1 && tx_ena[(s+1)%SEGMENTS]) wrong("segments in use are not contiguous");
          ended = 1'b0;
          continue;
        end
        if (tx_sop[s] == in_frame) wrong("sop inside a frame, or none at its start");
        if (tx_sop[s] && !ended) wrong("a frame starts neither in segment 0 nor behind an end");
        if (tx_sop[s]) length = 0;
        bytes = tx_eop[s] ? 16 - int'(tx_mty[4*s+:4]) : 16;
        if (!tx_eop[s] && tx_mty[4*s+:4] != 4'd0) wrong("mty without eop");
        for (int b = 0; b < bytes; b++) begin
          filling.data[8*(filled+b)+:8] = tx_data[128*s+8*b+:8];
          filling.keep[filled+b] = 1'b1;
        end
        filled += bytes;
        length += bytes;
        in_frame = !tx_eop[s];
        ended = tx_eop[s];
        if (tx_eop[s] && length < 60) wrong("fewer than 60 bytes");
        if (tx_eop[s] && tx_err[s]) wrong("a frame is poisoned");
        if (tx_eop[s] || filled == KEEP) begin
          filling.last = tx_eop[s];
          beats.push_back(filling);
          filling = '0;
          filled = 0;
        end
      end
    end
    if (!sending_valid || line_tready) begin
      sending_valid <= beats.size() != 0;
      if (beats.size() != 0) sending <= beats.pop_front();
    end
    tx_ready <= beats.size() < 8;
    if (rst) begin
      beats.delete();
      filling = '0;
      filled = 0;
      length = 0;
      in_frame = 1'b0;
      violations = 0;
      sending_valid <= 1'b0;
      tx_ready <= 1'b0;
    end
  end

  // ---- receive: beats of frames to segments ---------------------------------------------------------------------------------

  logic [WIDTH-1:0] line_tdata;
  logic [KEEP-1:0] line_tkeep;
  logic line_tvalid, line_tlast, line_tuser;

  mac_model_rx #(.WIDTH(WIDTH)) rx (
      .clk, .rst, .wire_data(wire_rx_data), .wire_ctrl(wire_rx_ctrl), .wire_valid(wire_rx_valid),
      .m_axis_tdata(line_tdata), .m_axis_tkeep(line_tkeep), .m_axis_tvalid(line_tvalid), .m_axis_tlast(line_tlast),
      .m_axis_tuser(line_tuser), .bad_fcs(), .overrun(), .local_fault(stat_local_fault), .remote_fault(stat_remote_fault)
  );

  typedef struct packed {
    logic         sop, eop, err;
    logic [3:0]   mty;
    logic [127:0] data;
  } segment_t;

  segment_t segments[$], one;
  logic first;
  int bytes_of_beat, take, whole;  // segments of frames that are there to their end

  always @(posedge clk) begin
    if (line_tvalid) begin
      bytes_of_beat = $countones(line_tkeep);
      for (int s = 0; 16 * s < bytes_of_beat; s++) begin
        one.sop = first && s == 0;
        one.eop = line_tlast && 16 * (s + 1) >= bytes_of_beat;
        one.err = one.eop && line_tuser;
        one.mty = one.eop ? 4'(16 * (s + 1) - bytes_of_beat) : 4'd0;
        one.data = line_tdata[128*s+:128];
        segments.push_back(one);
        if (one.eop) whole = segments.size();
      end
      first = line_tlast;
    end
    rx_valid <= 1'b0;
    // A beat inside a frame is full; one that a frame ends in need not be.
    take = segments.size() >= SEGMENTS ? SEGMENTS : whole == segments.size() ? whole : 0;
    if (take != 0 && int'($urandom() & 15) >= RX_PAUSE) begin
      rx_valid <= 1'b1;
      rx_ena <= '0;
      rx_sop <= '0;
      rx_eop <= '0;
      rx_err <= '0;
      for (int s = 0; s < SEGMENTS; s++)
        if (s < take) begin
          one = segments.pop_front();
          rx_ena[s] <= 1'b1;
          rx_sop[s] <= one.sop;
          rx_eop[s] <= one.eop;
          rx_err[s] <= one.err;
          rx_mty[4*s+:4] <= one.mty;
          rx_data[128*s+:128] <= one.data;
        end
      whole = whole > take ? whole - take : 0;
    end
    if (rst) begin
      segments.delete();
      first = 1'b1;
      whole = 0;
      rx_valid <= 1'b0;
    end
  end

endmodule

/* verilator lint_on BLKSEQ */
`default_nettype wire
