// SPDX-License-Identifier: BSD-3-Clause
// Behavioural MAC, transmit: frames -> wire words. For simulation; stands where a vendor's MAC goes.
//
// Adds preamble and start-of-frame delimiter, pads to 60 bytes, adds FCS and an inter-frame gap of 12 bytes on average: frames
// start at multiples of 8 bytes, and a deficit idle count (0..7) shortens or lengthens the gap to get there. Sends the
// remote-fault sequence instead of idle characters while `local_fault`.
// Wire: WIDTH bits and a control bit a byte, a word in RATE_NUM of RATE_DEN clocks (wire_valid): the line rate is exactly
// WIDTH * RATE_NUM / RATE_DEN bits a clock, 400 Gb/s for 1024 bits at 390.625 MHz.
// `pause` freezes the whole MAC for a clock, as a MAC does whose own clock is slower. A frame that runs dry is poisoned with
// error characters, pulses `underflow` and is an error in simulation if FATAL_UNDERFLOW.
`default_nettype none
/* verilator lint_off BLKSEQ */

module mac_model_tx #(
    parameter int WIDTH           = 1024,
    parameter int RATE_NUM        = 1,
    parameter int RATE_DEN        = 1,
    parameter bit FATAL_UNDERFLOW = 1
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                pause,
    input  wire                local_fault,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    output logic [WIDTH-1:0]   wire_data,
    output logic [WIDTH/8-1:0] wire_ctrl,
    output logic               wire_valid,
    output logic               underflow
);

  import mac_pkg::*;

  localparam int KEEP = WIDTH / 8;
  localparam int TAIL = 60 + 4 + 20;               // padding, FCS, terminate and gap
  localparam int CAP  = 2 * KEEP + 8 + TAIL + 4;   // bytes

  logic [31:0] crc_table[0:2047];  // [k*256 + b]: byte b with k zero bytes after it
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

  logic [CAP*8-1:0] data;      // waiting bytes, the next one lowest
  logic [CAP-1:0]   ctrl;
  int               count;     // of them
  logic             in_frame;
  int               length;    // of the present frame so far
  int               deficit;
  int               phase;     // of the rate
  logic [31:0]      crc;

  assign s_axis_tready = !rst && !pause && count <= KEEP;

  int bytes, pad, gap, extra;
  logic slot;
  logic [WIDTH-1:0] masked;
  logic [TAIL*8-1:0] tail;
  logic [TAIL-1:0] tail_ctrl;

  always @(posedge clk) begin
    underflow <= 1'b0;
    if (!pause) begin
      if (s_axis_tvalid && s_axis_tready) begin
        if (!in_frame) begin
          data |= (CAP*8)'(PREAMBLE) << (count * 8);
          ctrl |= CAP'(1) << count;
          count += 8;
          length = 0;
          crc = 32'hffff_ffff;
        end
        in_frame = 1'b1;
        masked = s_axis_tdata;
        bytes = KEEP;
        if (s_axis_tlast) begin
          bytes = 0;
          for (int i = 0; i < KEEP; i++) begin
            if (s_axis_tkeep[i]) bytes = i + 1;
            else masked[i*8+:8] = 8'd0;
          end
        end
        for (int l = 0; l < bytes / 8; l++) crc = crc_lane(crc, masked[l*64+:64]);
        for (int b = bytes / 8 * 8; b < bytes; b++) crc = crc_byte(crc, masked[b*8+:8]);
        data |= (CAP*8)'(masked) << (count * 8);
        count += bytes;
        length += bytes;
        if (s_axis_tlast) begin
          pad = length < 60 ? 60 - length : 0;
          for (int b = 0; b < pad; b++) crc = crc_byte(crc, 8'd0);
          extra = (length + pad + 8 + 4 + MIN_GAP) % 8;
          if (deficit + extra <= 7) begin
            gap = MIN_GAP - extra;
            deficit += extra;
          end else begin
            gap = MIN_GAP + 8 - extra;
            deficit -= 8 - extra;
          end
          tail = {{TAIL * 8 - 32{1'b0}}, ~crc};
          tail_ctrl = '0;
          for (int b = 0; b < gap; b++) begin
            tail[(4+b)*8+:8] = b == 0 ? CHAR_TERMINATE : CHAR_IDLE;
            tail_ctrl[4+b] = 1'b1;
          end
          data |= (CAP*8)'(tail) << ((count + pad) * 8);
          ctrl |= CAP'(tail_ctrl) << (count + pad);
          count += pad + 4 + gap;
          in_frame = 1'b0;
        end
      end

      phase += RATE_NUM;
      slot = phase >= RATE_DEN;
      if (slot) begin
        phase -= RATE_DEN;
        if (count < KEEP) begin
          if (in_frame) begin
            underflow <= 1'b1;
            if (FATAL_UNDERFLOW) $error("mac_model_tx: underflow inside a frame");
          end else deficit = 0;
          // Idle (or, running dry, error) characters; remote fault is a sequence of its own, a lane of 8 bytes each.
          for (int b = 0; b < KEEP; b++)
            if (b >= count) begin
              data[b*8+:8] = in_frame ? CHAR_ERROR : !local_fault ? CHAR_IDLE
                  : b % 8 == 0 ? CHAR_SEQUENCE : b % 8 == 3 ? 8'h02 : 8'h00;
              ctrl[b] = in_frame || !local_fault || b % 8 == 0;
            end
          count = KEEP;
        end
        wire_data <= data[WIDTH-1:0];
        wire_ctrl <= ctrl[KEEP-1:0];
        data = data >> WIDTH;
        ctrl = ctrl >> KEEP;
        count -= KEEP;
      end
      wire_valid <= slot;
    end else wire_valid <= 1'b0;
    if (rst) begin
      wire_valid <= 1'b0;
      data = '0;
      ctrl = '0;
      count = 0;
      in_frame = 1'b0;
      deficit = 0;
      phase = 0;
    end
  end

endmodule

/* verilator lint_on BLKSEQ */
`default_nettype wire
