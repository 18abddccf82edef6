// SPDX-License-Identifier: BSD-3-Clause
// Store-and-forward frame FIFO in one clock: async_packet_fifo without its synchronisers. Same contract.
//
// Latency: 4 cycles from last beat in to first beat out. Throughput: one beat a cycle on both sides.
`default_nettype none

module packet_fifo #(
    parameter int WIDTH          = 1024,
    parameter int DEPTH          = 262144 / WIDTH,  // beats, a power of two; 32 KiB
    parameter int FRAMES         = 64,    // frames, a power of two
    parameter int META           = 1,
    parameter int MAX_BYTES      = 9216,
    parameter bit DROP_WHEN_FULL = 0
) (
    input  wire                clk,
    input  wire                rst,
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
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [15:0]        m_length,
    output logic [META-1:0]    m_meta
);

  async_packet_fifo #(
      .WIDTH(WIDTH), .DEPTH(DEPTH), .FRAMES(FRAMES), .META(META), .MAX_BYTES(MAX_BYTES),
      .DROP_WHEN_FULL(DROP_WHEN_FULL), .SYNC_STAGES(0)
  ) fifo (
      .s_clk(clk), .s_rst(rst), .m_clk(clk), .m_rst(rst),
      .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast, .s_axis_tuser, .s_meta,
      .stored, .dropped_bad, .dropped_oversize, .dropped_full, .almost_full,
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast, .m_length, .m_meta
  );

endmodule

`default_nettype wire
