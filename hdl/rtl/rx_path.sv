// SPDX-License-Identifier: BSD-3-Clause
// The receive half: frames from the MAC in; payload to the application, frames for the CPU, ARP, echo replies and events out.
//
// Contract: the MAC cannot be held up, and never has to be: one beat a cycle at every width, frames of one beat back to back
// (at 1024 bit that is one minimum-size frame a cycle, more than the wire carries). Every frame is decided (rx_filter says
// how) and makes exactly one event. Latency: 15 cycles from its last beat to the event, 14 to those of queries and pauses, 16 to
// those of echo requests.
// Events:
//   rx_drop[i]    dropped; i is the verdict, VERDICT_MAC to VERDICT_BAD of rx_pkg
//   rx_stored     its payload went to the application's FIFO; `rx_stored_bytes` counts its whole frame's, without FCS
//   rx_overflow   it was for the application, and the FIFO was full
//   cpu_stored    it went to the CPU's buffer
//   cpu_full      it was for the CPU, and the buffer was full or its slots too short
//   echo_stored   an echo request whose reply leaves at echo_axis (icmp_echo)
//   echo_full     an echo request for whose reply there was no room
//   query_valid   an IGMP query; what it says is valid with it
//   pause_valid   a pause frame; its quanta are valid with it
// Application stream (app_clk): payload from byte 0, whole packets only, in order; m_length (bytes), m_src_ip, m_src_port,
// m_dst_ip and m_dst_port are valid with every beat. It may wait: what then does not fit into DEPTH
// beats or FRAMES frames is counted. FRAMES must exceed the frames of minimum size that come while the longest one leaves (154).
`default_nettype none

module rx_path #(
    parameter int WIDTH     = 1024,
    parameter int DEPTH     = 524288 / WIDTH,  // beats of the application's FIFO; 64 KiB
    parameter int FRAMES    = 256,             // frames in it; a power of two
    parameter int MAX_FRAME = 9216,
    parameter int CPU_SLOTS = 8
) (
    input  wire                clk,
    input  wire                rst,

    input  wire                enable,
    input  wire  [47:0]        own_mac,
    input  wire  [31:0]        own_ip,
    input  wire  [31:0]        netmask,
    input  wire  [31:0]        group,
    input  wire  [31:0]        group_mask,
    input  wire  [15:0]        port,
    input  wire  [15:0]        port_mask,
    input  wire                promiscuous,
    input  wire                accept_vlan,
    input  wire                cpu_ports,
    input  wire                answer_ping,
    input  wire                igmp,
    input  wire  [7:0]         ttl,

    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    input  wire                s_axis_tlast,
    input  wire                s_axis_tuser,

    input  wire                app_clk,
    input  wire                app_rst,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [15:0]        m_length,
    output logic [31:0]        m_src_ip,
    output logic [15:0]        m_src_port,
    output logic [31:0]        m_dst_ip,
    output logic [15:0]        m_dst_port,

    output logic               arp_valid,
    output logic               arp_request,
    output logic [47:0]        arp_sender_mac,
    output logic [31:0]        arp_sender_ip,
    output logic [31:0]        arp_target_ip,

    output logic               query_valid,
    output logic [7:0]         query_max,
    output logic [31:0]        query_group,
    output logic               pause_valid,
    output logic [15:0]        pause_quanta,

    output logic [WIDTH-1:0]   echo_axis_tdata,
    output logic [WIDTH/8-1:0] echo_axis_tkeep,
    output logic               echo_axis_tvalid,
    input  wire                echo_axis_tready,
    output logic               echo_axis_tlast,

    output logic [15:0]        cpu_bytes_ready,
    input  wire                cpu_free,
    input  wire  [10:0]        cpu_read_word,
    output logic [31:0]        cpu_read_data,

    output logic               rx_frame,      // a frame has ended
    output logic [9:0]         rx_drop,
    output logic               rx_stored,
    output logic [15:0]        rx_stored_bytes,
    output logic               rx_overflow,
    output logic               rx_almost_full,
    output logic               cpu_stored,
    output logic               cpu_full,
    output logic               echo_stored,
    output logic               echo_full
);

  // ---- headers, verdict, and the beats delayed until it is there ------------------------------------------------------------

  logic             p_valid, p_last, p_bad;
  logic [WIDTH-1:0] p_data;
  logic [15:0]      p_pos, p_bytes;
  rx_pkg::header_t p_header;

  rx_parse #(.WIDTH(WIDTH)) parse (
      .clk, .rst, .enable,
      .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tlast, .s_axis_tuser,
      .valid(p_valid), .data(p_data), .last(p_last), .bad(p_bad), .pos(p_pos), .bytes(p_bytes), .header(p_header)
  );

  logic       ip_good, l4_good, verdict_valid;
  logic [3:0] verdict;

  rx_checksum #(.WIDTH(WIDTH)) checksum (
      .clk, .rst, .valid(p_valid), .data(p_data), .last(p_last), .pos(p_pos), .header(p_header), .ip_good, .l4_good
  );
  rx_filter #(.MAX_FRAME(MAX_FRAME)) filter (
      .clk, .rst, .own_mac, .own_ip, .netmask, .group, .group_mask, .port, .port_mask, .promiscuous, .accept_vlan, .cpu_ports,
      .answer_ping, .igmp, .valid(p_valid && p_last), .bad(p_bad), .bytes(p_bytes), .header(p_header), .ip_good, .l4_good,
      .verdict_valid, .verdict, .arp_valid, .arp_request, .arp_sender_mac, .arp_sender_ip, .arp_target_ip, .query_max, .query_group,
      .pause_quanta
  );
  assign query_valid = verdict_valid && verdict == rx_pkg::VERDICT_IGMP;
  assign pause_valid = verdict_valid && verdict == rx_pkg::VERDICT_PAUSE;

  localparam int VERDICT_LATENCY = 11;
  localparam int META = 32 + 16 + 32 + 16;

  logic             valid, last, is_udp;
  logic [WIDTH-1:0] data;
  logic [15:0]      pos, bytes, length;
  logic [6:0]       start;
  logic [META-1:0]  meta;
  wire p_is_udp = p_header.ethertype == eth_pkg::ETHERTYPE_IPV4 && p_header.l3[151:144] == eth_pkg::IP_PROTO_UDP;

  logic [VERDICT_LATENCY-1:0] valid_at;  // reset reaches every stage, which a delay line's does not
  always_ff @(posedge clk) valid_at <= rst ? '0 : {valid_at[VERDICT_LATENCY-2:0], p_valid};
  assign valid = valid_at[VERDICT_LATENCY-1];

  delay_line #(.BITS(WIDTH + META + 57), .CYCLES(VERDICT_LATENCY)) wait_verdict (
      .clk,
      .d({p_data, p_last, p_pos, p_bytes, p_is_udp, p_header.l4_start + 7'd8, p_header.l4[31:16] - 16'd8,
          p_header.l3[127:96], p_header.l4[63:48], p_header.l3[95:64], p_header.l4[47:32]}),
      .q({data, last, pos, bytes, is_udp, start, length, meta})
  );

  // ---- payload to the application -------------------------------------------------------------------------------------------

  logic [WIDTH-1:0]   s_data;
  logic [WIDTH/8-1:0] s_keep;
  logic               s_valid, s_last, s_drop;

  rx_strip #(.WIDTH(WIDTH)) strip (
      .clk, .rst, .valid, .data, .last, .pos, .is_udp, .start, .length, .verdict_app(verdict == rx_pkg::VERDICT_APP),
      .m_axis_tdata(s_data), .m_axis_tkeep(s_keep), .m_axis_tvalid(s_valid), .m_axis_tlast(s_last), .m_axis_tuser(s_drop)
  );

  // The sideband as of a frame's last beat, when the last of its payload leaves rx_strip.
  logic [META-1:0] s_meta;
  logic [15:0]     s_bytes;
  delay_line #(.BITS(META + 16), .CYCLES(4)) wait_strip (.clk, .d({meta, bytes}), .q({s_meta, s_bytes}));

  logic fifo_stored, fifo_almost_full;

  async_packet_fifo #(
      .WIDTH(WIDTH), .DEPTH(DEPTH), .FRAMES(FRAMES), .META(META), .MAX_BYTES(MAX_FRAME), .DROP_WHEN_FULL(1)
  ) fifo (
      .s_clk(clk), .s_rst(rst),
      .s_axis_tdata(s_data), .s_axis_tkeep(s_keep), .s_axis_tvalid(s_valid), .s_axis_tready(), .s_axis_tlast(s_last),
      .s_axis_tuser(s_drop), .s_meta(s_meta),
      .stored(fifo_stored), .dropped_bad(), .dropped_oversize(), .dropped_full(), .almost_full(fifo_almost_full),
      .m_clk(app_clk), .m_rst(app_rst),
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast,
      .m_length, .m_meta({m_src_ip, m_src_port, m_dst_ip, m_dst_port})
  );

  // ---- frames for the CPU ---------------------------------------------------------------------------------------------------

  cpu_rx_buffer #(.WIDTH(WIDTH), .SLOTS(CPU_SLOTS)) cpu (
      .clk, .rst, .valid, .data, .last, .pos, .bytes, .for_cpu(verdict == rx_pkg::VERDICT_CPU), .stored(cpu_stored), .full(cpu_full),
      .bytes_ready(cpu_bytes_ready), .free(cpu_free), .read_word(cpu_read_word), .read_data(cpu_read_data)
  );

  // ---- echo requests ----------------------------------------------------------------------------------------------------------

  icmp_echo #(.WIDTH(WIDTH), .CYCLES(VERDICT_LATENCY), .MAX_FRAME(MAX_FRAME)) echo (
      .clk, .rst, .own_mac, .own_ip, .ttl, .header(p_header), .valid, .data, .last, .bytes,
      .for_echo(verdict == rx_pkg::VERDICT_ECHO), .stored(echo_stored), .full(echo_full),
      .m_axis_tdata(echo_axis_tdata), .m_axis_tkeep(echo_axis_tkeep), .m_axis_tvalid(echo_axis_tvalid),
      .m_axis_tready(echo_axis_tready), .m_axis_tlast(echo_axis_tlast)
  );

  // ---- events -----------------------------------------------------------------------------------------------------------------

  // The FIFO says one cycle after a frame's last beat whether it took it. Its own dropped_full would not do: a frame found
  // to be for somebody else only at its end may meet a full FIFO too.
  logic offered, was_almost_full;
  logic [15:0] offered_bytes;

  assign rx_stored       = fifo_stored;
  assign rx_stored_bytes = offered_bytes;
  assign rx_overflow     = offered && !fifo_stored;

  always_ff @(posedge clk) begin
    rx_frame <= verdict_valid;
    for (int i = 0; i < 10; i++) rx_drop[i] <= verdict_valid && verdict == 4'(i);
    offered         <= s_valid && s_last && !s_drop;
    offered_bytes   <= s_bytes;
    was_almost_full <= fifo_almost_full;
    rx_almost_full  <= fifo_almost_full && !was_almost_full;
    if (rst) begin
      rx_frame        <= 1'b0;
      rx_drop         <= '0;
      offered         <= 1'b0;
      was_almost_full <= 1'b0;
      rx_almost_full  <= 1'b0;
    end
  end

endmodule

`default_nettype wire
