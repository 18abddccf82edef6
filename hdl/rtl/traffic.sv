// SPDX-License-Identifier: BSD-3-Clause
// Packet generator and checker with their registers: the application that stands behind the core's extension bus.
//
// Contract: `m_axis` and its sideband are a transmit application's, `s_axis` and its sideband the core's received
// payloads, all in the clock of the extension bus. Latency: 14 clocks from the generator, 6 to the checker's counters.
`default_nettype none

module traffic #(
  parameter int WIDTH = 1024,
  parameter int STREAM_BITS = 4,
  parameter int CLOCK_HZ = 390_625_000
) (
  input  wire logic               clk,
  input  wire logic               rst,
  output logic                    running,  // packets are still to be sent
  input  wire logic               ext_wr,
  input  wire logic               ext_rd,
  input  wire logic [11:0]        ext_addr,
  input  wire logic [31:0]        ext_wdata,
  output logic [31:0]             ext_rdata,
  output logic                    ext_ack,
  output logic [WIDTH-1:0]        m_axis_tdata,
  output logic [WIDTH/8-1:0]      m_axis_tkeep,
  output logic                    m_axis_tvalid,
  input  wire logic               m_axis_tready,
  output logic                    m_axis_tlast,
  output logic [0:0]              m_axis_tuser,
  output logic [31:0]             m_axis_dst_ip,
  output logic [15:0]             m_axis_dst_port,
  output logic [15:0]             m_axis_src_port,
  input  wire logic [WIDTH-1:0]   s_axis_tdata,
  input  wire logic [WIDTH/8-1:0] s_axis_tkeep,
  input  wire logic               s_axis_tvalid,
  output logic                    s_axis_tready,
  input  wire logic               s_axis_tlast,
  input  wire logic [15:0]        s_axis_dst_port,
  input  wire logic [15:0]        s_axis_length
);
  logic                   enable, digitizer, shared, check, clear;
  logic [7:0]             streams, tone_step, throttle;
  logic [15:0]            length, source_port, stream_port, stream_id;
  logic [31:0]            beats, period, limit, seed, stream_ip, stream_delay;
  logic [3:0]             tone_shift, noise_shift;
  logic [63:0]            sent, number, sequence_new, sequence_held;
  logic [STREAM_BITS-1:0] stream, selected, number_of, number_after;
  logic                   advance, load, turn, sequence_write;
  logic [15:0]            step;
  logic [63:0]            checked_packets, checked_bytes, checked_lost, checked_late, checked_wrong, checked_short;
  logic [63:0]            checked_next;

  traffic_registers #(.WIDTH(WIDTH), .STREAM_BITS(STREAM_BITS), .CLOCK_HZ(CLOCK_HZ)) registers (
    .clk, .rst, .ext_wr, .ext_rd, .ext_addr, .ext_wdata, .ext_rdata, .ext_ack,
    .enable, .running, .digitizer, .shared, .streams, .length, .source_port, .beats, .period, .limit,
    .tone_step, .tone_shift, .noise_shift, .seed, .sent,
    .stream, .stream_ip, .stream_port, .stream_id, .stream_delay,
    .selected, .sequence_write, .sequence_new, .sequence_held,
    .check, .clear, .throttle, .checked_packets, .checked_bytes, .checked_lost, .checked_late, .checked_wrong,
    .checked_short, .checked_next
  );

  sequence_numbers #(.STREAM_BITS(STREAM_BITS)) sequences (
    .clk, .rst, .select(selected), .write(sequence_write), .value(sequence_new), .held(sequence_held),
    .advance, .load, .turn, .step, .stream(number_of), .following(number_after), .number
  );

  packet_generator #(.WIDTH(WIDTH), .STREAM_BITS(STREAM_BITS)) generator (
    .clk, .rst, .enable, .running, .digitizer, .shared, .streams, .length, .source_port, .beats, .period, .limit,
    .tone_step, .tone_shift, .noise_shift, .seed, .sent,
    .stream, .stream_ip, .stream_port, .stream_id, .stream_delay,
    .advance, .load, .turn, .step, .number_of, .number_after, .number,
    .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast, .m_axis_tuser,
    .m_axis_dst_ip, .m_axis_dst_port, .m_axis_src_port
  );

  packet_checker #(.WIDTH(WIDTH), .STREAM_BITS(STREAM_BITS)) checker_ (
    .clk, .rst, .enable(check), .clear, .throttle,
    .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast, .s_axis_dst_port, .s_axis_length,
    .packets(checked_packets), .bytes(checked_bytes), .lost(checked_lost), .late(checked_late),
    .wrong(checked_wrong), .short(checked_short), .next(checked_next)
  );
endmodule

`default_nettype wire
