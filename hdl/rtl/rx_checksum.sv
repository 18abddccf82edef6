// SPDX-License-Identifier: BSD-3-Clause
// Checks the IPv4 header checksum of each frame, and the checksum of the UDP, ICMP or IGMP behind that.
//
// Contract: 10 cycles after a frame's last beat, `ip_good` and `l4_good` are those of the frame. `l4_good` of UDP also
// holds if the sender computed no checksum (field 0). Both mean something only for whole IPv4 frames, of those protocols.
// Latency: 10 cycles. Throughput: one beat a cycle.
//
// How: a ones' complement sum that includes the checksum field is 0xffff. The IPv4 sum covers [l3_start, l4_start); the UDP
// sum covers the two addresses in the IPv4 header and the UDP length's bytes from l4_start, as the beats go by; protocol and
// length, the rest of the pseudo header, are added at the end. What is not UDP has no pseudo header: its sum covers all of the
// IPv4 packet from l4_start. All regions begin at even bytes of the frame.
`default_nettype none

module rx_checksum #(
    parameter int WIDTH = 1024
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire                     valid,
    input  wire [WIDTH-1:0]         data,
    input  wire                     last,
    input  wire [15:0]              pos,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire rx_pkg::header_t    header,  // most of it
    /* verilator lint_on UNUSEDSIGNAL */

    output logic                    ip_good,
    output logic                    l4_good
);

  localparam int KEEP     = WIDTH / 8;
  localparam int KB       = $clog2(KEEP);
  localparam int IP_WIDTH = WIDTH > 640 ? 640 : WIDTH;  // an IPv4 header ends within the first 78 bytes
  localparam int IP_KEEP  = IP_WIDTH / 8;

  // Where byte `at` of the frame lies in the beat that begins at byte `from`, which is a multiple of KEEP: 0 before it, KEEP
  // behind it. No adder: whole beats are compared.
  function automatic logic [KB:0] place(input logic [16:0] at, input logic [15:0] from);
    place = at[16:KB] < (17 - KB)'(from[15:KB]) ? '0
            : at[16:KB] == (17 - KB)'(from[15:KB]) ? {1'b0, at[KB-1:0]} : (KB + 1)'(KEEP);
  endfunction

  // ---- 1: where the regions begin and end in the frame ----------------------------------------------------------------------

  // In a narrow stream the first two bytes of the UDP header may pass before its length has come: they count whatever an
  // earlier frame left there (a true length below 8 is dropped for that).
  wire udp_short = header.l4[31:19] == 13'd0;
  wire is_udp = header.l3[151:144] == eth_pkg::IP_PROTO_UDP;

  logic [6:0]  l3_start_1, l4_start_1, address_1, address_end_1;
  logic [16:0] udp_end_1, packet_end_1;
  logic        pseudo_1;
  logic [15:0] pos_1;
  logic        valid_1, last_1;
  logic [WIDTH-1:0] data_1;

  always_ff @(posedge clk) begin
    l3_start_1    <= header.l3_start;
    l4_start_1    <= header.l4_start;
    address_1     <= header.l3_start + 7'd12;
    address_end_1 <= header.l3_start + 7'd20;
    udp_end_1     <= udp_short ? {10'd0, header.l4_start} + 17'd8 : {10'd0, header.l4_start} + {1'b0, header.l4[31:16]};
    packet_end_1  <= {10'd0, header.l3_start} + {1'b0, header.l3[207:192]};
    pseudo_1      <= is_udp;
    pos_1         <= pos;
    valid_1       <= valid && !rst;
    last_1        <= last;
    data_1        <= data;
  end

  // ---- 2: and in this beat --------------------------------------------------------------------------------------------------

  logic [KB:0] ip_begin, ip_end, address_begin, address_end, l4_end;
  logic        valid_2, last_2;
  logic [WIDTH-1:0] data_2;

  always_ff @(posedge clk) begin
    ip_begin      <= place({10'd0, l3_start_1}, pos_1);
    ip_end        <= place({10'd0, l4_start_1}, pos_1);
    address_begin <= place({10'd0, address_1}, pos_1);
    address_end   <= pseudo_1 ? place({10'd0, address_end_1}, pos_1) : '0;
    l4_end        <= place(pseudo_1 ? udp_end_1 : packet_end_1, pos_1);
    valid_2       <= valid_1 && !rst;
    last_2        <= last_1;
    data_2        <= data_1;
  end

  // ---- 3: the bytes that count --------------------------------------------------------------------------------------------

  logic [IP_KEEP-1:0] ip_keep;
  logic [KEEP-1:0]    l4_keep;
  logic               valid_3, last_3;
  logic [WIDTH-1:0]   data_3;

  always_ff @(posedge clk) begin
    for (int i = 0; i < IP_KEEP; i++) ip_keep[i] <= (KB + 1)'(i) >= ip_begin && (KB + 1)'(i) < ip_end;
    for (int i = 0; i < KEEP; i++)
      l4_keep[i] <= ((KB + 1)'(i) >= ip_end && (KB + 1)'(i) < l4_end) ||
                    ((KB + 1)'(i) >= address_begin && (KB + 1)'(i) < address_end);
    valid_3 <= valid_2 && !rst;
    last_3  <= last_2;
    data_3  <= data_2;
  end

  // ---- 4 to 8: sums -------------------------------------------------------------------------------------------------------

  logic [15:0] ip_sum, l4_sum, length, field;
  logic        pseudo;

  ones_sum #(.WIDTH(IP_WIDTH)) sum_ip (
      .clk, .rst, .enable(1'b1), .data(data_3[IP_WIDTH-1:0]), .keep(ip_keep), .valid(valid_3), .last(last_3),
      .sum(ip_sum), .sum_valid()
  );
  ones_sum #(.WIDTH(WIDTH)) sum_l4 (
      .clk, .rst, .enable(1'b1), .data(data_3), .keep(l4_keep), .valid(valid_3), .last(last_3),
      .sum(l4_sum), .sum_valid()
  );
  delay_line #(.BITS(33), .CYCLES(7)) keep_fields (.clk, .d({header.l4[31:0], is_udp}), .q({length, field, pseudo}));

  // ---- 9: the rest of the pseudo header. 10: compare --------------------------------------------------------------------------

  logic [16:0] rest;
  logic [17:0] l4_total;  // 65535 or twice that, if the sum is right: it is never 0
  logic        no_sum, no_sum_9, ip_good_9;

  always_ff @(posedge clk) begin
    rest      <= pseudo ? {1'b0, length} + {9'd0, eth_pkg::IP_PROTO_UDP} : 17'd0;
    no_sum    <= pseudo && field == 16'd0;
    l4_total  <= {2'b00, l4_sum} + {1'b0, rest};
    no_sum_9  <= no_sum;
    ip_good_9 <= ip_sum == 16'hffff;
    ip_good   <= ip_good_9;
    l4_good   <= l4_total == 18'h0ffff || l4_total == 18'h1fffe || no_sum_9;
  end

endmodule

`default_nettype wire
