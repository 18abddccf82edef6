// SPDX-License-Identifier: BSD-3-Clause
// Constants of Ethernet, IPv4, UDP and ARP, and the functions that put network byte order on a stream.
//
// Byte n of a frame lies at bits [8n+7:8n] of the stream, so the first byte sent is the least significant one. Header
// fields are written in the usual way, most significant byte first; `swapN` turns such a number into stream order.
`default_nettype none

/* verilator lint_off UNUSEDPARAM */  // no module uses every constant
/* verilator lint_off UNUSEDSIGNAL */  // nor a multicast test every bit of an address
package eth_pkg;

  localparam logic [15:0] ETHERTYPE_IPV4 = 16'h0800;
  localparam logic [15:0] ETHERTYPE_ARP  = 16'h0806;
  localparam logic [15:0] ETHERTYPE_VLAN = 16'h8100;
  localparam logic [15:0] ETHERTYPE_CONTROL = 16'h8808;  // MAC control: pause frames
  localparam logic [7:0]  IP_PROTO_ICMP  = 8'd1;
  localparam logic [7:0]  IP_PROTO_IGMP  = 8'd2;
  localparam logic [7:0]  IP_PROTO_UDP   = 8'd17;
  localparam logic [7:0]  IP_TTL         = 8'd64;  // after reset
  localparam logic [15:0] ARP_REQUEST    = 16'd1;
  localparam logic [15:0] ARP_REPLY      = 16'd2;
  localparam logic [47:0] MAC_BROADCAST  = 48'hffff_ffff_ffff;
  localparam logic [47:0] MAC_PAUSE      = 48'h0180_c200_0001;
  localparam logic [31:0] IP_ALL_HOSTS   = 32'he000_0001;  // 224.0.0.1
  localparam logic [31:0] IP_ALL_ROUTERS = 32'he000_0002;

  localparam int ETH_HEADER  = 14;  // bytes
  localparam int IPV4_HEADER = 20;  // without options
  localparam int UDP_HEADER  = 8;
  localparam int HEADERS     = ETH_HEADER + IPV4_HEADER + UDP_HEADER;  // the 42 bytes before a UDP payload
  localparam int MIN_FRAME   = 60;  // without FCS: what a MAC pads short frames to

  // Network byte order <-> stream order.
  function automatic logic [15:0] swap2(input logic [15:0] x);
    swap2 = {x[7:0], x[15:8]};
  endfunction

  function automatic logic [31:0] swap4(input logic [31:0] x);
    swap4 = {x[7:0], x[15:8], x[23:16], x[31:24]};
  endfunction

  function automatic logic [47:0] swap6(input logic [47:0] x);
    swap6 = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40]};
  endfunction

  // Sum of 16-bit words kept in 32 bits -> 16-bit ones' complement sum (end-around carry, twice: the first may carry).
  function automatic logic [15:0] ones_fold(input logic [31:0] x);
    logic [16:0] once;
    once = {1'b0, x[31:16]} + {1'b0, x[15:0]};
    ones_fold = once[15:0] + {15'd0, once[16]};
  endfunction

  // Rows that ones_layer makes of so many.
  function automatic int ones_rows(input int rows);
    ones_rows = rows / 6 * 3 + (rows % 6 < 3 ? rows % 6 : rows % 6 == 3 ? 2 : 3);
  endfunction

  // IPv4 multicast: the top four bits of the address are 1110 (224.0.0.0/4).
  function automatic logic is_multicast(input logic [31:0] ip);
    is_multicast = (ip[31:28] == 4'b1110);
  endfunction

  // RFC 1112: 01:00:5e and the low 23 bits of the group's address.
  function automatic logic [47:0] multicast_mac(input logic [31:0] ip);
    multicast_mac = {25'b0000_0001_0000_0000_0101_1110_0, ip[22:0]};
  endfunction

endpackage
/* verilator lint_on UNUSEDPARAM */
/* verilator lint_on UNUSEDSIGNAL */

`default_nettype wire
