// SPDX-License-Identifier: BSD-3-Clause
// Between the core and a 400G MAC whose beat is eight segments of 128 bits (AMD's DCMAC, PG369, segmented AXI4-Stream).
//
// Contract, core's side: mac_tx_axis, mac_rx_axis and phy_status of ethernet_core. Contract, MAC's side: segment s has bytes 16s
// .. 16s+15 of a beat; ena: in use; sop, eop: first and last of a frame; mty: bytes not used at the end of an eop segment; err
// with eop: a bad frame. All in `clk`: the MAC's tx_axi_clk and rx_axi_clk. Outputs to the MAC come from flip-flops.
// Transmit: each frame starts in segment 0, and what is left of its last beat stays empty, as PG369 allows. Frames are padded to
// 60 bytes. tready is obeyed in its own cycle, so the MAC's early warning (taf) is not needed. tvalid does not fall inside a frame
// if the core's does not. Latency: 1 cycle. Receive: segment_realigner, with its latency.
// phy_status: bit 0 link up, 1 local fault, 2 remote fault, as they are told; bits 63..32 frames that the realigner lost.
`default_nettype none

module mac_segmented #(
    parameter int WIDTH = 1024,
    parameter int DEPTH = 64,           // beats that wait for the realigner
    localparam int SEGMENTS = WIDTH / 128
) (
    input  wire                    clk,
    input  wire                    rst,
    // The core.
    input  wire  [WIDTH-1:0]       s_axis_tdata,
    input  wire  [WIDTH/8-1:0]     s_axis_tkeep,
    input  wire                    s_axis_tvalid,
    output logic                   s_axis_tready,
    input  wire                    s_axis_tlast,
    output logic [WIDTH-1:0]       m_axis_tdata,
    output logic [WIDTH/8-1:0]     m_axis_tkeep,
    output logic                   m_axis_tvalid,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tuser,
    output logic [63:0]            phy_status,
    // The MAC.
    output logic [WIDTH-1:0]       tx_data,
    output logic [SEGMENTS-1:0]    tx_ena,
    output logic [SEGMENTS-1:0]    tx_sop,
    output logic [SEGMENTS-1:0]    tx_eop,
    output logic [SEGMENTS-1:0]    tx_err,
    output logic [4*SEGMENTS-1:0]  tx_mty,
    output logic                   tx_valid,
    input  wire                    tx_ready,
    input  wire  [WIDTH-1:0]       rx_data,
    input  wire  [SEGMENTS-1:0]    rx_ena,
    input  wire  [SEGMENTS-1:0]    rx_sop,
    input  wire  [SEGMENTS-1:0]    rx_eop,
    input  wire  [SEGMENTS-1:0]    rx_err,
    input  wire  [4*SEGMENTS-1:0]  rx_mty,
    input  wire                    rx_valid,
    output logic                   rx_overrun,      // frames were lost
    input  wire                    stat_link_up,
    input  wire                    stat_local_fault,
    input  wire                    stat_remote_fault
);

  // ---- transmit ---------------------------------------------------------------------------------------------------------

  logic [WIDTH-1:0] tdata;
  logic [WIDTH/8-1:0] tkeep;
  logic tvalid, tready, tlast, first;

  frame_pad #(.WIDTH(WIDTH)) pad (
      .clk, .rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
      .m_axis_tdata(tdata), .m_axis_tkeep(tkeep), .m_axis_tvalid(tvalid), .m_axis_tready(tready), .m_axis_tlast(tlast)
  );

  always_ff @(posedge clk) begin
    if (rst) first <= 1'b1;
    else if (tvalid && tready) first <= tlast;
  end

  logic [SEGMENTS-1:0] ena, sop, eop;
  logic [4*SEGMENTS-1:0] mty;
  genvar s;
  generate
    for (s = 0; s < SEGMENTS; s = s + 1) begin : g_segment
      logic [4:0] count;
      keep_count #(.KEEP(16)) counted (.keep(tkeep[16*s+:16]), .count);
      assign ena[s] = tkeep[16*s];
      assign sop[s] = s == 0 && first;
      if (s == SEGMENTS - 1) begin : g_last
        assign eop[s] = tlast && ena[s];
      end else begin : g_other
        assign eop[s] = tlast && ena[s] && !tkeep[16*s+16];
      end
      assign mty[4*s+:4] = -count[3:0];
    end
  endgenerate

  skid_buffer #(.BITS(WIDTH + 7 * SEGMENTS)) out (
      .clk, .rst, .s_data({mty, eop, sop, ena, tdata}), .s_valid(tvalid), .s_ready(tready),
      .m_data({tx_mty, tx_eop, tx_sop, tx_ena, tx_data}), .m_valid(tx_valid), .m_ready(tx_ready)
  );
  assign tx_err = '0;  // the core never sends what it would have to poison

  // ---- receive ----------------------------------------------------------------------------------------------------------

  localparam int LB = $clog2(SEGMENTS + 1);
  logic [LB-1:0] lost;
  logic [63:0] lost_total;

  segment_realigner #(.WIDTH(WIDTH), .DEPTH(DEPTH)) realigner (
      .clk, .rst, .rx_data, .rx_ena, .rx_sop, .rx_eop, .rx_err, .rx_mty, .rx_valid,
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser, .lost
  );

  event_counter #(.BITS(LB)) lost_frames (.clk, .rst, .clear(1'b0), .add(lost), .total(lost_total));

  always_ff @(posedge clk) begin
    rx_overrun <= lost != '0 && !rst;
    phy_status <= {lost_total[31:0], 29'd0, stat_remote_fault, stat_local_fault, stat_link_up};
    if (rst) phy_status <= '0;
  end

endmodule

`default_nettype wire
