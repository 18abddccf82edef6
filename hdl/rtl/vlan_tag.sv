// SPDX-License-Identifier: BSD-3-Clause
// Puts an 802.1Q tag into each frame on its way to the MAC.
//
// Contract: while `insert` is on, 8100 and `tci` come in behind the MAC addresses of every frame that has no tag yet (those of
// the CPU may have, and echoes of tagged requests do); all else passes as it is. A frame of L bytes leaves in
// ceil((L + 4) / (WIDTH/8)) beats with no idle beat inside, and none between frames that wait. Settings may change at any time: each
// frame has a whole tag or none. Latency: 1 cycle; outputs come from flip-flops.
`default_nettype none

module vlan_tag #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                insert,
    input  wire  [15:0]        tci,

    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,

    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast
);

  localparam int KEEP  = WIDTH / 8;
  localparam int AT    = 12 / KEEP;  // the beat with the tag
  localparam int PLACE = 12 % KEEP;  // its first byte there; its last is in that beat too, at every width

  logic        tagging, flush;  // this frame gets a tag; its last beat is taken, and its end is in `carry`
  logic [1:0]  beat;            // 2: any later one
  logic [31:0] carry;
  logic [3:0]  carry_keep;

  wire advance = !m_axis_tvalid || m_axis_tready;
  wire place   = beat == 2'(AT) && insert && s_axis_tdata[8*PLACE+:16] != eth_pkg::swap2(eth_pkg::ETHERTYPE_VLAN);
  wire moves   = place || (beat > 2'(AT) && tagging);
  wire spills  = moves && s_axis_tlast && s_axis_tkeep[KEEP-4];

  assign s_axis_tready = advance && !flush && !rst;

  logic [WIDTH-1:0] moved;
  logic [KEEP-1:0]  moved_keep;
  always_comb begin
    moved      = {s_axis_tdata[WIDTH-33:0], carry};
    moved_keep = {s_axis_tkeep[KEEP-5:0], 4'b1111};
    if (beat == 2'(AT)) begin
      moved[8*PLACE+:32] = {eth_pkg::swap2(tci), eth_pkg::swap2(eth_pkg::ETHERTYPE_VLAN)};
      if (PLACE > 0) moved[8*PLACE-1:0] = s_axis_tdata[8*PLACE-1:0];
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      m_axis_tvalid <= flush || s_axis_tvalid;
      m_axis_tlast  <= flush || (s_axis_tlast && !spills);
      m_axis_tdata  <= flush ? WIDTH'(carry) : moves ? moved : s_axis_tdata;
      m_axis_tkeep  <= flush ? KEEP'(carry_keep) : moves ? moved_keep : s_axis_tkeep;
      if (flush || s_axis_tvalid) begin
        carry      <= s_axis_tdata[WIDTH-1-:32];
        carry_keep <= s_axis_tkeep[KEEP-1-:4];
        tagging    <= moves;
        flush      <= !flush && spills;
        beat       <= flush ? 2'd0 : s_axis_tlast ? 2'd0 : beat[1] ? beat : beat + 1'b1;
      end
    end
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      flush         <= 1'b0;
      tagging       <= 1'b0;
      beat          <= 2'd0;
    end
  end

endmodule

`default_nettype wire
