// SPDX-License-Identifier: BSD-3-Clause
// Decides what becomes of each frame: to the application, to the CPU, answered in hardware, or dropped, and why.
//
// Latency: 11 cycles from the last beat to the verdict.
// Contract: `verdict` is valid that long after the frame's last beat came in with its complete header fields. Each
// frame gets one verdict, the first of this list that applies:
//   BAD           flagged by the MAC
//   LENGTH        shorter than an Ethernet header or longer than MAX_FRAME
//   PAUSE         MAC control with opcode 1, to the address of pause frames or own_mac
//   MAC           not to own_mac, broadcast, or the MAC of a multicast group of ours; with `igmp`, nor of 224.0.0.1
//   VLAN          tagged, and accept_vlan is off
//   LENGTH        too short for the tag; ARP shorter than 28 bytes; IPv4: version not 4, header < 20 bytes, total length
//                 smaller than the header or larger than what was received
//   CPU, OTHER    not IPv4: to the CPU if it was sent to own_mac or is ARP that asks for own_ip, else OTHER
//   IP_CHECKSUM   wrong header checksum
//   IP            not to own_ip by own_mac, nor to a broadcast address (255.255.255.255, or of own subnet) by broadcast, nor
//                 to a group of ours by the group's own MAC; with `igmp`, nor an IGMP query to 224.0.0.1 by its MAC
//   FRAGMENT      a part of a datagram
//   UDP_CHECKSUM  wrong in an IGMP query with `igmp`, to 224.0.0.1 or a group of ours, with at least 8 bytes
//   IGMP          such a query
//   UDP_CHECKSUM  wrong in an ICMP echo request with `answer_ping`, to own_mac and own_ip, from one host (not a group, a broadcast
//                 or ourselves), without IPv4 options, with at least 8 bytes
//   ECHO          such a request
//   CPU, OTHER    not UDP: to the CPU if it was sent to own_mac and own_ip, else OTHER
//   LENGTH        UDP length smaller than 8 or larger than the IPv4 payload (smaller is allowed: RFC 9868)
//   UDP_CHECKSUM  wrong; 0 means that the sender computed none
//   CPU, PORT     another port: to the CPU if cpu_ports is on and it was sent to own_ip or broadcast, else PORT
//   LENGTH        no payload
//   APP
// A port matches if it equals `port` in the bits that are 1 in `port_mask`. Groups: addresses that equal `group` in the bits
// that are 1 in `group_mask`; none if the mask is 0 or `group` is no multicast address. `promiscuous` passes every MAC and IP address.
//
// `arp_valid` marks frames with ARP for IPv4 over Ethernet, sent to own_mac or broadcast, whole, at the time of the verdict. What a query
// or a pause frame says is valid at that time too.
`default_nettype none

module rx_filter #(
    parameter int MAX_FRAME = 9216  // bytes without FCS
) (
    input  wire                     clk,
    input  wire                     rst,

    input  wire  [47:0]             own_mac,
    input  wire  [31:0]             own_ip,
    input  wire  [31:0]             netmask,
    input  wire  [31:0]             group,
    input  wire  [31:0]             group_mask,
    input  wire  [15:0]             port,
    input  wire  [15:0]             port_mask,
    input  wire                     promiscuous,
    input  wire                     accept_vlan,
    input  wire                     cpu_ports,
    input  wire                     answer_ping,
    input  wire                     igmp,

    input  wire                     valid,    // the last beat of a frame
    input  wire                     bad,
    input  wire  [15:0]             bytes,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire  rx_pkg::header_t   header,  // most of it
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire                     ip_good,   // 10 cycles later, from rx_checksum
    input  wire                     l4_good,

    output logic                    verdict_valid,
    output logic [3:0]              verdict,
    output logic                    arp_valid,
    output logic                    arp_request,  // else a reply
    output logic [47:0]             arp_sender_mac,
    output logic [31:0]             arp_sender_ip,
    output logic [31:0]             arp_target_ip,
    output logic [7:0]              query_max,    // tenths of a second
    output logic [31:0]             query_group,  // 0: all
    output logic [15:0]             pause_quanta
);

  // Fields of IPv4 in the first 28 bytes behind the Ethernet header (byte n: bits 223-8n down to 216-8n).
  wire [3:0]  version      = header.l3[223:220];
  wire [3:0]  ihl          = header.l3[219:216];
  wire [15:0] total_length = header.l3[207:192];
  wire        more_fragments  = header.l3[173];
  wire [12:0] fragment_offset = header.l3[172:160];
  wire [7:0]  protocol     = header.l3[151:144];
  wire [31:0] src_ip       = header.l3[127:96];
  wire [31:0] dst_ip       = header.l3[95:64];
  // and of ARP.
  wire [15:0] operation    = header.l3[175:160];
  wire [47:0] sender_mac   = header.l3[159:112];
  wire [31:0] sender_ip    = header.l3[111:80];
  wire [31:0] target_ip    = header.l3[31:0];
  // UDP.
  wire [15:0] dst_port     = header.l4[47:32];
  wire [15:0] udp_length   = header.l4[31:16];

  wire [15:0] l3_start  = {9'd0, header.l3_start};
  wire [15:0] ip_header = {10'd0, ihl, 2'b00};

  // ---- 1: comparisons, each a wide gate or one adder ----------------------------------------------------------------------

  logic damaged, runt, oversize, has_tag, short_tag, is_ip, is_arp;
  logic to_own, to_all, to_group, to_hosts;       // by MAC
  logic ip_own, ip_all, ip_group, ip_same_group, ip_hosts;  // by IPv4 address
  logic ip_malformed, ip_truncated, fragment, is_udp, udp_short, udp_long, udp_empty, port_match;
  logic arp_short, arp_format, arp_own;
  logic is_pause, is_query, is_echo, from_host, from_many, l4_short;

  wire group_set = eth_pkg::is_multicast(group) && group_mask != 32'd0;

  always_ff @(posedge clk) begin
    damaged   <= bad;
    runt      <= bytes < 16'd14;
    oversize  <= bytes > 16'(MAX_FRAME);
    has_tag    <= header.vlan;
    short_tag <= bytes < l3_start;
    is_ip     <= header.ethertype == eth_pkg::ETHERTYPE_IPV4;
    is_arp    <= header.ethertype == eth_pkg::ETHERTYPE_ARP;

    to_own    <= header.dst_mac == own_mac;
    to_all    <= header.dst_mac == eth_pkg::MAC_BROADCAST;
    to_group  <= group_set && header.dst_mac[47:23] == 25'h0200bc &&
                 ((header.dst_mac[22:0] ^ group[22:0]) & group_mask[22:0]) == 23'd0;

    to_hosts  <= igmp && header.dst_mac == eth_pkg::multicast_mac(eth_pkg::IP_ALL_HOSTS);

    ip_own    <= dst_ip == own_ip;
    ip_all    <= dst_ip == 32'hffff_ffff ||
                 (((dst_ip ^ own_ip) & netmask) == 32'd0 && (dst_ip | netmask) == 32'hffff_ffff && netmask[1:0] == 2'b00);
    ip_group  <= group_set && eth_pkg::is_multicast(dst_ip) && ((dst_ip ^ group) & group_mask) == 32'd0;
    ip_same_group <= header.dst_mac[22:0] == dst_ip[22:0];
    ip_hosts  <= dst_ip == eth_pkg::IP_ALL_HOSTS;

    ip_malformed <= version != 4'd4 || ihl < 4'd5 || total_length < ip_header;
    ip_truncated <= {1'b0, bytes} < {1'b0, l3_start} + {1'b0, total_length};
    fragment     <= more_fragments || fragment_offset != 13'd0;
    is_udp       <= protocol == eth_pkg::IP_PROTO_UDP;
    udp_short    <= udp_length < 16'd8;
    udp_long     <= {1'b0, udp_length} + {1'b0, ip_header} > {1'b0, total_length};
    udp_empty    <= udp_length == 16'd8;
    port_match   <= ((dst_port ^ port) & port_mask) == 16'd0;

    arp_short  <= bytes < l3_start + 16'd28;
    arp_format <= header.l3[223:176] == 48'h0001_0800_0604 && (operation == eth_pkg::ARP_REQUEST ||
                                                               operation == eth_pkg::ARP_REPLY);
    arp_own    <= target_ip == own_ip;

    is_pause  <= (header.dst_mac == eth_pkg::MAC_PAUSE || header.dst_mac == own_mac) && bytes >= 16'd18 &&
                 header.ethertype == eth_pkg::ETHERTYPE_CONTROL && header.l3[223:208] == 16'd1 && !header.vlan;
    is_query  <= igmp && protocol == eth_pkg::IP_PROTO_IGMP && header.l4[63:56] == 8'h11;
    is_echo   <= answer_ping && protocol == eth_pkg::IP_PROTO_ICMP && header.l4[63:48] == 16'h0800 && ihl == 4'd5;
    from_host <= src_ip[31:29] != 3'b111 && src_ip != 32'd0 && src_ip != own_ip && !header.src_mac[40];
    from_many <= ((src_ip ^ own_ip) & netmask) == 32'd0 && (src_ip | netmask) == 32'hffff_ffff && netmask[1:0] == 2'b00;
    l4_short  <= total_length < {10'd0, ihl, 2'b00} + 16'd8;
  end

  // ---- 2: the verdict as far as it does not wait for sums: early, before the IPv4 sum counts; middle; late, behind the UDP sum

  logic [3:0] early, middle, late;
  logic decided_early, decided_middle, arp;

  wire mac_passes = promiscuous || to_own || to_all || to_group || to_hosts;
  wire ip_passes = promiscuous || (to_own && ip_own) || (to_all && ip_all) || (to_group && ip_group && ip_same_group);
  wire arp_good = is_arp && arp_format && (to_own || to_all);
  wire query = is_query && !l4_short && ((to_hosts && ip_hosts) || (to_group && ip_group && ip_same_group));
  wire echo = is_echo && to_own && ip_own && from_host && !from_many && !l4_short;

  always_ff @(posedge clk) begin
    decided_early <= 1'b1;
    if (damaged) early <= rx_pkg::VERDICT_BAD;
    else if (runt || oversize) early <= rx_pkg::VERDICT_LENGTH;
    else if (is_pause) early <= rx_pkg::VERDICT_PAUSE;
    else if (!mac_passes) early <= rx_pkg::VERDICT_MAC;
    else if (has_tag && !accept_vlan) early <= rx_pkg::VERDICT_VLAN;
    else if (short_tag || (is_arp && arp_short) || (is_ip && (ip_malformed || ip_truncated))) early <= rx_pkg::VERDICT_LENGTH;
    else if (!is_ip) early <= (to_own || (arp_good && arp_own)) ? rx_pkg::VERDICT_CPU : rx_pkg::VERDICT_OTHER;
    else begin
      early         <= rx_pkg::VERDICT_APP;
      decided_early <= 1'b0;
    end

    decided_middle <= 1'b1;
    if (!ip_passes && !query) middle <= rx_pkg::VERDICT_IP;
    else if (fragment) middle <= rx_pkg::VERDICT_FRAGMENT;
    else if (query || echo) decided_middle <= 1'b0;
    else if (!is_udp) middle <= (to_own && ip_own) ? rx_pkg::VERDICT_CPU : rx_pkg::VERDICT_OTHER;
    else if (udp_short || udp_long) middle <= rx_pkg::VERDICT_LENGTH;
    else begin
      middle         <= rx_pkg::VERDICT_APP;
      decided_middle <= 1'b0;
    end

    if (query) late <= rx_pkg::VERDICT_IGMP;
    else if (echo) late <= rx_pkg::VERDICT_ECHO;
    else if (!port_match) late <= (cpu_ports && (ip_own || ip_all)) ? rx_pkg::VERDICT_CPU : rx_pkg::VERDICT_PORT;
    else if (udp_empty) late <= rx_pkg::VERDICT_LENGTH;
    else late <= rx_pkg::VERDICT_APP;

    arp <= !damaged && !runt && !oversize && !(has_tag && !accept_vlan) && !short_tag && !arp_short && arp_good;
  end

  // ---- 3 to 10: wait for the sums; 11: the verdict --------------------------------------------------------------------------

  localparam int ARP = 1 + 48 + 32 + 32;

  logic decided_early_10, decided_middle_10, arp_10;
  logic [3:0] early_10, middle_10, late_10;

  logic [9:0] valid_at;  // reset reaches every stage, or a frame that a reset met would be judged behind it
  wire        valid_10 = valid_at[9];
  delay_line #(.BITS(15), .CYCLES(8)) wait_verdict (
      .clk,
      .d({decided_early, decided_middle, arp, early, middle, late}),
      .q({decided_early_10, decided_middle_10, arp_10, early_10, middle_10, late_10})
  );
  delay_line #(.BITS(ARP), .CYCLES(11)) wait_arp (
      .clk,
      .d({operation == eth_pkg::ARP_REQUEST, sender_mac, sender_ip, target_ip}),
      .q({arp_request, arp_sender_mac, arp_sender_ip, arp_target_ip})
  );
  delay_line #(.BITS(56), .CYCLES(11)) wait_query (
      .clk, .d({header.l4[55:48], header.l4[31:0], header.l3[207:192]}), .q({query_max, query_group, pause_quanta})
  );

  always_ff @(posedge clk) begin
    valid_at      <= rst ? '0 : {valid_at[8:0], valid};
    verdict_valid <= valid_10 && !rst;
    verdict       <= decided_early_10 ? early_10 : !ip_good ? rx_pkg::VERDICT_IP_CHECKSUM : decided_middle_10 ? middle_10
                     : !l4_good ? rx_pkg::VERDICT_UDP_CHECKSUM : late_10;
    arp_valid     <= valid_10 && arp_10 && !rst;
  end

endmodule

`default_nettype wire
