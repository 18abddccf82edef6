// SPDX-License-Identifier: BSD-3-Clause
// Behavioural MAC, receive: wire words -> frames. For simulation; stands where a vendor's MAC goes.
//
// Finds the start (at any multiple of 8 bytes), checks the preamble, takes the FCS away and checks it. A frame with a wrong FCS,
// an error character, fewer than 64 bytes with FCS or more than MAX_BYTES without it leaves with tuser set on its last beat;
// `bad_fcs` pulses for the first two. Fragments of 4 bytes or fewer vanish. No back-pressure, as in hardware: the output has no
// tready and carries one frame's bytes a beat, so more than one short frame a clock overruns a queue of DEPTH beats; then
// whole frames are lost and `overrun` pulses.
// `local_fault`: no wire words for 128 clocks, or local-fault sequences. `remote_fault`: the far end says so.
`default_nettype none
/* verilator lint_off BLKSEQ */

module mac_model_rx #(
    parameter int WIDTH     = 1024,
    parameter int MAX_BYTES = 9600,
    parameter int DEPTH     = 4096
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [WIDTH-1:0]   wire_data,
    input  wire  [WIDTH/8-1:0] wire_ctrl,
    input  wire                wire_valid,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    output logic               m_axis_tlast,
    output logic               m_axis_tuser,
    output logic               bad_fcs,
    output logic               overrun,
    output logic               local_fault,
    output logic               remote_fault
);

  import mac_pkg::*;

  localparam int KEEP  = WIDTH / 8;
  localparam int LANES = KEEP / 8;

  logic [31:0] crc_table[0:2047];  // as in mac_model_tx
  initial begin
    for (int b = 0; b < 256; b++) begin
      crc_table[b] = crc_byte(32'd0, b[7:0]);
      for (int k = 1; k < 8; k++) crc_table[k*256+b] = crc_byte(crc_table[(k-1)*256+b], 8'd0);
    end
  end

  function automatic logic [31:0] crc_lane(input logic [31:0] crc, input logic [63:0] data);
    logic [63:0] x;
    x = data ^ {32'd0, crc};
    crc_lane = crc_table[1792+32'(x[7:0])] ^ crc_table[1536+32'(x[15:8])] ^ crc_table[1280+32'(x[23:16])]
        ^ crc_table[1024+32'(x[31:24])] ^ crc_table[768+32'(x[39:32])] ^ crc_table[512+32'(x[47:40])]
        ^ crc_table[256+32'(x[55:48])] ^ crc_table[32'(x[63:56])];
  endfunction

  // Queue of beats: {tuser, tlast, bytes, data}. Frames are published whole when they end or a beat at a time; a frame that
  // found the queue full is taken back to where it began.
  logic [WIDTH-1:0] queue_data [0:DEPTH-1];
  int               queue_bytes[0:DEPTH-1];
  logic             queue_last [0:DEPTH-1];
  logic             queue_bad  [0:DEPTH-1];
  int               put, began, published, take;

  logic               in_frame, error, lost;
  logic [31:0]        crc;
  logic [WIDTH+127:0] held;         // bytes not yet in the queue; the last four may be the FCS
  int                 held_bytes, length, silent, local_calm, remote_calm;

  logic [63:0] d;
  logic [7:0]  c;
  int          n;

  always @(posedge clk) begin
    bad_fcs <= 1'b0;
    overrun <= 1'b0;
    if (wire_valid) begin
      for (int l = 0; l < LANES; l++) begin
        d = wire_data[l*64+:64];
        c = wire_ctrl[l*8+:8];
        if (!in_frame) begin
          if (c == 8'h01 && d[7:0] == CHAR_START) begin
            in_frame = 1'b1;
            error = d != PREAMBLE;
            lost = 1'b0;
            crc = 32'hffff_ffff;
            held = '0;
            held_bytes = 0;
            length = 0;
            began = put;
          end else if (c == 8'h01 && d[7:0] == CHAR_SEQUENCE) begin
            if (d[31:24] == 8'h01) local_calm = 0;
            if (d[31:24] == 8'h02) remote_calm = 0;
          end
        end else begin
          n = 8;
          for (int b = 7; b >= 0; b--) if (c[b]) n = b;
          if (n == 8) crc = crc_lane(crc, d);
          else begin
            if (d[n*8+:8] != CHAR_TERMINATE) error = 1'b1;
            for (int b = 0; b < 8; b++) begin
              if (b < n) crc = crc_byte(crc, d[b*8+:8]);
              else d[b*8+:8] = 8'd0;
            end
          end
          held[held_bytes*8+:64] = d;
          held_bytes += n;
          length += n;
          if (held_bytes > KEEP + 4) begin
            if (put - take >= DEPTH - 1) lost = 1'b1;
            else begin
              queue_data[put%DEPTH]  = held[WIDTH-1:0];
              queue_bytes[put%DEPTH] = KEEP;
              queue_last[put%DEPTH]  = 1'b0;
              put += 1;
            end
            held = held >> WIDTH;
            held_bytes -= KEEP;
          end
          if (n != 8) begin
            in_frame = 1'b0;
            if (crc != CRC_RESIDUE || error) bad_fcs <= 1'b1;
            if (lost || put - take >= DEPTH - 1) begin
              put = began;
              overrun <= 1'b1;
            end else if (held_bytes > 4) begin
              queue_data[put%DEPTH]  = held[WIDTH-1:0];
              queue_bytes[put%DEPTH] = held_bytes - 4;
              queue_last[put%DEPTH]  = 1'b1;
              queue_bad[put%DEPTH]   = crc != CRC_RESIDUE || error || length < 64 || length - 4 > MAX_BYTES;
              put += 1;
            end
            published = put;
          end
        end
      end
    end

    // Whole frames only: a frame taken back must not have begun to leave.
    m_axis_tvalid <= take != published;
    if (take != published) begin
      m_axis_tdata <= queue_data[take%DEPTH];
      for (int b = 0; b < KEEP; b++) m_axis_tkeep[b] <= b < queue_bytes[take%DEPTH];
      m_axis_tlast <= queue_last[take%DEPTH];
      m_axis_tuser <= queue_last[take%DEPTH] && queue_bad[take%DEPTH];
      take += 1;
    end

    // A fault ends after 128 clocks without a sign of it.
    silent = wire_valid ? 0 : silent + 1;
    if (silent >= 128) local_calm = 0;
    if (local_calm < 128) local_calm += 1;
    if (remote_calm < 128) remote_calm += 1;
    local_fault  <= local_calm < 128;
    remote_fault <= remote_calm < 128;

    if (rst) begin
      in_frame = 1'b0;
      put = 0;
      began = 0;
      published = 0;
      take = 0;
      silent = 0;
      local_calm = 0;
      remote_calm = 128;
      m_axis_tvalid <= 1'b0;
      local_fault   <= 1'b1;
      remote_fault  <= 1'b0;
    end
  end

endmodule

/* verilator lint_on BLKSEQ */
`default_nettype wire
