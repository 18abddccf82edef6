// SPDX-License-Identifier: BSD-3-Clause
// skid_buffer: no beat is lost, doubled or changed, in any order of valid and ready. Proven without bound (induction).
`default_nettype none

module formal_skid_buffer (
  input wire       clk,
  input wire [3:0] s_data,
  input wire       s_valid,
  input wire       m_ready,
  input wire [7:0] watch     // any number; it stays
);
  logic       started = 1'b0;
  logic       rst, s_ready, m_valid;
  logic [3:0] m_data;
  assign rst = !started;
  always_ff @(posedge clk) started <= 1'b1;

  skid_buffer #(.BITS(4)) dut (.clk, .rst, .s_data, .s_valid, .s_ready, .m_data, .m_valid, .m_ready);

  // The beat number `watch`, any number, is followed on its way.
  logic [7:0] watch_was, taken = '0, given = '0;
  logic [3:0] held;
  always_ff @(posedge clk) begin
    watch_was <= watch;
    if (started && s_valid && s_ready) begin
      taken <= taken + 8'd1;
      if (taken == watch) held <= s_data;
    end
    if (started && m_valid && m_ready) given <= given + 8'd1;
  end

  logic [7:0] inside_;
  assign inside_ = taken - given;
  always_comb if (started) begin
    assume (watch == watch_was);
    if (m_valid && given == watch) assert (m_data == held);
    // What makes the proof inductive: what is where.
    assert (inside_ == 8'(m_valid) + 8'(dut.spare_valid));
    assert (!dut.spare_valid || m_valid);
    if (dut.spare_valid && 8'(given + 8'd1) == watch) assert (dut.spare == held);
  end

  logic       was_waiting = 1'b0;
  logic [3:0] was;
  always_ff @(posedge clk) begin
    was_waiting <= started && m_valid && !m_ready;
    was <= m_data;
  end
  always_comb if (was_waiting) assert (m_valid && m_data == was);
endmodule

`default_nettype wire
