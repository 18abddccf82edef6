// SPDX-License-Identifier: BSD-3-Clause
// Checks the IPv4 header checksum and the UDP checksum of each frame.
//
// Contract: LATENCY (7) cycles after a frame's last beat, `ip_good` and `udp_good` are those of the frame. `udp_good` also
// holds if the sender computed no checksum (field 0). Both mean something only for whole IPv4 frames, UDP ones.
// Throughput: one beat a cycle.
//
// How: a ones' complement sum that includes the checksum field is 0xffff. The IPv4 sum covers [l3_start, l4_start); the UDP
// sum covers the two addresses in the IPv4 header and the UDP length's bytes from l4_start, as the beats go by; protocol and
// length, the rest of the pseudo header, are added at the end. All regions begin at even bytes of the frame.
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
    output logic                    udp_good
);

  localparam int KEEP     = WIDTH / 8;
  localparam int KB       = $clog2(KEEP);
  localparam int IP_WIDTH = WIDTH > 640 ? 640 : WIDTH;  // an IPv4 header ends within the first 78 bytes
  localparam int IP_KEEP  = IP_WIDTH / 8;

  // Where byte `at` of the frame lies in the beat that begins at byte `from`: 0 before it, KEEP behind it.
  function automatic logic [KB:0] place(input logic [16:0] at, input logic [15:0] from);
    logic [16:0] d;
    d = at - {1'b0, from};
    place = at <= {1'b0, from} ? '0 : d >= 17'(KEEP) ? (KB + 1)'(KEEP) : d[KB:0];
  endfunction

  // ---- 1: where the regions begin and end in this beat --------------------------------------------------------------------

  // In a narrow stream the first two bytes of the UDP header may pass before its length has come: they count whatever an
  // earlier frame left there (a true length below 8 is dropped for that).
  wire [15:0] udp_length = header.l4[31:16] < 16'd8 ? 16'd8 : header.l4[31:16];

  logic [KB:0] ip_begin, ip_end, address_begin, address_end, udp_end;
  logic        valid_1, last_1;
  logic [WIDTH-1:0] data_1;

  always_ff @(posedge clk) begin
    ip_begin      <= place({10'd0, header.l3_start}, pos);
    ip_end        <= place({10'd0, header.l4_start}, pos);
    address_begin <= place({10'd0, header.l3_start} + 17'd12, pos);
    address_end   <= place({10'd0, header.l3_start} + 17'd20, pos);
    udp_end       <= place({10'd0, header.l4_start} + {1'b0, udp_length}, pos);
    valid_1       <= valid && !rst;
    last_1        <= last;
    data_1        <= data;
  end

  // ---- 2: the bytes that count --------------------------------------------------------------------------------------------

  logic [IP_KEEP-1:0] ip_keep;
  logic [KEEP-1:0]    udp_keep;
  logic               valid_2, last_2;
  logic [WIDTH-1:0]   data_2;

  always_ff @(posedge clk) begin
    for (int i = 0; i < IP_KEEP; i++) ip_keep[i] <= (KB + 1)'(i) >= ip_begin && (KB + 1)'(i) < ip_end;
    for (int i = 0; i < KEEP; i++)
      udp_keep[i] <= ((KB + 1)'(i) >= ip_end && (KB + 1)'(i) < udp_end) ||
                     ((KB + 1)'(i) >= address_begin && (KB + 1)'(i) < address_end);
    valid_2 <= valid_1 && !rst;
    last_2  <= last_1;
    data_2  <= data_1;
  end

  // ---- 3 to 6: sums -------------------------------------------------------------------------------------------------------

  logic [15:0] ip_sum, udp_sum, length, field;

  ones_sum #(.WIDTH(IP_WIDTH)) sum_ip (
      .clk, .rst, .enable(1'b1), .data(data_2[IP_WIDTH-1:0]), .keep(ip_keep), .valid(valid_2), .last(last_2),
      .sum(ip_sum), .sum_valid()
  );
  ones_sum #(.WIDTH(WIDTH)) sum_udp (
      .clk, .rst, .enable(1'b1), .data(data_2), .keep(udp_keep), .valid(valid_2), .last(last_2),
      .sum(udp_sum), .sum_valid()
  );
  delay_line #(.BITS(32), .CYCLES(6)) keep_fields (.clk, .d(header.l4[31:0]), .q({length, field}));

  // ---- 7: compare ---------------------------------------------------------------------------------------------------------

  wire [15:0] udp_total = eth_pkg::ones_fold({16'd0, udp_sum} + {16'd0, length} + {24'd0, eth_pkg::IP_PROTO_UDP});

  always_ff @(posedge clk) begin
    ip_good  <= ip_sum == 16'hffff;
    udp_good <= udp_total == 16'hffff || field == 16'd0;
  end

endmodule

`default_nettype wire
