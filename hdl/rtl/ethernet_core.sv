// SPDX-License-Identifier: BSD-3-Clause
// Ryle's UDP/IPv4 core: applications' payloads <-> frames of a MAC, with registers on CASPER's map.
//
// TX_APPS applications stream payloads in (s_axis, one clock each), one streams received payloads out (m_axis). The MAC side is
// two AXI4-Streams of frames without preamble and FCS in `clk`; 390.625 MHz at 1024 bits is 400 Gb/s. hdl/README.md draws it.
//
// Contracts: of s_axis and its sideband, tx_ring's; of m_axis, rx_path's; of mac_tx_axis, tx_path's (a frame that has begun never
// pauses but for tready); mac_rx_axis has no tready and never needs one, tuser on the last beat marks a bad frame. Sideband
// of application i: bits [i*32 +: 32] and so on. MAC control frames must come in, for `honour_pause`. `app_tx_clk`
// and `app_rx_clk` must run. Registers answer whatever `clk` and `rst` do (axil_bridge). ext_*: register accesses at 98..B0 and
// 200..2FF, in `clk`, answered by ext_ack.
// The register bit soft_reset resets everything but registers, counters and ARP table, between frames: those that have begun at
// mac_tx_axis and m_axis go on to their ends, and the reset waits for that. Of a packet that has begun at s_axis, or a frame at
// mac_rx_axis, the rest is taken and goes nowhere. `rst` waits for nothing.
// Latency: about 24 cycles from a payload's last beat to its frame's first, and rx_path's for received frames.
`default_nettype none

module ethernet_core #(
    parameter int WIDTH       = 1024,
    parameter int TX_APPS     = 1,
    parameter int CLOCK_HZ    = 390625000,
    parameter int TX_DEPTH    = 262144 / WIDTH,  // beats of each application's ring: 32 KiB
    parameter int TX_FRAMES   = 64,
    parameter int RX_DEPTH    = 524288 / WIDTH,  // 64 KiB
    parameter int RX_FRAMES   = 256,
    parameter int MAX_PAYLOAD = 9000,
    parameter int CPU_TX      = 2048,            // bytes
    parameter int CPU_SLOTS   = 8,
    parameter int QUANTA_256  = WIDTH / 2        // 256ths of 512 bit times of the line in a clock (pause_timer)
) (
    input  wire                        clk,
    input  wire                        rst,

    // Applications that transmit.
    input  wire  [TX_APPS-1:0]         app_tx_clk,
    output logic [TX_APPS-1:0]         app_tx_rst,
    input  wire  [TX_APPS*WIDTH-1:0]   s_axis_tdata,
    input  wire  [TX_APPS*WIDTH/8-1:0] s_axis_tkeep,
    input  wire  [TX_APPS-1:0]         s_axis_tvalid,
    output logic [TX_APPS-1:0]         s_axis_tready,
    input  wire  [TX_APPS-1:0]         s_axis_tlast,
    input  wire  [TX_APPS-1:0]         s_axis_tuser,
    input  wire  [TX_APPS*32-1:0]      s_axis_dst_ip,
    input  wire  [TX_APPS*16-1:0]      s_axis_dst_port,
    input  wire  [TX_APPS*16-1:0]      s_axis_src_port,

    // The application that receives.
    input  wire                        app_rx_clk,
    output logic                       app_rx_rst,
    output logic [WIDTH-1:0]           m_axis_tdata,
    output logic [WIDTH/8-1:0]         m_axis_tkeep,
    output logic                       m_axis_tvalid,
    input  wire                        m_axis_tready,
    output logic                       m_axis_tlast,
    output logic [15:0]                m_axis_length,
    output logic [31:0]                m_axis_src_ip,
    output logic [15:0]                m_axis_src_port,
    output logic [31:0]                m_axis_dst_ip,
    output logic [15:0]                m_axis_dst_port,

    // MAC.
    output logic [WIDTH-1:0]           mac_tx_axis_tdata,
    output logic [WIDTH/8-1:0]         mac_tx_axis_tkeep,
    output logic                       mac_tx_axis_tvalid,
    input  wire                        mac_tx_axis_tready,
    output logic                       mac_tx_axis_tlast,
    input  wire  [WIDTH-1:0]           mac_rx_axis_tdata,
    input  wire  [WIDTH/8-1:0]         mac_rx_axis_tkeep,
    input  wire                        mac_rx_axis_tvalid,
    input  wire                        mac_rx_axis_tlast,
    input  wire                        mac_rx_axis_tuser,
    input  wire  [63:0]                phy_status,   // registers 34 (high word) and 38; in clk
    output logic [63:0]                phy_control,  // registers 3C (high word) and 40; in clk

    // Registers.
    input  wire                        s_axi_aclk,
    input  wire                        s_axi_aresetn,
    input  wire  [15:0]                s_axi_awaddr,
    input  wire                        s_axi_awvalid,
    output logic                       s_axi_awready,
    input  wire  [31:0]                s_axi_wdata,
    input  wire  [3:0]                 s_axi_wstrb,
    input  wire                        s_axi_wvalid,
    output logic                       s_axi_wready,
    output logic [1:0]                 s_axi_bresp,
    output logic                       s_axi_bvalid,
    input  wire                        s_axi_bready,
    input  wire  [15:0]                s_axi_araddr,
    input  wire                        s_axi_arvalid,
    output logic                       s_axi_arready,
    output logic [31:0]                s_axi_rdata,
    output logic [1:0]                 s_axi_rresp,
    output logic                       s_axi_rvalid,
    input  wire                        s_axi_rready,

    // Application's registers.
    output logic                       ext_wr,
    output logic                       ext_rd,
    output logic [11:0]                ext_addr,
    output logic [31:0]                ext_wdata,
    input  wire  [31:0]                ext_rdata,
    input  wire                        ext_ack
);

  // ---- resets -----------------------------------------------------------------------------------------------------------

  logic soft_reset, path_rst, open, closed;
  logic [TX_APPS:0] app_open, app_closed;

  reset_domains #(.N(TX_APPS + 1)) resets (
      .clk, .request(rst), .gentle(soft_reset), .rst(path_rst), .open, .closed,
      .app_clk({app_rx_clk, app_tx_clk}), .app_rst({app_rx_rst, app_tx_rst}), .app_open, .app_closed
  );

  // Between the data path and whoever is not reset with it: gates, which close before a soft reset. Frames from the MAC cannot be
  // held up: rx_parse leaves out the rest of the one that a reset met.
  logic [TX_APPS-1:0] tx_tvalid, tx_tready;
  logic rx_tvalid, rx_tready, out_tvalid, out_tready;

  genvar i;
  generate
    for (i = 0; i < TX_APPS; i = i + 1) begin : g_app
      frame_gate #(.THROW_AWAY(1)) gate (
          .clk(app_tx_clk[i]), .rst(app_tx_rst[i]), .open(app_open[i]), .closed(app_closed[i]),
          .s_axis_tvalid(s_axis_tvalid[i]), .s_axis_tready(s_axis_tready[i]), .s_axis_tlast(s_axis_tlast[i]),
          .m_axis_tvalid(tx_tvalid[i]), .m_axis_tready(tx_tready[i])
      );
    end
  endgenerate
  frame_gate app_rx_gate (
      .clk(app_rx_clk), .rst(app_rx_rst), .open(app_open[TX_APPS]), .closed(app_closed[TX_APPS]),
      .s_axis_tvalid(rx_tvalid), .s_axis_tready(rx_tready), .s_axis_tlast(m_axis_tlast),
      .m_axis_tvalid, .m_axis_tready
  );
  frame_gate mac_tx_gate (
      .clk, .rst(path_rst), .open, .closed,
      .s_axis_tvalid(out_tvalid), .s_axis_tready(out_tready), .s_axis_tlast(mac_tx_axis_tlast),
      .m_axis_tvalid(mac_tx_axis_tvalid), .m_axis_tready(mac_tx_axis_tready)
  );

  // ---- registers --------------------------------------------------------------------------------------------------------

  logic enable, udp_checksum, accept_vlan, answer_arp, cpu_ports, answer_ping, igmp, honour_pause, promiscuous, vlan_insert;
  logic [7:0] ttl, tos;
  logic [15:0] vlan_tci;
  logic [47:0] own_mac;
  logic [31:0] own_ip, gateway, netmask, group, group_mask;
  logic [15:0] port, port_mask;

  logic tx_packet, tx_no_arp, rx_frame, rx_stored, rx_overflow, rx_almost_full, cpu_stored, cpu_full;
  logic echo_stored, echo_full, query_valid, igmp_sent, igmp_joined, pause_valid, tx_held;
  logic [15:0] tx_bytes, rx_stored_bytes;
  logic [TX_APPS-1:0] tx_overflow, tx_almost_full, tx_oversize;
  logic [9:0] rx_drop;

  logic arp_clear, arp_access_valid, arp_access_write, arp_access_ready, arp_access_used, arp_clearing;
  logic [31:0] arp_access_ip, arp_access_entry_ip;
  logic [47:0] arp_access_mac, arp_access_entry_mac;

  logic cpu_tx_write, cpu_tx_send, cpu_tx_busy, cpu_rx_free;
  logic [10:0] cpu_tx_word, cpu_rx_word;
  logic [31:0] cpu_tx_write_data, cpu_tx_read_data, cpu_rx_read_data;
  logic [15:0] cpu_tx_send_bytes, cpu_rx_bytes_ready;

  axil_regs #(.WIDTH(WIDTH), .CLOCK_HZ(CLOCK_HZ), .TX_APPS(TX_APPS), .CPU_TX(CPU_TX)) registers (
      .s_axi_aclk, .s_axi_rst(!s_axi_aresetn),
      .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb, .s_axi_wvalid, .s_axi_wready,
      .s_axi_bresp, .s_axi_bvalid, .s_axi_bready, .s_axi_araddr, .s_axi_arvalid, .s_axi_arready,
      .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready,
      .clk, .rst,
      .enable, .udp_checksum, .accept_vlan, .answer_arp, .cpu_ports, .answer_ping, .igmp, .honour_pause, .promiscuous, .soft_reset,
      .own_mac, .own_ip, .gateway, .netmask, .group, .group_mask, .port, .port_mask, .ttl, .tos, .vlan_insert, .vlan_tci, .phy_control, .phy_status,
      .igmp_joined,
      .tx_packet, .tx_bytes, .tx_overflow, .tx_almost_full, .tx_oversize, .tx_no_arp,
      .rx_frame, .rx_drop, .rx_stored, .rx_stored_bytes, .rx_overflow, .rx_almost_full, .cpu_stored, .cpu_full,
      .echo_stored, .echo_full, .query_valid, .igmp_sent, .pause_valid, .tx_held,
      .arp_clear, .arp_access_valid, .arp_access_write, .arp_access_ip, .arp_access_mac, .arp_access_ready,
      .arp_access_used, .arp_access_entry_ip, .arp_access_entry_mac, .arp_clearing,
      .cpu_tx_write, .cpu_tx_word, .cpu_tx_write_data, .cpu_tx_read_data, .cpu_tx_send, .cpu_tx_send_bytes, .cpu_tx_busy,
      .cpu_rx_word, .cpu_rx_read_data, .cpu_rx_bytes_ready, .cpu_rx_free,
      .ext_wr, .ext_rd, .ext_addr, .ext_wdata, .ext_rdata, .ext_ack
  );

  // ---- transmit ---------------------------------------------------------------------------------------------------------

  logic lookup_valid, lookup_hit;
  logic [31:0] lookup_ip;
  logic [47:0] lookup_mac;
  logic [WIDTH-1:0] host_tdata, sent_tdata, cut_tdata;
  logic [WIDTH/8-1:0] host_tkeep, sent_tkeep, cut_tkeep;
  logic host_tvalid, host_tready, host_tlast, sent_tvalid, sent_tready, sent_tlast, cut_tvalid, cut_tready, cut_tlast;

  localparam int CPU_AB = $clog2(CPU_TX) - 2;  // address bits of a word

  tx_path #(
      .WIDTH(WIDTH), .APPS(TX_APPS), .RING_DEPTH(TX_DEPTH), .RING_FRAMES(TX_FRAMES), .MAX_PAYLOAD(MAX_PAYLOAD),
      .CPU_BYTES(CPU_TX)
  ) transmit (
      .app_clk(app_tx_clk), .app_rst(app_tx_rst),
      .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid(tx_tvalid), .s_axis_tready(tx_tready), .s_axis_tlast, .s_axis_tuser,
      .s_dst_ip(s_axis_dst_ip), .s_dst_port(s_axis_dst_port), .s_src_port(s_axis_src_port),
      .clk, .rst(path_rst), .enable, .udp_checksum, .own_mac, .own_ip, .ttl, .tos,
      .cpu_write(cpu_tx_write && (cpu_tx_word >> CPU_AB) == 11'd0),  // beyond the buffer: nothing
      .cpu_address(cpu_tx_word[CPU_AB-1:0]), .cpu_write_data(cpu_tx_write_data), .cpu_read_data(cpu_tx_read_data),
      .cpu_send(cpu_tx_send), .cpu_send_bytes(cpu_tx_send_bytes), .cpu_busy(cpu_tx_busy),
      .lookup_valid, .lookup_ip, .lookup_hit, .lookup_mac,
      .host_axis_tdata(host_tdata), .host_axis_tkeep(host_tkeep), .host_axis_tvalid(host_tvalid), .host_axis_tready(host_tready),
      .host_axis_tlast(host_tlast),
      .m_axis_tdata(sent_tdata), .m_axis_tkeep(sent_tkeep), .m_axis_tvalid(sent_tvalid), .m_axis_tready(sent_tready),
      .m_axis_tlast(sent_tlast),
      .dropped(tx_oversize), .stalled(tx_overflow), .almost_full(tx_almost_full), .no_mac(tx_no_arp)
  );

  logic tag_tvalid, tag_tready, hold;

  // The MAC's ready, behind two gates and the tag, would run through the arbiters.
  skid_buffer #(.BITS(WIDTH + WIDTH / 8 + 1)) cut (
      .clk, .rst(path_rst), .s_data({sent_tlast, sent_tkeep, sent_tdata}), .s_valid(sent_tvalid), .s_ready(sent_tready),
      .m_data({cut_tlast, cut_tkeep, cut_tdata}), .m_valid(cut_tvalid), .m_ready(cut_tready)
  );
  vlan_tag #(.WIDTH(WIDTH)) tag (
      .clk, .rst(path_rst), .insert(vlan_insert), .tci(vlan_tci),
      .s_axis_tdata(cut_tdata), .s_axis_tkeep(cut_tkeep), .s_axis_tvalid(cut_tvalid), .s_axis_tready(cut_tready),
      .s_axis_tlast(cut_tlast),
      .m_axis_tdata(mac_tx_axis_tdata), .m_axis_tkeep(mac_tx_axis_tkeep), .m_axis_tvalid(tag_tvalid),
      .m_axis_tready(tag_tready), .m_axis_tlast(mac_tx_axis_tlast)
  );
  frame_gate pause_gate (
      .clk, .rst(path_rst), .open(!hold), .closed(),
      .s_axis_tvalid(tag_tvalid), .s_axis_tready(tag_tready), .s_axis_tlast(mac_tx_axis_tlast),
      .m_axis_tvalid(out_tvalid), .m_axis_tready(out_tready)
  );
  assign tx_held = tag_tvalid && !out_tvalid;

  // Not reset with the path: what left before a soft reset counts.
  frame_meter #(.WIDTH(WIDTH)) tx_meter (
      .clk, .rst, .tkeep(mac_tx_axis_tkeep), .tvalid(mac_tx_axis_tvalid), .tready(mac_tx_axis_tready),
      .tlast(mac_tx_axis_tlast), .frame(tx_packet), .bytes(tx_bytes)
  );

  // ---- receive ----------------------------------------------------------------------------------------------------------

  logic arp_valid, arp_request;
  logic [47:0] arp_sender_mac;
  logic [31:0] arp_sender_ip, arp_target_ip;
  logic [7:0] query_max;
  logic [31:0] query_group;
  logic [15:0] pause_quanta;
  logic [WIDTH-1:0] arp_tdata, echo_tdata, igmp_tdata;
  logic [WIDTH/8-1:0] arp_tkeep, echo_tkeep, igmp_tkeep;
  logic arp_tvalid, arp_tready, arp_tlast, echo_tvalid, echo_tready, echo_tlast, igmp_tvalid, igmp_tready, igmp_tlast;

  rx_path #(.WIDTH(WIDTH), .DEPTH(RX_DEPTH), .FRAMES(RX_FRAMES), .CPU_SLOTS(CPU_SLOTS)) receive (
      .clk, .rst(path_rst), .enable, .own_mac, .own_ip, .netmask, .group, .group_mask, .port, .port_mask, .promiscuous,
      .accept_vlan, .cpu_ports, .answer_ping, .igmp, .ttl,
      .s_axis_tdata(mac_rx_axis_tdata), .s_axis_tkeep(mac_rx_axis_tkeep), .s_axis_tvalid(mac_rx_axis_tvalid),
      .s_axis_tlast(mac_rx_axis_tlast), .s_axis_tuser(mac_rx_axis_tuser),
      .app_clk(app_rx_clk), .app_rst(app_rx_rst),
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid(rx_tvalid), .m_axis_tready(rx_tready), .m_axis_tlast,
      .m_length(m_axis_length), .m_src_ip(m_axis_src_ip), .m_src_port(m_axis_src_port), .m_dst_ip(m_axis_dst_ip),
      .m_dst_port(m_axis_dst_port),
      .arp_valid, .arp_request, .arp_sender_mac, .arp_sender_ip, .arp_target_ip,
      .query_valid, .query_max, .query_group, .pause_valid, .pause_quanta,
      .echo_axis_tdata(echo_tdata), .echo_axis_tkeep(echo_tkeep), .echo_axis_tvalid(echo_tvalid),
      .echo_axis_tready(echo_tready), .echo_axis_tlast(echo_tlast),
      .cpu_bytes_ready(cpu_rx_bytes_ready), .cpu_free(cpu_rx_free), .cpu_read_word(cpu_rx_word),
      .cpu_read_data(cpu_rx_read_data),
      .rx_frame, .rx_drop, .rx_stored, .rx_stored_bytes, .rx_overflow, .rx_almost_full, .cpu_stored, .cpu_full,
      .echo_stored, .echo_full
  );

  pause_timer #(.QUANTA_256(QUANTA_256)) pause (.clk, .rst, .honour(honour_pause), .pause_valid, .quanta(pause_quanta), .hold);

  // ---- ARP --------------------------------------------------------------------------------------------------------------

  logic want_valid, want_ready, learn_valid, learn_known_only, learn_ready, reply_valid, reply_ready;
  logic [31:0] want_ip, learn_ip, reply_ip;
  logic [47:0] learn_mac, reply_mac;
  logic lookup_answered;  // LOOKUP_LATENCY after the question, which udp_tx counts itself

  arp_table #(.CLOCK_HZ(CLOCK_HZ)) table_ (
      .clk, .rst, .own_ip, .netmask, .gateway,
      .lookup_valid, .lookup_ip, .result_valid(lookup_answered), .result_hit(lookup_hit), .result_mac(lookup_mac),
      .request_valid(want_valid), .request_ip(want_ip), .request_ready(want_ready),
      .learn_valid, .learn_known_only, .learn_ip, .learn_mac, .learn_ready,
      .clear(arp_clear), .access_valid(arp_access_valid), .access_write(arp_access_write), .access_ip(arp_access_ip),
      .access_mac(arp_access_mac), .access_ready(arp_access_ready), .access_used(arp_access_used),
      .access_entry_ip(arp_access_entry_ip), .access_entry_mac(arp_access_entry_mac), .clearing(arp_clearing)
  );

  arp_responder responder (
      .clk, .rst(path_rst), .answer(answer_arp && enable), .own_mac, .own_ip,
      .arp_valid, .arp_request, .arp_sender_mac, .arp_sender_ip, .arp_target_ip,
      .learn_valid, .learn_known_only, .learn_ip, .learn_mac, .learn_ready,
      .reply_valid, .reply_ip, .reply_mac, .reply_ready
  );

  arp_sender #(.WIDTH(WIDTH)) sender (
      .clk, .rst(path_rst), .ask(enable), .own_mac, .own_ip,
      .request_valid(want_valid), .request_ip(want_ip), .request_ready(want_ready),
      .reply_valid, .reply_ip, .reply_mac, .reply_ready,
      .m_axis_tdata(arp_tdata), .m_axis_tkeep(arp_tkeep), .m_axis_tvalid(arp_tvalid), .m_axis_tready(arp_tready),
      .m_axis_tlast(arp_tlast)
  );

  // ---- IGMP, and the frames of the host's protocols together -------------------------------------------------------------------

  logic report_valid, report_leave, report_ready;
  /* verilator lint_off UNUSEDSIGNAL */
  logic reports_due;  // a simulation lets time go on for them
  /* verilator lint_on UNUSEDSIGNAL */
  logic [31:0] report_group;

  // Not reset with the path: it knows what it has joined.
  igmp_host #(.CLOCK_HZ(CLOCK_HZ)) membership (
      .clk, .rst, .enable, .igmp, .seed(own_mac[5:0]), .group, .group_mask, .query_valid, .query_max, .query_group,
      .report_valid, .report_leave, .report_group, .report_ready, .joined(igmp_joined), .busy(reports_due)
  );
  igmp_sender #(.WIDTH(WIDTH)) reporter (
      .clk, .rst(path_rst), .own_mac, .own_ip, .report_valid, .report_leave, .report_group, .report_ready,
      .m_axis_tdata(igmp_tdata), .m_axis_tkeep(igmp_tkeep), .m_axis_tvalid(igmp_tvalid), .m_axis_tready(igmp_tready),
      .m_axis_tlast(igmp_tlast)
  );
  assign igmp_sent = report_ready;

  logic meta_unused;
  frame_arbiter #(.N(3), .WIDTH(WIDTH), .META(1)) host_frames (
      .clk, .rst(path_rst),
      .s_axis_tdata({echo_tdata, igmp_tdata, arp_tdata}), .s_axis_tkeep({echo_tkeep, igmp_tkeep, arp_tkeep}),
      .s_axis_tvalid({echo_tvalid, igmp_tvalid, arp_tvalid}), .s_axis_tready({echo_tready, igmp_tready, arp_tready}),
      .s_axis_tlast({echo_tlast, igmp_tlast, arp_tlast}), .s_meta(3'b000),
      .m_axis_tdata(host_tdata), .m_axis_tkeep(host_tkeep), .m_axis_tvalid(host_tvalid), .m_axis_tready(host_tready),
      .m_axis_tlast(host_tlast), .m_meta(meta_unused)
  );

`ifdef VERILATOR
  logic [3:0] asked;
  logic begun = 1'b0;  // there has been a reset
  always_ff @(posedge clk) begin
    begun <= begun || path_rst;
    asked <= rst ? 4'd0 : {asked[2:0], lookup_valid};
    if (begun && !rst && !path_rst) assert (lookup_answered == asked[3]) else $error("ethernet_core: lookup out of step");
  end
`endif

endmodule

`default_nettype wire
