// SPDX-License-Identifier: BSD-3-Clause
// Behavioural model of the client interface of AMD's CMAC (PG203, 512-bit AXI4-Stream) over mac_model's line. For simulation.
//
// As PG203 says and mac_model does not: frames are not padded, and one of fewer than 60 bytes locks the transmitter up; the
// transmitter must not be enabled before the receiver was aligned; both make `wrong`, which stays, and are errors if FATAL. A frame
// that runs dry pulses tx_unfout; nothing is taken before ctl_tx_enable and, while ctl_tx_send_rfi, remote faults are sent instead
// of frames; received frames pause, as rx_axis_tvalid may fall at any time (RX_PAUSE in 16 clocks, drawn); nothing is received
// before ctl_rx_enable.
// The line does RATE_NUM / RATE_DEN of a word a clock: 100 Gb/s for 20 / 33 at 322.266 MHz.
`default_nettype none
/* verilator lint_off BLKSEQ */

module cmac_model #(
    parameter int WIDTH    = 512,
    parameter int RATE_NUM = 20,
    parameter int RATE_DEN = 33,
    parameter int RX_PAUSE = 4,
    parameter bit FATAL    = 1
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [WIDTH-1:0]   tx_axis_tdata,
    input  wire  [WIDTH/8-1:0] tx_axis_tkeep,
    input  wire                tx_axis_tvalid,
    output logic               tx_axis_tready,
    input  wire                tx_axis_tlast,
    input  wire                tx_axis_tuser,
    output logic               tx_ovfout,
    output logic               tx_unfout,
    output logic [WIDTH-1:0]   rx_axis_tdata,
    output logic [WIDTH/8-1:0] rx_axis_tkeep,
    output logic               rx_axis_tvalid,
    output logic               rx_axis_tlast,
    output logic               rx_axis_tuser,
    input  wire                ctl_rx_enable,
    input  wire                ctl_tx_enable,
    input  wire                ctl_tx_send_rfi,
    output logic               stat_rx_status,
    output logic               stat_rx_aligned,
    output logic               stat_rx_local_fault,
    output logic               stat_rx_remote_fault,
    output logic               wrong,
    // The line.
    output logic [WIDTH-1:0]   wire_tx_data,
    output logic [WIDTH/8-1:0] wire_tx_ctrl,
    output logic               wire_tx_valid,
    input  wire  [WIDTH-1:0]   wire_rx_data,
    input  wire  [WIDTH/8-1:0] wire_rx_ctrl,
    input  wire                wire_rx_valid
);

  localparam int KEEP = WIDTH / 8;

  // ---- transmit ---------------------------------------------------------------------------------------------------------

  logic in_frame, line_tready, locked, early, was_aligned;
  assign wrong = locked || early;
  wire open = !locked && (in_frame || (ctl_tx_enable && !ctl_tx_send_rfi));
  assign tx_axis_tready = line_tready && open;
  assign tx_ovfout = 1'b0;  // an AXI4-Stream that obeys tready cannot

  mac_model_tx #(.WIDTH(WIDTH), .RATE_NUM(RATE_NUM), .RATE_DEN(RATE_DEN), .FATAL_UNDERFLOW(0)) tx (
      .clk, .rst, .pause(1'b0), .local_fault(ctl_tx_send_rfi), .s_axis_tdata(tx_axis_tdata), .s_axis_tkeep(tx_axis_tkeep),
      .s_axis_tvalid(tx_axis_tvalid && open), .s_axis_tready(line_tready), .s_axis_tlast(tx_axis_tlast),
      .wire_data(wire_tx_data), .wire_ctrl(wire_tx_ctrl), .wire_valid(wire_tx_valid), .underflow(tx_unfout)
  );

  int length;
  always @(posedge clk) begin
    if (tx_axis_tvalid && tx_axis_tready) begin
      length += $countones(tx_axis_tkeep);
      in_frame <= !tx_axis_tlast;
      if (tx_axis_tlast) begin
        if (length < 60) begin
          locked <= 1'b1;
          if (FATAL) $error("cmac_model: a frame of %0d bytes, which locks the MAC up", length);
        end
        if (tx_axis_tuser) $error("cmac_model: the adapter poisons no frame");
        length = 0;
      end
    end
    if (stat_rx_aligned) was_aligned <= 1'b1;
    if (ctl_tx_enable && !was_aligned && !early) begin
      early <= 1'b1;
      if (FATAL) $error("cmac_model: the transmitter is enabled before the receiver is aligned");
    end
    if (rst) begin
      in_frame <= 1'b0;
      locked <= 1'b0;
      early <= 1'b0;
      was_aligned <= 1'b0;
      length = 0;
    end
  end

  // ---- receive: beats wait in a queue, so that they can be made to pause ----------------------------------------------------

  logic [WIDTH-1:0] line_tdata;
  logic [KEEP-1:0] line_tkeep;
  logic line_tvalid, line_tlast, line_tuser;

  mac_model_rx #(.WIDTH(WIDTH)) rx (
      .clk, .rst, .wire_data(wire_rx_data), .wire_ctrl(wire_rx_ctrl), .wire_valid(wire_rx_valid),
      .m_axis_tdata(line_tdata), .m_axis_tkeep(line_tkeep), .m_axis_tvalid(line_tvalid), .m_axis_tlast(line_tlast),
      .m_axis_tuser(line_tuser), .bad_fcs(), .overrun(), .local_fault(stat_rx_local_fault),
      .remote_fault(stat_rx_remote_fault)
  );

  logic [WIDTH+KEEP+1:0] queue[$];
  int silent, heard;
  logic listening, listening_next;
  always @(posedge clk) begin
    rx_axis_tvalid <= 1'b0;
    listening_next = listening;
    if (!line_tvalid || line_tlast) listening_next = ctl_rx_enable;  // from a frame's beginning on
    if (line_tvalid && listening) queue.push_back({line_tuser, line_tlast, line_tkeep, line_tdata});
    listening = listening_next;
    if (queue.size() != 0 && int'($urandom() & 15) >= RX_PAUSE) begin
      {rx_axis_tuser, rx_axis_tlast, rx_axis_tkeep, rx_axis_tdata} <= queue.pop_front();
      rx_axis_tvalid <= 1'b1;
    end
    // Aligned: words come, and have for 128 clocks.
    silent = wire_rx_valid ? 0 : silent + 1;
    heard = silent >= 128 ? 0 : heard < 128 ? heard + 1 : heard;
    stat_rx_aligned <= heard >= 128;
    stat_rx_status <= heard >= 128;
    if (rst) begin
      queue.delete();
      silent = 128;
      heard = 0;
      listening = 1'b0;
      rx_axis_tvalid  <= 1'b0;
      stat_rx_aligned <= 1'b0;
      stat_rx_status  <= 1'b0;
    end
  end

endmodule

/* verilator lint_on BLKSEQ */
`default_nettype wire
