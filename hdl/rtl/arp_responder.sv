// SPDX-License-Identifier: BSD-3-Clause
// What follows from an ARP packet: what the table learns, and who gets a reply.
//
// Contract: for each `arp_valid` (RFC 826, with a host's cautions):
//   a request or reply that asks for, or is sent to, own_ip teaches its sender's addresses;
//   any other changes the sender's MAC address if the sender is in the table already (a host announces a new card);
//   a request for own_ip is replied to while `answer` is on;
//   senders that call themselves 0.0.0.0 (probes), by own_ip, by own_mac or by a multicast MAC teach nothing.
// Learning and replying wait for their `_ready`. One packet of each is held; what comes while it waits is not, which costs its
// sender a retry. Latency: 1 cycle.
`default_nettype none

module arp_responder (
    input  wire         clk,
    input  wire         rst,
    input  wire         answer,
    input  wire  [47:0] own_mac,
    input  wire  [31:0] own_ip,

    input  wire         arp_valid,
    input  wire         arp_request,
    input  wire  [47:0] arp_sender_mac,
    input  wire  [31:0] arp_sender_ip,
    input  wire  [31:0] arp_target_ip,

    output logic        learn_valid,
    output logic        learn_known_only,
    output logic [31:0] learn_ip,
    output logic [47:0] learn_mac,
    input  wire         learn_ready,

    output logic        reply_valid,
    output logic [31:0] reply_ip,
    output logic [47:0] reply_mac,
    input  wire         reply_ready
);

  wire for_us = arp_target_ip == own_ip;
  wire group_sender = arp_sender_mac[40];
  wire teaches = arp_sender_ip != 32'd0 && arp_sender_ip != own_ip && arp_sender_mac != own_mac && !group_sender;

  always_ff @(posedge clk) begin
    if (learn_ready) learn_valid <= 1'b0;
    if (arp_valid && teaches && !learn_valid) begin
      learn_valid      <= 1'b1;
      learn_known_only <= !for_us;
      learn_ip         <= arp_sender_ip;
      learn_mac        <= arp_sender_mac;
    end
    if (reply_ready) reply_valid <= 1'b0;
    if (arp_valid && arp_request && for_us && answer && !group_sender && !reply_valid) begin
      reply_valid <= 1'b1;
      reply_ip    <= arp_sender_ip;
      reply_mac   <= arp_sender_mac;
    end
    if (rst) begin
      learn_valid <= 1'b0;
      reply_valid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
