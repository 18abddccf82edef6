// SPDX-License-Identifier: BSD-3-Clause
// Puts the 42 bytes of Ethernet, IPv4 and UDP header before each payload.
//
// Input: whole payloads (no idle beat inside) with length, addresses and payload sum valid on every beat, as tx_ring gives
// them. Output: Ethernet frames, in order, no idle beat inside one. While payloads wait, no idle beat between frames either: a
// packet of L bytes takes ceil((42 + L) / (WIDTH/8)) beats, 65 for 8192 bytes at 1024 bits.
//
// The destination MAC comes from the lookup port: `lookup_valid` with `lookup_ip` (the packet's own destination; the table
// decides about gateway, multicast and broadcast) is answered LOOKUP_LATENCY cycles later, one a cycle. The IP destination in
// the packet is never touched. Without an answer (`lookup_hit` low) the packet is dropped whole and `no_mac` pulses; it
// costs the time it would have taken to send and nothing else. While `enable` is low packets are dropped silently.
//
// Latency: 7 cycles from a packet's first beat to its frame's; 3 more than LOOKUP_LATENCY.
//
// How: beats go into a short FIFO; at a packet's first beat its header starts through a pipeline (lookup, both checksums) of
// fixed latency, shorter than that FIFO. At the FIFOs' ends payload is shifted behind the header.
// IPv4: no options, identification 0 and "don't fragment" (RFC 6864), TTL and type of service as set. UDP checksum: 0 (none) or full.
`default_nettype none

module udp_tx #(
    parameter int WIDTH          = 1024,
    parameter int LOOKUP_LATENCY = 4      // at least 4
) (
    input  wire                clk,
    input  wire                rst,
    // Registers; a change takes effect with a later packet.
    input  wire                enable,
    input  wire                udp_checksum,
    input  wire  [47:0]        own_mac,
    input  wire  [31:0]        own_ip,
    input  wire  [7:0]         ttl,
    input  wire  [7:0]         tos,           // DSCP, ECN
    // Payloads.
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    input  wire  [15:0]        s_length,
    input  wire  [31:0]        s_dst_ip,
    input  wire  [15:0]        s_dst_port,
    input  wire  [15:0]        s_src_port,
    input  wire  [15:0]        s_sum,
    // Next hop's MAC address.
    output logic               lookup_valid,
    output logic [31:0]        lookup_ip,
    input  wire                lookup_hit,
    input  wire  [47:0]        lookup_mac,
    output logic               no_mac,
    // Frames.
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  import eth_pkg::*;

  localparam int KEEP   = WIDTH / 8;
  localparam int KB     = $clog2(KEEP);
  localparam int WHOLE  = HEADERS / KEEP;           // beats that are header only
  localparam int OFFSET = (HEADERS % KEEP) * 8;     // bits of header in the beat where the payload begins; never 0
  localparam int L      = LOOKUP_LATENCY;

  // ---- payload ahead, in a FIFO ---------------------------------------------------------------------------------------

  logic [WIDTH-1:0] payload;
  logic payload_valid, payload_last, payload_take, first, fifo_ready;

  stream_fifo #(.BITS(WIDTH + 1), .DEPTH(16)) payload_fifo (
      .clk, .rst, .s_data({s_axis_tlast, s_axis_tdata}), .s_valid(s_axis_tvalid && s_axis_tready), .s_ready(fifo_ready),
      .m_data({payload_last, payload}), .m_valid(payload_valid), .m_ready(payload_take)
  );
  assign s_axis_tready = fifo_ready && !rst;
  wire begins = s_axis_tvalid && s_axis_tready && first;

  always_ff @(posedge clk)
    if (rst) first <= 1'b1;
    else if (s_axis_tvalid && s_axis_tready) first <= s_axis_tlast;

  // ---- header pipeline: lookup and checksums --------------------------------------------------------------------------

  logic [L:0] at;  // a header is at this stage
  logic [15:0] length[0:L], dst_port[0:L], src_port[0:L];
  logic [31:0] dst_ip[0:L];
  logic        send  [0:L];
  logic [15:0] ttl_tos[0:L];
  logic [15:0] payload_sum, last_byte;
  logic [31:0] ip_rows, udp_rows;  // two words that add up to the checksum
  logic [16:0] ip_sum, udp_sum;
  logic [15:0] ip_folded, udp_folded, ip_check[4:L], udp_check[4:L];

  assign lookup_valid = at[0];
  assign lookup_ip    = dst_ip[0];

  // Sums of 16-bit words, first without carries.
  localparam logic [15:0] IP_REST  = 16'h4500 + 16'h4000 + 16'(IP_PROTO_UDP) + 16'(IPV4_HEADER + UDP_HEADER);
  localparam logic [15:0] UDP_REST = 16'(IP_PROTO_UDP) + 16'(2 * UDP_HEADER);
  wire [63:0] addresses = {own_ip, dst_ip[0]};
  logic [16*4-1:0] ip_4;
  logic [16*3-1:0] ip_3, udp_3;
  logic [16*2-1:0] ip_2, udp_2;
  logic [16*5-1:0] udp_5;
  ones_layer #(.ROWS(7)) ip_layer_1 (.rows({addresses, length[0], IP_REST, ttl_tos[0]}), .left(ip_4));
  ones_layer #(.ROWS(4)) ip_layer_2 (.rows(ip_4), .left(ip_3));
  ones_layer #(.ROWS(3)) ip_layer_3 (.rows(ip_3), .left(ip_2));
  ones_layer #(.ROWS(9)) udp_layer_1 (  // the length counts twice
      .rows({addresses, length[0][14:0], length[0][15], UDP_REST, src_port[0], dst_port[0], payload_sum}), .left(udp_5)
  );
  ones_layer #(.ROWS(5)) udp_layer_2 (.rows(udp_5), .left(udp_3));
  ones_layer #(.ROWS(3)) udp_layer_3 (.rows(udp_3), .left(udp_2));

  always_ff @(posedge clk) begin
    at          <= rst ? '0 : {at[L-1:0], begins};
    length[0]   <= s_length;
    dst_ip[0]   <= s_dst_ip;
    dst_port[0] <= s_dst_port;
    src_port[0] <= s_src_port;
    payload_sum <= s_sum;
    send[0]     <= enable;
    ttl_tos[0]  <= {ttl, tos};
    for (int i = 1; i <= L; i++) begin
      length[i]   <= length[i-1];
      dst_ip[i]   <= dst_ip[i-1];
      dst_port[i] <= dst_port[i-1];
      src_port[i] <= src_port[i-1];
      send[i]     <= send[i-1];
      ttl_tos[i]  <= ttl_tos[i-1];
    end
    // 1: two words. 2: their sum. 3: its carry. 4: complemented; a computed UDP checksum of 0 is sent as ffff.
    ip_rows      <= ip_2;
    udp_rows     <= udp_2;
    ip_sum       <= {1'b0, ip_rows[31:16]} + {1'b0, ip_rows[15:0]};
    udp_sum      <= {1'b0, udp_rows[31:16]} + {1'b0, udp_rows[15:0]};
    ip_folded    <= ip_sum[15:0] + {15'd0, ip_sum[16]};
    udp_folded   <= udp_sum[15:0] + {15'd0, udp_sum[16]};
    ip_check[4]  <= ~ip_folded;
    udp_check[4] <= !udp_checksum ? 16'd0 : udp_folded == 16'hffff ? 16'hffff : ~udp_folded;
    for (int i = 5; i <= L; i++) begin
      ip_check[i]  <= ip_check[i-1];
      udp_check[i] <= udp_check[i-1];
    end
    last_byte <= length[L-1] + 16'(HEADERS - 1);
    no_mac <= !rst && at[L] && send[L] && !lookup_hit;
  end

  // Bytes in the order sent, from the top of this vector; reversed into stream order below.
  wire [HEADERS*8-1:0] built = {
      lookup_mac, own_mac, ETHERTYPE_IPV4,
      8'h45, ttl_tos[L][7:0], length[L] + 16'(IPV4_HEADER + UDP_HEADER), 16'h0000, 16'h4000, ttl_tos[L][15:8], IP_PROTO_UDP,
      ip_check[L],
      own_ip, dst_ip[L],
      src_port[L], dst_port[L], length[L] + 16'(UDP_HEADER), udp_check[L]
  };
  logic [HEADERS*8-1:0] built_stream;
  always_comb for (int i = 0; i < HEADERS; i++) built_stream[i*8+:8] = built[(HEADERS-1-i)*8+:8];

  // Never full: every header here has a beat in payload_fifo, save the one being sent.
  logic [HEADERS*8-1:0] header;
  logic [15-KB:0] frame_later;   // beats of the frame behind its first
  logic [KB-1:0] frame_tail;     // the last byte's place in the last
  logic frame_single;
  logic header_valid, header_take, header_send, header_ready;
  stream_fifo #(.BITS(HEADERS * 8 + 18), .DEPTH(32)) header_fifo (
      .clk, .rst,
      .s_data({send[L] && lookup_hit, last_byte[15:KB] == '0, last_byte, built_stream}), .s_valid(at[L]),
      .s_ready(header_ready),
      .m_data({header_send, frame_single, frame_later, frame_tail, header}), .m_valid(header_valid), .m_ready(header_take)
  );

  // ---- payload behind header ------------------------------------------------------------------------------------------

  logic [3:0] beat;           // 0..WHOLE-1: header only; WHOLE: header and payload; WHOLE+1: payload
  logic flush;                // the payload's last beat is taken, its end is in `carry`
  logic [OFFSET-1:0] carry;   // end of the payload beat before
  logic [15-KB:0] later;      // beats behind this one, and whether there is none: both but for a frame's first beat
  logic ends;

  wire advance = !m_axis_tvalid || m_axis_tready;
  wire discard = header_valid && !header_send && payload_valid;
  wire emit = advance && header_valid && header_send && (flush || payload_valid);
  wire last = beat == 4'd0 ? frame_single : ends;
  wire [15-KB:0] later_now = beat == 4'd0 ? frame_later : later;

  assign payload_take = discard || (emit && !flush && {1'b0, beat} + 5'd1 > 5'(WHOLE));
  assign header_take  = (discard && payload_last) || (emit && last);

  wire [(WHOLE+1)*WIDTH-1:0] header_beats = {{(WHOLE + 1) * WIDTH - HEADERS * 8{1'b0}}, header};
  logic [WIDTH-1:0] shifted;
  always_comb begin
    shifted = {payload[WIDTH-OFFSET-1:0], carry};
    if (beat == 4'(WHOLE)) shifted[OFFSET-1:0] = header_beats[WHOLE*WIDTH+:OFFSET];
    for (int b = 0; b < WHOLE; b++) if (beat == 4'(b)) shifted = header_beats[b*WIDTH+:WIDTH];
  end

  always_ff @(posedge clk) begin
    if (advance) m_axis_tvalid <= emit;
    if (emit) begin
      m_axis_tdata <= shifted;
      m_axis_tlast <= last;
      for (int i = 0; i < KEEP; i++) m_axis_tkeep[i] <= !last || KB'(i) <= frame_tail;
      later <= later_now - 1'b1;
      ends  <= later_now == (16 - KB)'(1);
      carry <= payload[WIDTH-1-:OFFSET];
      beat  <= last ? 4'd0 : beat <= 4'(WHOLE) ? beat + 4'd1 : beat;
      flush <= !last && (flush || (payload_take && payload_last));
    end
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      beat  <= 4'd0;
      flush <= 1'b0;
    end
  end

`ifdef VERILATOR
  logic begun = 1'b0;  // there has been a reset
  always_ff @(posedge clk) begin
    begun <= begun || rst;
    if (begun && !rst && at[L]) assert (header_ready) else $error("udp_tx: header FIFO full");
  end
`endif

endmodule

`default_nettype wire
