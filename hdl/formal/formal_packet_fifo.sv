// SPDX-License-Identifier: BSD-3-Clause
// packet_fifo (async_packet_fifo with one clock), 8 beats of two bytes, 4 frames of up to 4 beats: every frame that comes out
// is whole, in order, unchanged and was not marked bad, and never pauses between its beats. DROP 0: none is lost either.
// Checked for all inputs over a bounded number of clocks.
`default_nettype none

module formal_packet_fifo #(
  parameter bit DROP = 0
) (
  input wire       clk,
  input wire       s_valid,
  input wire       s_last,
  input wire       s_odd,    // the last beat has one byte
  input wire       s_bad,
  input wire       m_ready
);
  logic        started = 1'b0;
  logic        rst, s_ready, m_valid, m_last, stored, dropped_bad, dropped_oversize, dropped_full, almost_full;
  logic [15:0] s_data, m_data, m_length;
  logic [1:0]  m_keep;
  logic [3:0]  m_tag;
  assign rst = !started;
  always_ff @(posedge clk) started <= 1'b1;

  // A frame's beats carry its number and their own.
  logic [3:0] number = '0;
  logic [2:0] beat = '0;
  assign s_data = {1'b0, beat, number, 4'h5, number};
  packet_fifo #(.WIDTH(16), .DEPTH(8), .FRAMES(4), .META(4), .MAX_BYTES(8), .DROP_WHEN_FULL(DROP)) dut (
    .clk, .rst, .s_axis_tdata(s_data), .s_axis_tkeep(s_last && s_odd ? 2'b01 : 2'b11), .s_axis_tvalid(s_valid),
    .s_axis_tready(s_ready), .s_axis_tlast(s_last), .s_axis_tuser(s_last && s_bad), .s_meta(number),
    .stored, .dropped_bad, .dropped_oversize, .dropped_full, .almost_full,
    .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid), .m_axis_tready(m_ready), .m_axis_tlast(m_last),
    .m_length, .m_meta(m_tag)
  );

  logic waited = 1'b0, last_was, odd_was, bad_was;
  always_ff @(posedge clk) begin
    waited <= started && s_valid && !s_ready;
    last_was <= s_last;
    odd_was <= s_odd;
    bad_was <= s_bad;
  end
  always_comb begin
    if (waited) assume (s_valid && s_last == last_was && s_odd == odd_was && s_bad == bad_was);
    if (beat == 3'd3) assume (s_last);
    if (number == 4'd15) assume (!s_valid);
  end

  // Which frames were good, and how long.
  logic [15:0] good = '0;
  logic [15:0] lengths[16];
  logic        amid = 1'b0;
  logic [2:0]  due = '0;         // beat of the frame that is coming out
  logic [3:0]  out_number;
  logic [4:0]  next_at_least = '0;
  always_ff @(posedge clk) if (started) begin
    if (s_valid && s_ready) begin
      beat <= s_last ? 3'd0 : beat + 3'd1;
      if (s_last) begin
        number <= number + 4'd1;
        good[number] <= !s_bad;
        lengths[number] <= {12'd0, beat, 1'b0} + (s_odd ? 16'd1 : 16'd2);
      end
    end
    if (m_valid && m_ready) begin
      amid <= !m_last;
      due <= m_last ? 3'd0 : due + 3'd1;
      out_number <= m_tag;
      if (m_last) next_at_least <= {1'b0, m_tag} + 5'd1;
    end
  end

  always_comb if (started) begin
    if (amid) assert (m_valid);                                     // a frame that has begun does not pause
    if (m_valid) begin
      assert (good[m_tag]);                                         // whole, published and not bad
      assert ({1'b0, m_tag} >= next_at_least);                      // in order, never twice
      if (amid) assert (m_tag == out_number);
      // Unchanged; of a last beat with one byte the other may be anything.
      assert (m_data[7:0] == {4'h5, m_tag});
      if (m_keep[1]) assert (m_data[15:8] == {1'b0, due, m_tag});
      assert (m_length == lengths[m_tag]);
      assert (m_last == ({12'd0, due, 1'b0} + 16'd2 >= m_length));
      assert (m_keep == (m_last && m_length[0] ? 2'b01 : 2'b11));
      if (!DROP) for (int n = 0; n < 16; n++)
        if (5'(n) >= next_at_least && 4'(n) < m_tag) assert (!good[n]);  // none is passed over
    end
    if (DROP) assert (s_ready);
    assert (!dropped_oversize);
    if (!DROP) assert (!dropped_full);
  end
endmodule

`default_nettype wire
