// SPDX-License-Identifier: BSD-3-Clause
// Takes the headers off: payload bytes moved to byte 0, padding cut off, tkeep exact.
//
// Contract: in, beats of frames with header fields; `verdict_app` is read with the last beat. Out, for each frame in which
// payload began, its payload as an AXI4-Stream frame, tuser set on the last beat if the frame was not for the application (its
// length may then be wrong). Nothing comes out of a frame without UDP payload. Neither side can be held up: one beat a cycle,
// frames of one beat back to back. Latency: 4 cycles.
//
// How: the payload of slot n, KEEP bytes from byte s = start mod KEEP of beat n on, needs beats n and n+1 and never more
// slots than the frame has beats. So slot n leaves when beat n+1 comes, or at once if beat n was the last. The last slot with
// payload must wait for the frame's last beat (padding may follow, and only then is the verdict known), so slots pass through
// one register: each is pushed out by the next of its frame, the last one in the cycle after the end of the frame. A frame's
// first slot pushes nothing out, hence the output port is free in that cycle: there is no bubble and no collision.
`default_nettype none

module rx_strip #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                valid,
    input  wire  [WIDTH-1:0]   data,
    input  wire                last,
    input  wire  [15:0]        pos,
    input  wire                is_udp,       // over IPv4
    input  wire  [6:0]         start,        // of the payload
    input  wire  [15:0]        length,       // of the payload
    input  wire                verdict_app,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    output logic               m_axis_tlast,
    output logic               m_axis_tuser
);

  localparam int KEEP = WIDTH / 8;
  localparam int KB   = $clog2(KEEP);

  // ---- 1: a beat, until the next has come -----------------------------------------------------------------------------------

  logic             valid_1, last_1, app_1, is_udp_1;
  logic [WIDTH-1:0] data_1;
  logic [6:0]       start_1;
  logic             begun_1;      // the payload begins in this slot or did before
  logic [15-KB:0]   done_1;       // whole slots of payload before this one
  logic [15:0]      length_1;
  wire              leaves = valid_1 && (valid || last_1);

  wire [15-KB:0]    whole = (16 - KB)'(start >> KB);  // beats that are header only

  always_ff @(posedge clk) begin
    if (valid || leaves) valid_1 <= valid;
    if (valid) begin
      data_1   <= data;
      last_1   <= last;
      app_1    <= verdict_app;
      is_udp_1 <= is_udp;
      start_1  <= start;
      begun_1  <= pos[15:KB] >= whole;
      done_1   <= pos[15:KB] - whole;
      length_1 <= length;
    end
    if (rst) valid_1 <= 1'b0;
  end

  // ---- 2: a slot ------------------------------------------------------------------------------------------------------------

  logic             valid_2, payload_2, last_2, app_2;
  logic [WIDTH-1:0] data_2;
  logic [KB:0]      kept_2;

  wire full = length_1[15:KB] > done_1;
  wire tail = length_1[15:KB] == done_1 && length_1[KB-1:0] != '0;

  // Headers end two bytes behind a multiple of four: a constant shift by 2, a variable one by words.
  wire [2*WIDTH-1:0] both = {data, data_1} >> 16;
  wire [6:0]         words = (start_1 & 7'(KEEP - 1)) >> 2;

  always_ff @(posedge clk) begin
    valid_2   <= leaves && !rst;
    payload_2 <= is_udp_1 && begun_1 && (full || tail);
    last_2    <= last_1;
    app_2     <= app_1;
    data_2    <= WIDTH'(both >> {words, 5'd0});
    kept_2    <= full ? (KB + 1)'(KEEP) : {1'b0, length_1[KB-1:0]};
  end

  // ---- 3: the slot before it, until it is known whether it was the frame's last with payload ----------------------------------

  logic             valid_3, ended_3, app_3;
  logic [WIDTH-1:0] data_3;
  logic [KB:0]      kept_3;

  wire push = valid_2 && payload_2;

  always_ff @(posedge clk) begin
    m_axis_tvalid <= valid_3 && (push || ended_3);
    m_axis_tdata  <= data_3;
    m_axis_tlast  <= ended_3;
    m_axis_tuser  <= !app_3;
    for (int i = 0; i < KEEP; i++) m_axis_tkeep[i] <= (KB + 1)'(i) < kept_3;

    if (push) begin
      data_3 <= data_2;
      kept_3 <= kept_2;
    end
    if (push || ended_3) valid_3 <= push;
    ended_3 <= valid_2 && last_2;
    app_3   <= app_2;
    if (rst) begin
      valid_3       <= 1'b0;
      ended_3       <= 1'b0;
      m_axis_tvalid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
