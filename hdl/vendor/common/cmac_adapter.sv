// SPDX-License-Identifier: BSD-3-Clause
// Between the core and AMD's 100G MAC of UltraScale+ (CMAC, PG203) with its 512-bit AXI4-Stream interface.
//
// Contract, core's side: mac_tx_axis, mac_rx_axis and phy_status of ethernet_core, in `clk`. Contract, MAC's side: all in `clk`
// too, which is the MAC's gt_txusrclk2 (322.266 MHz), and its rx_clk is driven by the same: CMAC lets it, through its receiver's
// elastic buffer, so that nothing is crossed here. Every output to the MAC comes from a flip-flop.
// Transmit: frames are padded to 60 bytes, as PG203 warns that the MAC may lock up on shorter ones, and it has no padding of its
// own. tvalid does not fall inside a frame if the core's does not. Latency: 1 cycle. Receive: Latency: 1 cycle; tuser with tlast
// marks a bad frame.
// Start, as PG203 asks: remote faults are sent until the receiver is aligned; then the transmitter is enabled, and it stays so.
// phy_status: bit 0 link up, 1 local fault, 2 remote fault, 3 receiver aligned, 4 a frame ran dry, 5 transmit overflow (both stay
// until reset).
`default_nettype none

module cmac_adapter #(
    parameter int WIDTH = 512
) (
    input  wire                clk,
    input  wire                rst,
    // The core.
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    output logic               m_axis_tlast,
    output logic               m_axis_tuser,
    output logic [63:0]        phy_status,
    // The MAC, by its own names.
    output logic [WIDTH-1:0]   tx_axis_tdata,
    output logic [WIDTH/8-1:0] tx_axis_tkeep,
    output logic               tx_axis_tvalid,
    input  wire                tx_axis_tready,
    output logic               tx_axis_tlast,
    output logic               tx_axis_tuser,
    input  wire                tx_ovfout,
    input  wire                tx_unfout,
    input  wire  [WIDTH-1:0]   rx_axis_tdata,
    input  wire  [WIDTH/8-1:0] rx_axis_tkeep,
    input  wire                rx_axis_tvalid,
    input  wire                rx_axis_tlast,
    input  wire                rx_axis_tuser,
    output logic               ctl_rx_enable,
    output logic               ctl_tx_enable,
    output logic               ctl_tx_send_rfi,
    input  wire                stat_rx_status,
    input  wire                stat_rx_aligned,
    input  wire                stat_rx_local_fault,
    input  wire                stat_rx_remote_fault
);

  logic [WIDTH-1:0] padded_tdata;
  logic [WIDTH/8-1:0] padded_tkeep;
  logic padded_tvalid, padded_tready, padded_tlast;

  frame_pad #(.WIDTH(WIDTH)) pad (
      .clk, .rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
      .m_axis_tdata(padded_tdata), .m_axis_tkeep(padded_tkeep), .m_axis_tvalid(padded_tvalid),
      .m_axis_tready(padded_tready), .m_axis_tlast(padded_tlast)
  );

  skid_buffer #(.BITS(WIDTH + WIDTH / 8 + 1)) out (
      .clk, .rst, .s_data({padded_tlast, padded_tkeep, padded_tdata}), .s_valid(padded_tvalid), .s_ready(padded_tready),
      .m_data({tx_axis_tlast, tx_axis_tkeep, tx_axis_tdata}), .m_valid(tx_axis_tvalid), .m_ready(tx_axis_tready)
  );
  assign tx_axis_tuser = 1'b0;  // the core never sends what it would have to poison

  always_ff @(posedge clk) begin
    m_axis_tdata  <= rx_axis_tdata;
    m_axis_tkeep  <= rx_axis_tkeep;
    m_axis_tvalid <= rx_axis_tvalid && !rst;
    m_axis_tlast  <= rx_axis_tlast;
    m_axis_tuser  <= rx_axis_tlast && rx_axis_tuser;
  end

  always_ff @(posedge clk) begin
    ctl_rx_enable   <= 1'b1;
    ctl_tx_send_rfi <= !stat_rx_aligned;
    if (stat_rx_aligned) ctl_tx_enable <= 1'b1;
    phy_status[3:0] <= {stat_rx_aligned, stat_rx_remote_fault, stat_rx_local_fault,
                        stat_rx_status && !stat_rx_local_fault && !stat_rx_remote_fault};
    phy_status[5:4] <= phy_status[5:4] | {tx_ovfout, tx_unfout};
    phy_status[63:6] <= '0;
    if (rst) begin
      ctl_rx_enable   <= 1'b0;
      ctl_tx_enable   <= 1'b0;
      ctl_tx_send_rfi <= 1'b1;
      phy_status[5:0] <= '0;
    end
  end

endmodule

`default_nettype wire
