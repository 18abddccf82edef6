// SPDX-License-Identifier: BSD-3-Clause
// Answers ICMP echo requests: keeps them whole, and lets them out with a reply's header.
//
// Contract: beats of all frames come in, `header` as rx_parse gives it and the rest CYCLES later; those whose verdict, read with the
// last beat, is `for_echo` are answered (rx_filter: sent to us by one host, without IPv4 options, checksums right). `stored` pulses for
// one that will be, `full` for one that found DEPTH beats or FRAMES frames waiting. Latency: 2 cycles to the event, 7 to the reply.
// Throughput: a beat a cycle in, whatever comes; a beat a cycle out.
//
// The reply is the request, to its last byte (padding too), but for: the MAC addresses, source from own_mac; the IPv4 addresses,
// source from own_ip; TTL; identification 0 and "don't fragment", as all that the core sends; type 0; both checksums. The type of service
// stays (RFC 1349, 5.1). A VLAN tag stays as it came, so that the reply finds its way back.
//
// ICMP's sum is the request's, which was right, plus what the type changed (RFC 1624). A frame's header is known whole at its last
// beat, so its fields wait in the FIFO's sideband, not in the first beats that have gone by.
`default_nettype none

module icmp_echo #(
    parameter int WIDTH     = 1024,
    parameter int CYCLES    = 11,
    parameter int DEPTH     = 131072 / WIDTH,  // beats; 16 KiB
    parameter int FRAMES    = 16,
    parameter int MAX_FRAME = 9216
) (
    input  wire                   clk,
    input  wire                   rst,
    input  wire  [47:0]           own_mac,
    input  wire  [31:0]           own_ip,
    input  wire  [7:0]            ttl,

    /* verilator lint_off UNUSEDSIGNAL */
    input  wire  rx_pkg::header_t header,  // part of it
    input  wire                   valid,
    input  wire  [WIDTH-1:0]      data,
    input  wire                   last,
    input  wire  [15:0]           bytes,   // the low bits
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire                   for_echo,
    output logic                  stored,
    output logic                  full,

    output logic [WIDTH-1:0]      m_axis_tdata,
    output logic [WIDTH/8-1:0]    m_axis_tkeep,
    output logic                  m_axis_tvalid,
    input  wire                   m_axis_tready,
    output logic                  m_axis_tlast
);

  localparam int KEEP  = WIDTH / 8;
  localparam int KB    = $clog2(KEEP);
  localparam int META  = 48 + 1 + 16 + 8 + 16 + 32 + 16 + 16;  // src_mac, vlan, tci, type of service, length, src_ip, sums
  localparam int PLAIN = 38, TAGGED = 42;                      // bytes of a reply's header, to ICMP's checksum
  localparam int BEATS = (TAGGED + KEEP - 1) / KEEP;

  // ---- checksums, while the verdict is awaited: 1, two words; 2, their sum; 3, its carry ---------------------------------------

  wire [7:0]  tos    = header.l3[215:208];
  wire [15:0] length = header.l3[207:192];
  wire [31:0] src_ip = header.l3[127:96];
  logic [4*16-1:0] rows_4;
  logic [3*16-1:0] rows_3;
  logic [2*16-1:0] rows_2;
  ones_layer #(.ROWS(7)) layer_1 (
      .rows({8'h45 + 8'h40, tos, length, ttl, eth_pkg::IP_PROTO_ICMP, own_ip, src_ip}), .left(rows_4)
  );
  ones_layer #(.ROWS(4)) layer_2 (.rows(rows_4), .left(rows_3));
  ones_layer #(.ROWS(3)) layer_3 (.rows(rows_3), .left(rows_2));

  logic [31:0] ip_rows;
  logic [16:0] ip_sum, icmp_sum, icmp_sum_2;
  logic [15:0] ip_check, icmp_check;

  always_ff @(posedge clk) begin
    ip_rows    <= rows_2;
    icmp_sum   <= {1'b0, header.l4[47:32]} + 17'h0800;
    ip_sum     <= {1'b0, ip_rows[31:16]} + {1'b0, ip_rows[15:0]};
    icmp_sum_2 <= icmp_sum;
    ip_check   <= ~(ip_sum[15:0] + {15'd0, ip_sum[16]});
    icmp_check <= icmp_sum_2[15:0] + {15'd0, icmp_sum_2[16]};
  end

  // ---- whole requests into a FIFO -------------------------------------------------------------------------------------------

  logic [META-1:0]  s_meta, m_meta;
  logic [WIDTH-1:0] s_data, m_data;
  logic [KEEP-1:0]  s_keep;
  logic [KEEP-1:0]  m_keep;
  logic             s_valid, s_last, s_drop, offered, fifo_stored, m_valid, m_ready, m_last;
  wire  [KB-1:0]    tail = bytes[KB-1:0] - 1'b1;  // the last byte's place

  delay_line #(.BITS(META - 32), .CYCLES(CYCLES + 1)) wait_fields (
      .clk, .d({header.src_mac, header.vlan, header.tci, tos, length, src_ip}), .q(s_meta[META-1:32])
  );
  delay_line #(.BITS(32), .CYCLES(CYCLES - 2)) wait_sums (.clk, .d({ip_check, icmp_check}), .q(s_meta[31:0]));

  always_ff @(posedge clk) begin
    s_valid <= valid && !rst;
    s_data  <= data;
    s_last  <= last;
    s_drop  <= !for_echo;
    for (int i = 0; i < KEEP; i++) s_keep[i] <= !last || KB'(i) <= tail;
    offered <= s_valid && s_last && !s_drop && !rst;
  end

  assign stored = fifo_stored;
  assign full   = offered && !fifo_stored;

  packet_fifo #(
      .WIDTH(WIDTH), .DEPTH(DEPTH), .FRAMES(FRAMES), .META(META), .MAX_BYTES(MAX_FRAME), .DROP_WHEN_FULL(1)
  ) fifo (
      .clk, .rst,
      .s_axis_tdata(s_data), .s_axis_tkeep(s_keep), .s_axis_tvalid(s_valid), .s_axis_tready(), .s_axis_tlast(s_last),
      .s_axis_tuser(s_drop), .s_meta,
      .stored(fifo_stored), .dropped_bad(), .dropped_oversize(), .dropped_full(), .almost_full(),
      .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid), .m_axis_tready(m_ready), .m_axis_tlast(m_last),
      .m_length(), .m_meta
  );

  // ---- the reply's header over the request's ------------------------------------------------------------------------------------

  logic [47:0] m_mac;
  logic        m_vlan;
  logic [15:0] m_tci, m_length, m_ip_check, m_icmp_check;
  logic [7:0]  m_tos;
  logic [31:0] m_ip;
  assign {m_mac, m_vlan, m_tci, m_tos, m_length, m_ip, m_ip_check, m_icmp_check} = m_meta;

  // In the order of the wire, each most significant byte first.
  wire [26*8-1:0] behind = {
      eth_pkg::ETHERTYPE_IPV4, 8'h45, m_tos, m_length, 16'h0000, 16'h4000, ttl, eth_pkg::IP_PROTO_ICMP, m_ip_check, own_ip, m_ip,
      16'h0000, m_icmp_check
  };
  wire [TAGGED*8-1:0] fields = {
      m_mac, own_mac, m_vlan ? {eth_pkg::ETHERTYPE_VLAN, m_tci, behind} : {behind, 32'd0}
  };
  logic [2:0] beat;

  always_ff @(posedge clk) begin
    if (m_valid && m_ready) beat <= m_last ? 3'd0 : beat == 3'(BEATS) ? beat : beat + 1'b1;
    if (rst) beat <= 3'd0;
  end

  logic [WIDTH-1:0] reply;
  always_comb begin
    reply = m_data;
    for (int n = 0; n < TAGGED; n++)
      if (beat == 3'(n / KEEP) && (n < PLAIN || m_vlan)) reply[8*(n%KEEP)+:8] = fields[8*(TAGGED-1-n)+:8];
  end

  // The line's ready would run through the FIFO and all that its last beat decides.
  skid_buffer #(.BITS(WIDTH + KEEP + 1)) cut (
      .clk, .rst, .s_data({m_last, m_keep, reply}), .s_valid(m_valid), .s_ready(m_ready),
      .m_data({m_axis_tlast, m_axis_tkeep, m_axis_tdata}), .m_valid(m_axis_tvalid), .m_ready(m_axis_tready)
  );

endmodule

`default_nettype wire
