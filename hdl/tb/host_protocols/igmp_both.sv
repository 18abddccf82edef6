// SPDX-License-Identifier: BSD-3-Clause
// igmp_host and igmp_sender, joined as the core joins them.
`default_nettype none

module igmp_both #(
    parameter int WIDTH    = 64,
    parameter int CLOCK_HZ = 20000
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                enable,
    input  wire                igmp,
    input  wire  [5:0]         seed,
    input  wire  [47:0]        own_mac,
    input  wire  [31:0]        own_ip,
    input  wire  [31:0]        group,
    input  wire  [31:0]        group_mask,
    input  wire                query_valid,
    input  wire  [7:0]         query_max,
    input  wire  [31:0]        query_group,
    output logic               joined,
    output logic               busy,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  logic report_valid, report_leave, report_ready;
  logic [31:0] report_group;

  igmp_host #(.CLOCK_HZ(CLOCK_HZ)) host (.*);
  igmp_sender #(.WIDTH(WIDTH)) sender (.*);

endmodule

`default_nettype wire
