// SPDX-License-Identifier: BSD-3-Clause
// Makes the frames of ARP: requests by broadcast, replies to who asked. Replies go first.
//
// Contract: a request (address wanted) or a reply (who asked) is taken with its `_ready` and leaves as one frame of 42 bytes; the
// MAC pads it. Requests are taken and thrown away while `ask` is off. Throughput: one frame in 42 / (WIDTH/8) + 2 cycles.
`default_nettype none

module arp_sender #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                ask,
    input  wire  [47:0]        own_mac,
    input  wire  [31:0]        own_ip,

    input  wire                request_valid,
    input  wire  [31:0]        request_ip,
    output logic               request_ready,

    input  wire                reply_valid,
    input  wire  [31:0]        reply_ip,
    input  wire  [47:0]        reply_mac,
    output logic               reply_ready,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  localparam int BYTES = 42;
  localparam int KEEP  = WIDTH / 8;
  localparam int BEATS = (BYTES + KEEP - 1) / KEEP;
  localparam int TAIL  = BYTES - (BEATS - 1) * KEEP;  // bytes of the last beat

  logic       busy;  // a frame is in `frame`
  logic [2:0] beat;
  logic [BEATS*WIDTH-1:0] frame;

  assign reply_ready   = !busy && reply_valid;
  assign request_ready = !busy && !reply_valid && request_valid;

  // The fields in the order of the wire, each most significant byte first: byte n is at bits 8*(41-n).
  wire [47:0] destination = reply_valid ? reply_mac : eth_pkg::MAC_BROADCAST;
  wire [BYTES*8-1:0] fields = {
      destination, own_mac, eth_pkg::ETHERTYPE_ARP,
      48'h0001_0800_0604,  // Ethernet, IPv4, lengths of their addresses
      reply_valid ? eth_pkg::ARP_REPLY : eth_pkg::ARP_REQUEST,
      own_mac, own_ip,
      reply_valid ? reply_mac : 48'd0, reply_valid ? reply_ip : request_ip
  };

  always_ff @(posedge clk) begin
    if (reply_ready || (request_ready && ask)) begin
      busy  <= 1'b1;
      beat  <= 3'd0;
      frame <= '0;
      for (int n = 0; n < BYTES; n++) frame[8*n+:8] <= fields[8*(BYTES-1-n)+:8];
    end else if (busy && m_axis_tready) begin
      frame <= frame >> WIDTH;
      beat  <= beat + 1'b1;
      busy  <= !m_axis_tlast;
    end
    if (rst) busy <= 1'b0;
  end

  assign m_axis_tvalid = busy;
  assign m_axis_tdata  = frame[WIDTH-1:0];
  assign m_axis_tlast  = beat == 3'(BEATS - 1);
  assign m_axis_tkeep  = m_axis_tlast ? {KEEP{1'b1}} >> (KEEP - TAIL) : {KEEP{1'b1}};

endmodule

`default_nettype wire
