// SPDX-License-Identifier: BSD-3-Clause
// The MAC of a simulated FPGA, between the core and the line: mac_model itself, or a board's adapter and the model of that board's
// MAC.
//
// MAC: 0 mac_model; 1 cmac_adapter and cmac_model, 100 Gb/s at 512 bits; 2 mac_segmented and dcmac_model, 400 Gb/s at 1024 bits.
// `wrong`: the adapter does what the MAC does not allow; stays, and is an error if FATAL. `underflow`: a frame ran dry.
`default_nettype none

module sim_mac #(
    parameter int MAC   = 0,
    parameter int WIDTH = 1024,
    parameter bit FATAL = 1
) (
    input  wire                clk,
    input  wire                rst,
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
    output logic               wrong,
    output logic               underflow,
    output logic [WIDTH-1:0]   wire_tx_data,
    output logic [WIDTH/8-1:0] wire_tx_ctrl,
    output logic               wire_tx_valid,
    input  wire  [WIDTH-1:0]   wire_rx_data,
    input  wire  [WIDTH/8-1:0] wire_rx_ctrl,
    input  wire                wire_rx_valid
);

  generate
    if (MAC == 0) begin : g_plain
      logic link_up, local_fault, remote_fault;
      mac_model #(.WIDTH(WIDTH), .FATAL_UNDERFLOW(FATAL)) mac (
          .clk, .rst, .pause(1'b0), .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
          .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser,
          .wire_tx_data, .wire_tx_ctrl, .wire_tx_valid, .wire_rx_data, .wire_rx_ctrl, .wire_rx_valid,
          .link_up, .local_fault, .remote_fault, .bad_fcs(), .overrun(), .underflow
      );
      assign phy_status = {61'd0, remote_fault, local_fault, link_up};
      assign wrong = 1'b0;

    end else if (MAC == 1) begin : g_cmac
      logic [WIDTH-1:0] tx_axis_tdata, rx_axis_tdata;
      logic [WIDTH/8-1:0] tx_axis_tkeep, rx_axis_tkeep;
      logic tx_axis_tvalid, tx_axis_tready, tx_axis_tlast, tx_axis_tuser, rx_axis_tvalid, rx_axis_tlast, rx_axis_tuser;
      logic tx_ovfout, ctl_rx_enable, ctl_tx_enable, ctl_tx_send_rfi;
      logic stat_rx_status, stat_rx_aligned, stat_rx_local_fault, stat_rx_remote_fault;

      cmac_adapter #(.WIDTH(WIDTH)) adapter (
          .clk, .rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
          .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser, .phy_status,
          .tx_axis_tdata, .tx_axis_tkeep, .tx_axis_tvalid, .tx_axis_tready, .tx_axis_tlast, .tx_axis_tuser,
          .tx_ovfout, .tx_unfout(underflow),
          .rx_axis_tdata, .rx_axis_tkeep, .rx_axis_tvalid, .rx_axis_tlast, .rx_axis_tuser,
          .ctl_rx_enable, .ctl_tx_enable, .ctl_tx_send_rfi,
          .stat_rx_status, .stat_rx_aligned, .stat_rx_local_fault, .stat_rx_remote_fault
      );
      cmac_model #(.WIDTH(WIDTH), .FATAL(FATAL)) mac (
          .clk, .rst,
          .tx_axis_tdata, .tx_axis_tkeep, .tx_axis_tvalid, .tx_axis_tready, .tx_axis_tlast, .tx_axis_tuser,
          .tx_ovfout, .tx_unfout(underflow),
          .rx_axis_tdata, .rx_axis_tkeep, .rx_axis_tvalid, .rx_axis_tlast, .rx_axis_tuser,
          .ctl_rx_enable, .ctl_tx_enable, .ctl_tx_send_rfi,
          .stat_rx_status, .stat_rx_aligned, .stat_rx_local_fault, .stat_rx_remote_fault, .wrong,
          .wire_tx_data, .wire_tx_ctrl, .wire_tx_valid, .wire_rx_data, .wire_rx_ctrl, .wire_rx_valid
      );

    end else begin : g_dcmac
      localparam int SEGMENTS = WIDTH / 128;
      logic [WIDTH-1:0] tx_data, rx_data;
      logic [SEGMENTS-1:0] tx_ena, tx_sop, tx_eop, tx_err, rx_ena, rx_sop, rx_eop, rx_err;
      logic [4*SEGMENTS-1:0] tx_mty, rx_mty;
      logic tx_valid, tx_ready, rx_valid, stat_link_up, stat_local_fault, stat_remote_fault;
      int violations;

      mac_segmented #(.WIDTH(WIDTH)) adapter (
          .clk, .rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready, .s_axis_tlast,
          .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tlast, .m_axis_tuser, .phy_status,
          .tx_data, .tx_ena, .tx_sop, .tx_eop, .tx_err, .tx_mty, .tx_valid, .tx_ready,
          .rx_data, .rx_ena, .rx_sop, .rx_eop, .rx_err, .rx_mty, .rx_valid, .rx_overrun(),
          .stat_link_up, .stat_local_fault, .stat_remote_fault
      );
      dcmac_model #(.WIDTH(WIDTH), .FATAL(FATAL)) mac (
          .clk, .rst, .tx_data, .tx_ena, .tx_sop, .tx_eop, .tx_err, .tx_mty, .tx_valid, .tx_ready,
          .rx_data, .rx_ena, .rx_sop, .rx_eop, .rx_err, .rx_mty, .rx_valid,
          .stat_link_up, .stat_local_fault, .stat_remote_fault, .violations, .underflow,
          .wire_tx_data, .wire_tx_ctrl, .wire_tx_valid, .wire_rx_data, .wire_rx_ctrl, .wire_rx_valid
      );
      assign wrong = violations != 0;
    end
  endgenerate

endmodule

`default_nettype wire
