// SPDX-License-Identifier: BSD-3-Clause
// Holds one frame that the CPU writes word by word, and sends it as a stream.
//
// Contract: byte n of the frame is byte n of the buffer's address space (little-endian words, so bits [8*(n%4)+:8] of word
// n/4). The CPU writes the whole Ethernet frame without FCS, then pulses `send` with its length in bytes; `busy` is high
// until the last beat is taken, and the CPU must not write meanwhile. A length of 0 or above BYTES sends nothing.
// Reading: `read_data` follows `address` by one cycle while not busy.
// The frame leaves without an idle beat. Latency: 3 cycles; throughput one beat a cycle.
`default_nettype none

module cpu_tx_buffer #(
    parameter int WIDTH = 1024,
    parameter int BYTES = 2048   // a power of two
) (
    input  wire                       clk,
    input  wire                       rst,
    input  wire                       write,
    input  wire  [$clog2(BYTES)-3:0]  address,     // of a 32-bit word
    input  wire  [31:0]               write_data,
    output logic [31:0]               read_data,
    input  wire                       send,
    input  wire  [15:0]               send_bytes,
    output logic                      busy,
    output logic [WIDTH-1:0]          m_axis_tdata,
    output logic [WIDTH/8-1:0]        m_axis_tkeep,
    output logic                      m_axis_tvalid,
    input  wire                       m_axis_tready,
    output logic                      m_axis_tlast
);

  localparam int KEEP  = WIDTH / 8;
  localparam int LANES = WIDTH / 32;     // words a beat
  localparam int LB    = $clog2(LANES);
  localparam int ROWS  = BYTES / KEEP;   // beats a buffer
  localparam int RB    = $clog2(ROWS);

  logic sending;          // beats are still to be read
  logic [RB-1:0] row;
  logic [15:0] left;      // bytes to read
  wire advance = !m_axis_tvalid || m_axis_tready;
  wire read = sending && advance;

  wire [RB-1:0] port_row = busy ? row : address[LB+:RB];
  logic [LB-1:0] lane_was;

  // One memory a word lane, so that a word can be written alone.
  genvar i;
  generate
    for (i = 0; i < LANES; i = i + 1) begin : g_lane
      logic [31:0] memory[0:ROWS-1];
      always_ff @(posedge clk) begin
        if (write && !busy && address[LB-1:0] == LB'(i)) memory[address[LB+:RB]] <= write_data;
        if (read || !busy) m_axis_tdata[i*32+:32] <= memory[port_row];
      end
    end
  endgenerate

  always_ff @(posedge clk) lane_was <= address[LB-1:0];
  assign read_data = m_axis_tdata[lane_was*32+:32];

  always_ff @(posedge clk) begin
    if (busy && advance) begin
      m_axis_tvalid <= read;
      if (read) begin
        row  <= row + 1'b1;
        left <= left - 16'(KEEP);
        m_axis_tlast <= left <= 16'(KEEP);
        for (int b = 0; b < KEEP; b++) m_axis_tkeep[b] <= 16'(b) < left;
        if (left <= 16'(KEEP)) sending <= 1'b0;
      end else busy <= 1'b0;
    end
    if (send && !busy && send_bytes != 16'd0 && send_bytes <= 16'(BYTES)) begin
      busy    <= 1'b1;
      sending <= 1'b1;
      row     <= '0;
      left    <= send_bytes;
    end
    if (rst) begin
      busy    <= 1'b0;
      sending <= 1'b0;
      m_axis_tvalid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
