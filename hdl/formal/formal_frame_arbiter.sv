// SPDX-License-Identifier: BSD-3-Clause
// frame_arbiter with three inputs: frames are never mixed, beats are not changed, and an input that waits is passed over by
// at most one frame of each other input. Proven without bound (induction).
`default_nettype none

module formal_frame_arbiter (
  input wire        clk,
  input wire [23:0] s_data,
  input wire [2:0]  s_valid,
  input wire [2:0]  s_last,
  input wire        m_ready,
  input wire [1:0]  watch     // any input; it stays
);
  logic       started = 1'b0;
  logic       rst, m_valid, m_last;
  logic [2:0] s_ready;
  logic [7:0] m_data;
  logic [0:0] m_keep;
  logic [1:0] m_from;
  assign rst = !started;
  always_ff @(posedge clk) started <= 1'b1;

  frame_arbiter #(.N(3), .WIDTH(8), .META(2)) dut (
    .clk, .rst, .s_axis_tdata(s_data), .s_axis_tkeep(3'b111), .s_axis_tvalid(s_valid), .s_axis_tready(s_ready),
    .s_axis_tlast(s_last), .s_meta(6'b10_01_00), .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid),
    .m_axis_tready(m_ready), .m_axis_tlast(m_last), .m_meta(m_from)
  );

  // Sources keep the stream's rules.
  logic [2:0]  waited = '0, last_was;
  logic [23:0] data_was;
  always_ff @(posedge clk) begin
    waited <= started ? s_valid & ~s_ready : 3'd0;
    last_was <= s_last;
    data_was <= s_data;
  end
  always_comb
    for (int i = 0; i < 3; i++)
      if (waited[i]) assume (s_valid[i] && s_last[i] == last_was[i] && s_data[8*i+:8] == data_was[8*i+:8]);

  logic [2:0] take;
  assign take = s_valid & s_ready;

  // What was taken, and which input's frame is under way.
  logic       any_was = 1'b0, amid = 1'b0, out_amid = 1'b0, was_waiting = 1'b0, was_last, taken_last;
  logic [1:0] from, out_from, taken_from;
  logic [7:0] taken_data, was_data;
  // An input that waits, any one, and the frames of others that began meanwhile.
  logic [1:0] watch_was;
  logic [2:0] passed = '0;
  always_ff @(posedge clk) begin
    watch_was <= watch;
    any_was <= started && take != '0;
    was_waiting <= started && m_valid && !m_ready;
    was_data <= m_data;
    was_last <= m_last;
    if (started) begin
      for (int i = 0; i < 3; i++) if (take[i]) begin
        amid <= !s_last[i];
        from <= 2'(i);
        taken_from <= 2'(i);
        taken_data <= s_data[8*i+:8];
        taken_last <= s_last[i];
      end
      if (m_valid && m_ready) begin
        out_amid <= !m_last;
        out_from <= m_from;
      end
      if (watch < 2'd3 && s_valid[watch] && !take[watch]) begin
        if (take != '0 && !amid) passed <= passed + 3'd1;
      end else passed <= '0;
    end
  end

  always_comb if (started) begin
    assume (watch == watch_was);
    assert ($countones(s_ready) <= 1);
    for (int i = 0; i < 3; i++) if (take[i] && amid) assert (from == 2'(i));
    if (any_was) assert (m_valid && m_data == taken_data && m_last == taken_last && m_from == taken_from);
    if (was_waiting) assert (m_valid && m_data == was_data && m_last == was_last);
    if (m_valid && out_amid) assert (m_from == out_from);
    assert (passed <= 3'd2);
    // No idle beat: something waits, and may go.
    if ((!m_valid || m_ready) && (amid ? s_valid[from] : s_valid != '0)) assert (take != '0);
    // What makes the proof inductive: what the arbiter remembers.
    assert (dut.locked == amid);
    assert (dut.served < 2'd3);
    if (amid) assert (dut.served == from);
    if (m_valid) assert (m_from == dut.served && amid == !m_last);
    if (out_amid && !m_valid) assert (amid && from == out_from);
    if (out_amid && m_valid) assert (m_from == out_from);
    if (amid) assert (m_valid || out_amid);
    if (!m_valid) assert (out_amid == amid);
    if (watch < 2'd3 && passed != '0) begin
      assert (waited[watch]);
      assert (dut.served != watch);
      // After two frames of others, and with the last one served next to it, the watched input comes.
      assert (passed <= 3'((int'(dut.served) - int'(watch) + 3) % 3));
    end else assert (passed == '0);
  end
endmodule

`default_nettype wire
