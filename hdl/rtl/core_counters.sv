// SPDX-License-Identifier: BSD-3-Clause
// The core's counters of events, 64 bits each, and its rates.
//
// Contract: every event input that is high in a cycle counts once (vectors: once a bit). `value` is the counter at `address` (of its
// low word in the register map), one cycle later; `found` says whether there is one. `clear` zeroes all, and begins a new
// second; events in that cycle are lost. A second has CLOCK_HZ cycles. Latency: 3 cycles from an event to its counter.
`default_nettype none

module core_counters #(
    parameter int CLOCK_HZ = 390625000,
    parameter int TX_APPS  = 1
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                clear,

    input  wire                tx_packet,
    input  wire  [15:0]        tx_bytes,        // of it
    input  wire  [TX_APPS-1:0] tx_overflow,
    input  wire  [TX_APPS-1:0] tx_almost_full,
    input  wire  [TX_APPS-1:0] tx_oversize,
    input  wire                tx_no_arp,
    input  wire                rx_frame,
    input  wire  [9:0]         rx_drop,         // by verdict (rx_pkg)
    input  wire                rx_stored,
    input  wire  [15:0]        rx_stored_bytes,
    input  wire                rx_overflow,
    input  wire                rx_almost_full,
    input  wire                cpu_stored,
    input  wire                cpu_full,
    input  wire                echo_stored,
    input  wire                echo_full,
    input  wire                query_valid,
    input  wire                igmp_sent,
    input  wire                pause_valid,
    input  wire                tx_held,

    input  wire  [15:0]        address,
    output logic [63:0]        value,
    output logic               found
);

  localparam int COUNTERS = 20;

  function automatic logic [15:0] ones(input logic [TX_APPS-1:0] x);
    ones = 16'd0;
    for (int i = 0; i < TX_APPS; i++) ones = ones + {15'd0, x[i]};
  endfunction

  // Events registered once, so that none of them has to reach across the core in the cycle in which it is found.
  logic [16*COUNTERS-1:0] add;
  logic [9:0]             drop;
  wire damaged = rx_drop[rx_pkg::VERDICT_BAD] || rx_drop[rx_pkg::VERDICT_LENGTH] ||
                 rx_drop[rx_pkg::VERDICT_IP_CHECKSUM] || rx_drop[rx_pkg::VERDICT_UDP_CHECKSUM];

  always_ff @(posedge clk) begin
    add[16*0+:16] <= {15'd0, tx_packet};
    add[16*1+:16] <= tx_packet ? tx_bytes : 16'd0;
    add[16*2+:16] <= ones(tx_overflow);
    add[16*3+:16] <= ones(tx_almost_full);
    add[16*4+:16] <= {15'd0, rx_stored};
    add[16*5+:16] <= rx_stored ? rx_stored_bytes : 16'd0;
    add[16*6+:16] <= {15'd0, rx_overflow};
    add[16*7+:16] <= {15'd0, damaged};
    add[16*8+:16] <= {15'd0, rx_almost_full};
    add[16*9+:16] <= {15'd0, tx_no_arp};
    add[16*10+:16] <= ones(tx_oversize);
    add[16*11+:16] <= {15'd0, cpu_full};
    add[16*12+:16] <= {15'd0, cpu_stored};
    add[16*13+:16] <= {15'd0, rx_frame};
    add[16*14+:16] <= {15'd0, echo_stored};
    add[16*15+:16] <= {15'd0, echo_full};
    add[16*16+:16] <= {15'd0, query_valid};
    add[16*17+:16] <= {15'd0, igmp_sent};
    add[16*18+:16] <= {15'd0, pause_valid};
    add[16*19+:16] <= {15'd0, tx_held};
    drop <= rx_drop;
    if (rst) begin
      add  <= '0;
      drop <= '0;
    end
  end

  logic [64*COUNTERS-1:0] total;
  logic [64*10-1:0]       drop_total;  // by verdict
  logic [39:0] tx_packet_rate, tx_byte_rate, rx_packet_rate, rx_byte_rate;
  logic [31:0] cycle;
  logic        tick;

  always_ff @(posedge clk) begin
    tick  <= cycle == 32'(CLOCK_HZ - 1);
    cycle <= cycle == 32'(CLOCK_HZ - 1) ? 32'd0 : cycle + 1'b1;
    if (rst || clear) begin
      tick  <= 1'b0;
      cycle <= 32'd0;
    end
  end

  genvar g;
  generate
    for (g = 0; g < COUNTERS; g = g + 1) begin : g_counter
      event_counter count (.clk, .rst, .clear, .add(add[16*g+:16]), .total(total[64*g+:64]));
    end
    for (g = 0; g < 10; g = g + 1) begin : g_drop
      event_counter count (.clk, .rst, .clear, .add({15'd0, drop[g]}), .total(drop_total[64*g+:64]));
    end
  endgenerate

  rate_counter rate_tx_packets (.clk, .rst, .clear, .tick, .add(add[16*0+:16]), .rate(tx_packet_rate));
  rate_counter rate_tx_bytes (.clk, .rst, .clear, .tick, .add(add[16*1+:16]), .rate(tx_byte_rate));
  rate_counter rate_rx_packets (.clk, .rst, .clear, .tick, .add(add[16*4+:16]), .rate(rx_packet_rate));
  rate_counter rate_rx_bytes (.clk, .rst, .clear, .tick, .add(add[16*5+:16]), .rate(rx_byte_rate));

  always_ff @(posedge clk) begin
    found <= 1'b1;
    case (address)
      regs_pkg::REG_TX_PACKET_RATE:    value <= {24'd0, tx_packet_rate};
      regs_pkg::REG_TX_PACKETS:        value <= total[64*0+:64];
      regs_pkg::REG_TX_BYTE_RATE:      value <= {24'd0, tx_byte_rate};
      regs_pkg::REG_TX_BYTES:          value <= total[64*1+:64];
      regs_pkg::REG_TX_OVERFLOW:       value <= total[64*2+:64];
      regs_pkg::REG_TX_ALMOST_FULL:    value <= total[64*3+:64];
      regs_pkg::REG_RX_PACKET_RATE:    value <= {24'd0, rx_packet_rate};
      regs_pkg::REG_RX_PACKETS:        value <= total[64*4+:64];
      regs_pkg::REG_RX_BYTE_RATE:      value <= {24'd0, rx_byte_rate};
      regs_pkg::REG_RX_BYTES:          value <= total[64*5+:64];
      regs_pkg::REG_RX_OVERFLOW:       value <= total[64*6+:64];
      regs_pkg::REG_RX_BAD:            value <= total[64*7+:64];
      regs_pkg::REG_RX_ALMOST_FULL:    value <= total[64*8+:64];
      regs_pkg::REG_DROP_MAC:          value <= drop_total[{rx_pkg::VERDICT_MAC, 6'd0}+:64];
      regs_pkg::REG_DROP_IP:           value <= drop_total[{rx_pkg::VERDICT_IP, 6'd0}+:64];
      regs_pkg::REG_DROP_PORT:         value <= drop_total[{rx_pkg::VERDICT_PORT, 6'd0}+:64];
      regs_pkg::REG_DROP_IP_CHECKSUM:  value <= drop_total[{rx_pkg::VERDICT_IP_CHECKSUM, 6'd0}+:64];
      regs_pkg::REG_DROP_UDP_CHECKSUM: value <= drop_total[{rx_pkg::VERDICT_UDP_CHECKSUM, 6'd0}+:64];
      regs_pkg::REG_DROP_LENGTH:       value <= drop_total[{rx_pkg::VERDICT_LENGTH, 6'd0}+:64];
      regs_pkg::REG_DROP_FRAGMENT:     value <= drop_total[{rx_pkg::VERDICT_FRAGMENT, 6'd0}+:64];
      regs_pkg::REG_DROP_OTHER:        value <= drop_total[{rx_pkg::VERDICT_OTHER, 6'd0}+:64];
      regs_pkg::REG_DROP_VLAN:         value <= drop_total[{rx_pkg::VERDICT_VLAN, 6'd0}+:64];
      regs_pkg::REG_RX_BAD_MAC:        value <= drop_total[{rx_pkg::VERDICT_BAD, 6'd0}+:64];
      regs_pkg::REG_TX_NO_ARP:         value <= total[64*9+:64];
      regs_pkg::REG_TX_OVERSIZE:       value <= total[64*10+:64];
      regs_pkg::REG_CPU_RX_FULL:       value <= total[64*11+:64];
      regs_pkg::REG_CPU_RX_FRAMES:     value <= total[64*12+:64];
      regs_pkg::REG_RX_FRAMES:         value <= total[64*13+:64];
      regs_pkg::REG_ECHO_REPLIES:       value <= total[64*14+:64];
      regs_pkg::REG_ECHO_FULL:          value <= total[64*15+:64];
      regs_pkg::REG_IGMP_QUERIES:       value <= total[64*16+:64];
      regs_pkg::REG_IGMP_SENT:          value <= total[64*17+:64];
      regs_pkg::REG_RX_PAUSE:           value <= total[64*18+:64];
      regs_pkg::REG_TX_HELD:            value <= total[64*19+:64];
      default: begin
        value <= 64'd0;
        found <= 1'b0;
      end
    endcase
  end

endmodule

`default_nettype wire
