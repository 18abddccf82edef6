// SPDX-License-Identifier: BSD-3-Clause
// Addresses of the core's registers (src/ryle/fpga/registers.toml says what they mean; a test compares the two).
`default_nettype none

/* verilator lint_off UNUSEDPARAM */
package regs_pkg;

  localparam logic [15:0] REG_CORE_TYPE         = 16'h00;
  localparam logic [15:0] REG_BUFFER_SIZES      = 16'h04;
  localparam logic [15:0] REG_WORD_LENGTHS      = 16'h08;
  localparam logic [15:0] REG_MAC_HIGH          = 16'h0c;
  localparam logic [15:0] REG_MAC_LOW           = 16'h10;
  localparam logic [15:0] REG_IP                = 16'h14;
  localparam logic [15:0] REG_GATEWAY           = 16'h18;
  localparam logic [15:0] REG_NETMASK           = 16'h1c;
  localparam logic [15:0] REG_MULTICAST_IP      = 16'h20;
  localparam logic [15:0] REG_MULTICAST_MASK    = 16'h24;
  localparam logic [15:0] REG_BYTES_READY       = 16'h28;
  localparam logic [15:0] REG_CONTROL           = 16'h2c;
  localparam logic [15:0] REG_PORT              = 16'h30;
  localparam logic [15:0] REG_PHY_STATUS_HIGH   = 16'h34;
  localparam logic [15:0] REG_PHY_STATUS        = 16'h38;
  localparam logic [15:0] REG_PHY_CONTROL_HIGH  = 16'h3c;
  localparam logic [15:0] REG_PHY_CONTROL       = 16'h40;
  localparam logic [15:0] REG_ARP_SIZE          = 16'h44;
  localparam logic [15:0] REG_TX_PACKET_RATE    = 16'h48;
  localparam logic [15:0] REG_TX_PACKETS        = 16'h4c;
  localparam logic [15:0] REG_TX_BYTE_RATE      = 16'h50;
  localparam logic [15:0] REG_TX_BYTES          = 16'h54;
  localparam logic [15:0] REG_TX_OVERFLOW       = 16'h58;
  localparam logic [15:0] REG_TX_ALMOST_FULL    = 16'h5c;
  localparam logic [15:0] REG_RX_PACKET_RATE    = 16'h60;
  localparam logic [15:0] REG_RX_PACKETS        = 16'h64;
  localparam logic [15:0] REG_RX_BYTE_RATE      = 16'h68;
  localparam logic [15:0] REG_RX_BYTES          = 16'h6c;
  localparam logic [15:0] REG_RX_OVERFLOW       = 16'h70;
  localparam logic [15:0] REG_RX_BAD            = 16'h74;
  localparam logic [15:0] REG_COUNTER_RESET     = 16'h78;
  localparam logic [15:0] REG_RX_ALMOST_FULL    = 16'h7c;
  localparam logic [15:0] REG_ARP_IP            = 16'h80;
  localparam logic [15:0] REG_ARP_MAC_HIGH      = 16'h84;
  localparam logic [15:0] REG_ARP_MAC_LOW       = 16'h88;
  localparam logic [15:0] REG_ARP_COMMAND       = 16'h8c;
  localparam logic [15:0] REG_ARP_STATUS        = 16'h90;
  localparam logic [15:0] REG_ARP_ENTRY_IP      = 16'h94;
  localparam logic [15:0] REG_CLOCK_STATUS      = 16'hb8;
  localparam logic [15:0] REG_DROP_MAC          = 16'hc0;
  localparam logic [15:0] REG_DROP_IP           = 16'hc4;
  localparam logic [15:0] REG_DROP_PORT         = 16'hc8;
  localparam logic [15:0] REG_DROP_IP_CHECKSUM  = 16'hcc;
  localparam logic [15:0] REG_DROP_UDP_CHECKSUM = 16'hd0;
  localparam logic [15:0] REG_DROP_LENGTH       = 16'hd4;
  localparam logic [15:0] REG_DROP_FRAGMENT     = 16'hd8;
  localparam logic [15:0] REG_DROP_OTHER        = 16'hdc;
  localparam logic [15:0] REG_TX_NO_ARP         = 16'he0;
  localparam logic [15:0] REG_TX_OVERSIZE       = 16'he4;
  localparam logic [15:0] REG_CPU_RX_FULL       = 16'he8;
  localparam logic [15:0] REG_DROP_VLAN         = 16'hec;
  localparam logic [15:0] REG_RX_BAD_MAC        = 16'hf0;
  localparam logic [15:0] REG_CPU_RX_FRAMES     = 16'hf4;
  localparam logic [15:0] REG_RX_FRAMES         = 16'hf8;
  localparam logic [15:0] REG_RYLE_VERSION      = 16'hfc;

  localparam logic [15:0] REG_TX_HEADER         = 16'h300;
  localparam logic [15:0] REG_TX_VLAN           = 16'h304;
  localparam logic [15:0] REG_IGMP_STATUS       = 16'h308;
  localparam logic [15:0] REG_ECHO_REPLIES      = 16'h310;
  localparam logic [15:0] REG_ECHO_FULL         = 16'h314;
  localparam logic [15:0] REG_IGMP_QUERIES      = 16'h318;
  localparam logic [15:0] REG_IGMP_SENT         = 16'h31c;
  localparam logic [15:0] REG_RX_PAUSE          = 16'h320;
  localparam logic [15:0] REG_TX_HELD           = 16'h324;

  localparam logic [15:0] COUNTER_HIGH = 16'h100;  // from a counter's low word to its high word

  localparam logic [15:0] MEM_ARP    = 16'h1000;  // 2 KiB
  localparam logic [15:0] MEM_CPU_TX = 16'h4000;  // 8 KiB
  localparam logic [15:0] MEM_CPU_RX = 16'h8000;  // 8 KiB

  localparam logic [15:0] EXT_FIRST  = 16'h98;    // to the application behind the core: these
  localparam logic [15:0] EXT_LAST   = 16'hb0;
  localparam logic [15:0] EXT_PAGE   = 16'h200;   // and 256 bytes here

  // Bits of REG_CONTROL
  localparam int CONTROL_ENABLE       = 0;
  localparam int CONTROL_UDP_CHECKSUM = 24;
  localparam int CONTROL_ACCEPT_VLAN  = 25;
  localparam int CONTROL_ANSWER_ARP   = 26;
  localparam int CONTROL_CPU_PORTS    = 27;
  localparam int CONTROL_ANSWER_PING  = 28;
  localparam int CONTROL_IGMP         = 29;
  localparam int CONTROL_HONOUR_PAUSE = 30;
  localparam int CONTROL_PROMISCUOUS  = 8;
  localparam int CONTROL_SOFT_RESET   = 16;

endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire
