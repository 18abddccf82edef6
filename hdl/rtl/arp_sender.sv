// SPDX-License-Identifier: BSD-3-Clause
// Makes the frames of ARP: requests by broadcast, replies to who asked. Replies go first.
//
// Contract: a request (address wanted) or a reply (who asked) is taken with its `_ready` and leaves as one frame of 42 bytes; the
// MAC pads it. Requests are taken and thrown away while `ask` is off. Throughput: one frame in 42 / (WIDTH/8) + 2 cycles. Latency: 1 cycle.
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

  logic ready;

  assign reply_ready   = ready && reply_valid;
  assign request_ready = ready && !reply_valid && request_valid;

  wire [47:0] destination = reply_valid ? reply_mac : eth_pkg::MAC_BROADCAST;
  wire [42*8-1:0] fields = {
      destination, own_mac, eth_pkg::ETHERTYPE_ARP,
      48'h0001_0800_0604,  // Ethernet, IPv4, lengths of their addresses
      reply_valid ? eth_pkg::ARP_REPLY : eth_pkg::ARP_REQUEST,
      own_mac, own_ip,
      reply_valid ? reply_mac : 48'd0, reply_valid ? reply_ip : request_ip
  };

  field_frame #(.WIDTH(WIDTH), .BYTES(42)) beats (
      .clk, .rst, .start(reply_ready || (request_ready && ask)), .fields, .ready,
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast
  );

endmodule

`default_nettype wire
