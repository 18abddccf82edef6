// SPDX-License-Identifier: BSD-3-Clause
// Makes the frames of IGMPv2: membership reports, to the group; leaves, to all routers (RFC 2236).
//
// Contract: what is asked for is taken with `report_ready` and leaves as one frame of 46 bytes: IPv4 with TTL 1, the Router Alert option
// and precedence "internetwork control", from own_ip; the MAC pads it. Throughput: one in 46 / (WIDTH/8) + 5 cycles. Latency: 4 cycles.
`default_nettype none

module igmp_sender #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [47:0]        own_mac,
    input  wire  [31:0]        own_ip,

    input  wire                report_valid,
    input  wire                report_leave,
    input  wire  [31:0]        report_group,
    output logic               report_ready,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  localparam logic [31:0] ROUTER_ALERT = 32'h9404_0000;
  localparam logic [31:0] FIRST = 32'h46c0_0020, SECOND = 32'h0000_4000;  // 6 words, type of service, length; don't fragment
  localparam logic [31:0] THIRD = {8'd1, eth_pkg::IP_PROTO_IGMP, 16'd0};  // TTL
  localparam logic [15:0] IP_REST = eth_pkg::ones_fold(
      32'(FIRST[31:16]) + 32'(FIRST[15:0]) + 32'(SECOND[15:0]) + 32'(THIRD[31:16]) + 32'(ROUTER_ALERT[31:16])
  );

  wire [31:0] to   = report_leave ? eth_pkg::IP_ALL_ROUTERS : report_group;
  wire [15:0] kind = report_leave ? 16'h1700 : 16'h1600;

  // What is asked for stands until it is taken: its sums need not hurry. 1: two words; 2: their sum; 3: its carry.
  logic [3*16-1:0] ip_3;
  logic [2*16-1:0] ip_2, igmp_2;
  ones_layer #(.ROWS(5)) ip_layer_1 (.rows({IP_REST, own_ip, to}), .left(ip_3));
  ones_layer #(.ROWS(3)) ip_layer_2 (.rows(ip_3), .left(ip_2));
  ones_layer #(.ROWS(3)) igmp_layer (.rows({kind, report_group}), .left(igmp_2));

  logic [2:0]  at;
  logic [31:0] ip_rows, igmp_rows;
  logic [16:0] ip_sum, igmp_sum;
  logic [15:0] ip_check, igmp_check;
  logic        ready;

  assign report_ready = at[2] && ready;

  always_ff @(posedge clk) begin
    at         <= (rst || report_ready || !report_valid) ? 3'd0 : {at[2] || at[1], at[0], 1'b1};
    ip_rows    <= ip_2;
    igmp_rows  <= igmp_2;
    ip_sum     <= {1'b0, ip_rows[31:16]} + {1'b0, ip_rows[15:0]};
    igmp_sum   <= {1'b0, igmp_rows[31:16]} + {1'b0, igmp_rows[15:0]};
    ip_check   <= ~(ip_sum[15:0] + {15'd0, ip_sum[16]});
    igmp_check <= ~(igmp_sum[15:0] + {15'd0, igmp_sum[16]});
  end

  field_frame #(.WIDTH(WIDTH), .BYTES(46)) beats (
      .clk, .rst, .start(report_ready), .ready,
      .fields({eth_pkg::multicast_mac(to), own_mac, eth_pkg::ETHERTYPE_IPV4, FIRST, SECOND, THIRD[31:16], ip_check, own_ip, to,
               ROUTER_ALERT, kind, igmp_check, report_group}),
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast
  );

endmodule

`default_nettype wire
