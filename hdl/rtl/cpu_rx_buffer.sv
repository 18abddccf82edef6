// SPDX-License-Identifier: BSD-3-Clause
// Frames for the CPU, whole, in slots of 8 KiB that it reads as 32-bit words.
//
// Contract: beats of all frames come in; those whose verdict, read with the last beat, is `for_cpu` are kept. `full` pulses for
// one that could not be: SLOTS - 1 frames wait, or it is longer than a slot. `bytes_ready` is the length of the oldest
// frame, 0 if there is none; its byte n is byte n of the window (little endian in each word). `free` gives it back.
// `read_data` follows `read_word` after 2 cycles. Writing never waits: one beat a cycle. Latency: 1 cycle to the event.
//
// Why so large: a memory 1024 bit wide takes the same block RAMs at any depth up to 512 lines, which are 64 KiB.
`default_nettype none

module cpu_rx_buffer #(
    parameter int WIDTH = 1024,
    parameter int SLOT  = 8192,  // bytes
    parameter int SLOTS = 8      // a power of two
) (
    input  wire              clk,
    input  wire              rst,
    input  wire              valid,
    input  wire  [WIDTH-1:0] data,
    input  wire              last,
    input  wire  [15:0]      pos,
    input  wire  [15:0]      bytes,
    input  wire              for_cpu,
    output logic             stored,
    output logic             full,

    output logic [15:0]      bytes_ready,
    input  wire              free,
    input  wire  [10:0]      read_word,
    output logic [31:0]      read_data
);

  localparam int KEEP  = WIDTH / 8;
  localparam int KB    = $clog2(KEEP);
  localparam int LINES = SLOT / KEEP;
  localparam int LB    = $clog2(LINES);
  localparam int SB    = $clog2(SLOTS);

  logic [WIDTH-1:0] memory[0:SLOTS*LINES-1];
  logic [15:0]      length[0:SLOTS-1];

  // The slot that is written never holds a frame that waits, so a frame may be written before its verdict is known.
  logic [SB-1:0] write_slot, read_slot;
  wire  [SB-1:0] next_slot = write_slot + 1'b1;
  wire           empty = write_slot == read_slot;
  wire           keep = valid && last && for_cpu && next_slot != read_slot && bytes <= 16'(SLOT);

  always_ff @(posedge clk) begin
    if (valid && pos < 16'(SLOT)) memory[{write_slot, pos[KB+:LB]}] <= data;
    if (keep) length[write_slot] <= bytes;
  end

  always_ff @(posedge clk) begin
    stored <= keep;
    full   <= valid && last && for_cpu && !keep;
    if (keep) write_slot <= next_slot;
    if (free && !empty) read_slot <= read_slot + 1'b1;
    bytes_ready <= (empty || free) ? 16'd0 : length[read_slot];
    if (rst) begin
      stored      <= 1'b0;
      full        <= 1'b0;
      write_slot  <= '0;
      read_slot   <= '0;
      bytes_ready <= 16'd0;
    end
  end

  logic [WIDTH-1:0] line;
  logic [KB-3:0]    word;

  always_ff @(posedge clk) begin
    line      <= memory[{read_slot, read_word[KB-2+:LB]}];
    word      <= read_word[KB-3:0];
    read_data <= line[{word, 5'd0}+:32];
  end

endmodule

`default_nettype wire
