// SPDX-License-Identifier: BSD-3-Clause
// rx_strip, the shifter of the receive path, at 64 bits: payload byte n leaves as byte n, whatever the headers' length, the
// payload's and the padding, with any gaps; tkeep, tlast and tuser are exact. Checked for all inputs over a bounded number
// of clocks, in the first and the second of two frames.
`default_nettype none

module formal_rx_strip (
  input wire        clk,
  input wire [63:0] data,
  input wire        valid,
  input wire        last,
  input wire        app,
  // Any frames, and any byte of one; they stay.
  input wire [13:0] starts,
  input wire [31:0] lengths,
  input wire        watch_frame,
  input wire [15:0] watch
);
  logic        started = 1'b0;
  logic        rst, m_valid, m_last, m_user;
  logic [63:0] m_data;
  logic [7:0]  m_keep;
  assign rst = !started;
  always_ff @(posedge clk) started <= 1'b1;

  logic [6:0]  start[2];
  logic [15:0] length[2];
  assign {start[1], start[0]} = starts;
  assign {length[1], length[0]} = lengths;
  logic [62:0] chosen_was;
  always_ff @(posedge clk) chosen_was <= {starts, lengths, watch_frame, watch};
  always_comb if (started) assume (chosen_was == {starts, lengths, watch_frame, watch});
  logic        frame = 1'b0;      // the first or the second
  logic [15:0] pos = '0;
  always_comb for (int f = 0; f < 2; f++) assume (start[f] == 7'd10 || start[f] == 7'd14);  // 42 less whole beats, and +4
  always_comb begin
    for (int f = 0; f < 2; f++) assume (length[f] >= 16'd1 && length[f] <= 16'd20);
    // The frame has at least its payload, and up to a beat of padding.
    if (last) assume (pos + 16'd8 >= 16'(start[frame]) + length[frame]);
    else assume (pos < 16'(start[frame]) + length[frame]);
  end
  logic done = 1'b0;  // two frames are enough
  always_ff @(posedge clk) if (started && valid && !done) begin
    pos <= last ? 16'd0 : pos + 16'd8;
    if (last) begin
      frame <= 1'b1;
      done <= frame;
    end
  end

  rx_strip #(.WIDTH(64)) dut (
    .clk, .rst, .valid(valid && !done && started), .data, .last, .pos, .is_udp(1'b1), .start(start[frame]),
    .length(length[frame]), .verdict_app(app), .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid),
    .m_axis_tlast(m_last), .m_axis_tuser(m_user)
  );

  // One payload byte of one frame, any one, is followed.
  logic [7:0]  held;
  logic        apps[2];
  logic [15:0] at;
  assign at = 16'(start[watch_frame]) + watch;
  always_ff @(posedge clk) begin
    if (started && valid && !done) begin
      if (frame == watch_frame && pos == (at & ~16'd7)) held <= data[8*at[2:0]+:8];
      if (last) apps[frame] <= app;
    end
  end
  always_comb assume (watch < length[watch_frame]);

  logic        out_frame = 1'b0, out_done = 1'b0;
  logic [15:0] out_at = '0;
  always_ff @(posedge clk) if (started && m_valid) begin
    out_at <= m_last ? 16'd0 : out_at + 16'd8;
    if (m_last) begin
      out_frame <= 1'b1;
      out_done <= out_frame;
    end
  end
  always_comb if (started && m_valid) begin
    assert (!out_done);
    assert (m_last == (out_at + 16'd8 >= length[out_frame]));
    assert (m_keep == (m_last ? 8'hFF >> (out_at + 16'd8 - length[out_frame]) : 8'hFF));
    if (m_last) assert (m_user == !apps[out_frame]);
    if (out_frame == watch_frame && out_at == (watch & ~16'd7)) assert (m_data[8*watch[2:0]+:8] == held);
  end
endmodule

`default_nettype wire
