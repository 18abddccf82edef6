// SPDX-License-Identifier: BSD-3-Clause
// The receive half with its registers and ARP, joined as the core joins them: what test_rx_half.py and the vector bench drive.
`default_nettype none

module rx_half #(
    parameter int WIDTH    = 64,
    parameter int CLOCK_HZ = 20000,
    parameter int DEPTH    = 524288 / WIDTH,
    parameter int FRAMES   = 256
) (
    input  wire                s_axi_aclk,
    input  wire                s_axi_rst,
    input  wire  [15:0]        s_axi_awaddr,
    input  wire                s_axi_awvalid,
    output logic               s_axi_awready,
    input  wire  [31:0]        s_axi_wdata,
    input  wire  [3:0]         s_axi_wstrb,
    input  wire                s_axi_wvalid,
    output logic               s_axi_wready,
    output logic [1:0]         s_axi_bresp,
    output logic               s_axi_bvalid,
    input  wire                s_axi_bready,
    input  wire  [15:0]        s_axi_araddr,
    input  wire                s_axi_arvalid,
    output logic               s_axi_arready,
    output logic [31:0]        s_axi_rdata,
    output logic [1:0]         s_axi_rresp,
    output logic               s_axi_rvalid,
    input  wire                s_axi_rready,

    input  wire                clk,
    input  wire                rst,
    input  wire                app_clk,
    input  wire                app_rst,

    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    input  wire                s_axis_tlast,
    input  wire                s_axis_tuser,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [15:0]        m_axis_length,
    output logic [31:0]        m_axis_src_ip,
    output logic [15:0]        m_axis_src_port,
    output logic [31:0]        m_axis_dst_ip,
    output logic [15:0]        m_axis_dst_port,

    output logic [WIDTH-1:0]   echo_axis_tdata,
    output logic [WIDTH/8-1:0] echo_axis_tkeep,
    output logic               echo_axis_tvalid,
    input  wire                echo_axis_tready,
    output logic               echo_axis_tlast,

    output logic               query_valid,
    output logic [7:0]         query_max,
    output logic [31:0]        query_group,
    output logic               pause_valid,
    output logic [15:0]        pause_quanta,
    input  wire                igmp_sent,
    input  wire                igmp_joined,
    input  wire                tx_held,

    output logic [WIDTH-1:0]   arp_axis_tdata,
    output logic [WIDTH/8-1:0] arp_axis_tkeep,
    output logic               arp_axis_tvalid,
    input  wire                arp_axis_tready,
    output logic               arp_axis_tlast,

    input  wire                lookup_valid,
    input  wire  [31:0]        lookup_ip,
    output logic               result_valid,
    output logic               result_hit,
    output logic [47:0]        result_mac,

    input  wire                tx_packet,
    input  wire  [15:0]        tx_bytes,
    input  wire  [1:0]         tx_overflow,
    input  wire  [1:0]         tx_almost_full,
    input  wire  [1:0]         tx_oversize,
    input  wire                tx_no_arp,
    input  wire  [63:0]        phy_status,
    output logic [63:0]        phy_control,
    output logic               soft_reset,
    output logic               udp_checksum,

    output logic               cpu_tx_write,
    output logic [10:0]        cpu_tx_word,
    output logic [31:0]        cpu_tx_write_data,
    input  wire  [31:0]        cpu_tx_read_data,
    output logic               cpu_tx_send,
    output logic [15:0]        cpu_tx_send_bytes,
    input  wire                cpu_tx_busy,

    output logic               ext_wr,
    output logic               ext_rd,
    output logic [11:0]        ext_addr,
    output logic [31:0]        ext_wdata,
    input  wire  [31:0]        ext_rdata,
    input  wire                ext_ack
);

  logic enable, accept_vlan, answer_arp, cpu_ports, answer_ping, igmp, promiscuous, echo_stored, echo_full;
  /* verilator lint_off UNUSEDSIGNAL */  // of the transmit half
  logic honour_pause, vlan_insert;
  logic [7:0] ttl, tos;
  logic [15:0] vlan_tci;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [47:0] own_mac;
  logic [31:0] own_ip, gateway, netmask, group, group_mask;
  logic [15:0] port, port_mask;
  logic rx_frame, rx_stored, rx_overflow, rx_almost_full, cpu_stored, cpu_full;
  logic [9:0] rx_drop;
  logic [15:0] rx_stored_bytes;
  logic arp_clear, arp_access_valid, arp_access_write, arp_access_ready, arp_access_used, arp_clearing;
  logic [31:0] arp_access_ip, arp_access_entry_ip;
  logic [47:0] arp_access_mac, arp_access_entry_mac;
  logic [10:0] cpu_rx_word;
  logic [31:0] cpu_rx_read_data;
  logic [15:0] cpu_rx_bytes_ready;
  logic cpu_rx_free;
  logic arp_valid, arp_request;
  logic [47:0] arp_sender_mac;
  logic [31:0] arp_sender_ip, arp_target_ip;
  logic learn_valid, learn_known_only, learn_ready, reply_valid, reply_ready, request_valid, request_ready;
  logic [31:0] learn_ip, reply_ip, request_ip;
  logic [47:0] learn_mac, reply_mac;

  axil_regs #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ), .TX_APPS(2)) regs (.*);

  // The data path's reset reaches both of its clocks, as in the core.
  logic path_rst, app_soft_reset;
  cdc_bit cross_reset (.clk(app_clk), .d(path_rst), .q(app_soft_reset));
  always_ff @(posedge clk) path_rst <= rst || soft_reset;

  rx_path #(.WIDTH(WIDTH), .DEPTH(DEPTH), .FRAMES(FRAMES)) path (
      .rst(path_rst), .app_rst(app_rst || app_soft_reset),
      .m_length(m_axis_length), .m_src_ip(m_axis_src_ip), .m_src_port(m_axis_src_port),
      .m_dst_ip(m_axis_dst_ip), .m_dst_port(m_axis_dst_port),
      .cpu_bytes_ready(cpu_rx_bytes_ready), .cpu_free(cpu_rx_free), .cpu_read_word(cpu_rx_word),
      .cpu_read_data(cpu_rx_read_data), .*
  );

  arp_table #(.CLOCK_HZ(CLOCK_HZ)) arp (
      .clear(arp_clear), .access_valid(arp_access_valid), .access_write(arp_access_write), .access_ip(arp_access_ip),
      .access_mac(arp_access_mac), .access_ready(arp_access_ready), .access_used(arp_access_used),
      .access_entry_ip(arp_access_entry_ip), .access_entry_mac(arp_access_entry_mac), .clearing(arp_clearing), .*
  );

  arp_responder responder (.answer(answer_arp && enable), .*);

  arp_sender #(.WIDTH(WIDTH)) sender (
      .ask(enable), .m_axis_tdata(arp_axis_tdata), .m_axis_tkeep(arp_axis_tkeep), .m_axis_tvalid(arp_axis_tvalid),
      .m_axis_tready(arp_axis_tready), .m_axis_tlast(arp_axis_tlast), .*
  );

endmodule

`default_nettype wire
