// SPDX-License-Identifier: BSD-3-Clause
// Reads the headers of each frame, at any width.
//
// Contract: beats leave 3 cycles after they came, with the header fields as far as the frame has come: a field is
// right on the beat that holds its last byte and on every later beat of its frame. `pos` is the number of bytes before the
// beat, `bytes` the number up to its end; both stop counting near 65535. Nothing holds a beat up: one beat a cycle, frames of
// one beat back to back. While `enable` is low, frames that begin are ignored whole; so is the rest of a
// frame that a reset met. Latency: 3 cycles.
//
// Why fields go along with each beat: at 1024 bit a frame may begin every cycle, so nothing can wait in one register for a
// later stage; at 64 bit the fields fill up over eleven beats, and the stages behind see them in time all the same.
`default_nettype none

module rx_parse #(
    parameter int WIDTH = 1024
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                enable,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    input  wire                s_axis_tlast,
    input  wire                s_axis_tuser,

    output logic               valid,
    output logic [WIDTH-1:0]   data,
    output logic               last,
    output logic               bad,
    output logic [15:0]        pos,
    output logic [15:0]        bytes,
    output rx_pkg::header_t    header
);

  localparam int KEEP  = WIDTH / 8;
  localparam int KB    = $clog2(KEEP);
  localparam int BEATS = (rx_pkg::HEADER_SPAN + KEEP - 1) / KEEP;  // that can hold headers
  localparam int HELD  = BEATS * KEEP;                             // bytes

  // ---- 1: collect the beats that hold headers, count bytes ----------------------------------------------------------------

  logic [KB:0] kept;
  keep_count #(.KEEP(KEEP)) counted (.keep(s_axis_tkeep), .count(kept));

  logic in_frame, ignored;  // of a frame; of one that began while disabled, or met a reset
  logic [15:0] next_pos;
  initial in_frame = 1'b0;  // not by reset: the MAC goes on in the middle of a frame, whatever is reset here
  wire take = s_axis_tvalid && !rst && (in_frame ? !ignored : enable);
  wire [15:0] here = in_frame ? next_pos : 16'd0;

  logic [HELD*8-1:0] held = '0;  // what is looked at before it has come decides nothing, but is known
  logic              valid_1, last_1, bad_1;
  logic [WIDTH-1:0]  data_1;
  logic [15:0]       pos_1, bytes_1;

  always_ff @(posedge clk) begin
    if (s_axis_tvalid) begin
      in_frame <= !s_axis_tlast;
      ignored  <= !take;
      next_pos <= here[15:8] == 8'hff ? here : here + 16'(KEEP);
    end
    if (rst) ignored <= 1'b1;  // the rest of the present frame
    for (int b = 0; b < BEATS; b++)
      if (s_axis_tvalid && here == 16'(b * KEEP)) held[b*WIDTH+:WIDTH] <= s_axis_tdata;
    valid_1 <= take;
    last_1  <= s_axis_tlast;
    bad_1   <= s_axis_tuser;
    data_1  <= s_axis_tdata;
    pos_1   <= here;
    bytes_1 <= {here[15:KB] + (16 - KB)'(kept[KB]), kept[KB-1:0]};  // `here` is a multiple of KEEP
  end

  // ---- 2: step over the VLAN tag ------------------------------------------------------------------------------------------

  localparam int L3 = 68;  // bytes: IPv4 with all options, and UDP

  function automatic logic [15:0] word(input logic [HELD*8-1:0] frame, input int n);  // bytes n and n+1 as a number
    word = {frame[8*n+:8], frame[8*n+8+:8]};
  endfunction

  wire has_tag = word(held, 12) == eth_pkg::ETHERTYPE_VLAN;

  logic             valid_2, last_2, bad_2, vlan_2;
  logic [WIDTH-1:0] data_2;
  logic [15:0]      pos_2, bytes_2, ethertype_2;
  logic [47:0]      dst_mac_2, src_mac_2;
  logic [15:0]      tci_2;
  logic [L3*8-1:0]  l3_2;

  always_ff @(posedge clk) begin
    valid_2     <= valid_1 && !rst;
    last_2      <= last_1;
    bad_2       <= bad_1;
    data_2      <= data_1;
    pos_2       <= pos_1;
    bytes_2     <= bytes_1;
    vlan_2      <= has_tag;
    ethertype_2 <= has_tag ? word(held, 16) : word(held, 12);
    dst_mac_2   <= eth_pkg::swap6(held[47:0]);
    src_mac_2   <= eth_pkg::swap6(held[95:48]);
    tci_2       <= word(held, 14);
    l3_2        <= has_tag ? held[8*18+:L3*8] : held[8*14+:L3*8];
  end

  // ---- 3: step over the IPv4 header ---------------------------------------------------------------------------------------

  wire [3:0] ihl = l3_2[3:0] < 4'd5 ? 4'd5 : l3_2[3:0];  // too small is dropped later; until then it must do no harm
  wire [6:0] l3_start = vlan_2 ? 7'd18 : 7'd14;
  logic [63:0] l4;
  always_comb begin
    l4 = l3_2[8*20+:64];
    for (int words = 6; words <= 15; words++) if (ihl == 4'(words)) l4 = l3_2[32*words+:64];
  end

  always_ff @(posedge clk) begin
    valid            <= valid_2 && !rst;
    last             <= last_2;
    bad              <= bad_2;
    data             <= data_2;
    pos              <= pos_2;
    bytes            <= bytes_2;
    header.dst_mac   <= dst_mac_2;
    header.src_mac   <= src_mac_2;
    header.vlan      <= vlan_2;
    header.tci       <= tci_2;
    header.ethertype <= ethertype_2;
    header.l3_start  <= l3_start;
    header.l4_start  <= l3_start + {1'b0, ihl, 2'b00};
    for (int i = 0; i < 28; i++) header.l3[8*(27-i)+:8] <= l3_2[8*i+:8];
    for (int i = 0; i < 8; i++) header.l4[8*(7-i)+:8] <= l4[8*i+:8];
  end

endmodule

`default_nettype wire
