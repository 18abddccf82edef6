// SPDX-License-Identifier: BSD-3-Clause
// What the modules of the receive path tell each other: the fields of a frame's headers, and what becomes of the frame.
`default_nettype none

/* verilator lint_off UNUSEDPARAM */
package rx_pkg;

  // Bytes of a frame that can hold headers: Ethernet 14, one VLAN tag 4, IPv4 20 to 60, UDP 8.
  localparam int HEADER_SPAN = 86;

  // Fields are numbers (first byte of the wire most significant). Where a frame is too short to hold a field, its value is
  // whatever an earlier frame left there: lengths are checked before fields are believed.
  typedef struct packed {
    logic [47:0]  dst_mac;
    logic [47:0]  src_mac;
    logic         vlan;       // an 802.1Q tag was stepped over,
    logic [15:0]  tci;        // which said this (without one: the Ethernet type's next two bytes)
    logic [15:0]  ethertype;  // behind the tag
    logic [6:0]   l3_start;   // first byte behind the Ethernet header: 14 or 18
    logic [223:0] l3;         // first 28 bytes there: IPv4 header without its last options, or all of ARP
    logic [6:0]   l4_start;   // first byte behind the IPv4 header
    logic [63:0]  l4;         // first 8 bytes there: the header of UDP, ICMP echo, IGMP
  } header_t;

  // Every frame gets exactly one of these. Those below VERDICT_CPU are drops, with VERDICT_PAUSE one counter each.
  localparam int VERDICTS = 15;
  localparam logic [3:0] VERDICT_MAC          = 4'd0;   // sent to another station
  localparam logic [3:0] VERDICT_IP           = 4'd1;   // sent to another host
  localparam logic [3:0] VERDICT_PORT         = 4'd2;   // UDP of another port
  localparam logic [3:0] VERDICT_IP_CHECKSUM  = 4'd3;
  localparam logic [3:0] VERDICT_UDP_CHECKSUM = 4'd4;   // or that of an echo request or IGMP query
  localparam logic [3:0] VERDICT_LENGTH       = 4'd5;   // lengths that contradict each other or the bytes received
  localparam logic [3:0] VERDICT_FRAGMENT     = 4'd6;
  localparam logic [3:0] VERDICT_OTHER        = 4'd7;   // a protocol that nobody here takes
  localparam logic [3:0] VERDICT_VLAN         = 4'd8;   // tagged, and tags are not accepted
  localparam logic [3:0] VERDICT_BAD          = 4'd9;   // flagged by the MAC: FCS, symbol error
  localparam logic [3:0] VERDICT_CPU          = 4'd10;  // to the CPU's receive buffer
  localparam logic [3:0] VERDICT_APP          = 4'd11;  // payload to the application
  localparam logic [3:0] VERDICT_ECHO         = 4'd12;  // ICMP echo request, answered in hardware
  localparam logic [3:0] VERDICT_IGMP         = 4'd13;  // IGMP query, answered in hardware
  localparam logic [3:0] VERDICT_PAUSE        = 4'd14;  // pause frame, honoured or not

endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire
