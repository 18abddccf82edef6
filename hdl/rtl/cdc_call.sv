// SPDX-License-Identifier: BSD-3-Clause
// A question from `src_clk` to `dst_clk` and its answer back, one at a time, whatever either side's clock and reset do.
//
// Contract: a question taken (src_valid and src_ready) appears whole on `dst_question` with one cycle of `dst_valid`, and
// stays there. `dst_done` brings the answer; then `src_ready` rises and `src_answer` and `src_failed` hold it until the next.
// A reset of the destination answers the question that is under way with `src_failed`; a question that was answered is never
// asked again, and no answer is taken for another question's. While the destination's clock stands the question waits.
// The source has no reset: a question once asked is under way until it is answered.
// Latency: about 5 cycles of each clock from question to answer, and what the answer takes.
// Constraints: hdl/constraints/cdc_call.xdc.
`default_nettype none

module cdc_call #(
    parameter int QUESTION = 32,  // bits
    parameter int ANSWER   = 32
) (
    input  wire                 src_clk,
    input  wire  [QUESTION-1:0] src_question,
    input  wire                 src_valid,
    output logic                src_ready,
    output logic [ANSWER-1:0]   src_answer,
    output logic                src_failed,
    input  wire                 dst_clk,
    input  wire                 dst_rst,
    output logic [QUESTION-1:0] dst_question,
    output logic                dst_valid,
    input  wire                 dst_done,
    input  wire  [ANSWER-1:0]   dst_answer
);

  // `asked` flips with each question and `answered` follows it with each answer; the two agree while nothing is under way.
  // They start equal and no reset touches them, so that no reset makes a question or an answer.
  logic asked = 1'b0, asked_dst, answered = 1'b0, answered_src, begun = 1'b0;
  logic busy = 1'b0;
  logic [QUESTION-1:0] question;  // held while the other side looks at it
  logic [ANSWER:0] answer;

  assign src_ready = !busy;

  always_ff @(posedge src_clk)
    if (src_valid && src_ready) begin
      asked    <= !asked;
      busy     <= 1'b1;
      question <= src_question;
    end else if (busy && answered_src == asked) begin
      busy <= 1'b0;
      {src_failed, src_answer} <= answer;
    end

  cdc_bit there (.clk(dst_clk), .d(asked), .q(asked_dst));
  cdc_bit back (.clk(src_clk), .d(answered), .q(answered_src));

  always_ff @(posedge dst_clk) begin
    dst_valid <= 1'b0;
    if (dst_rst) begin
      begun    <= asked_dst;
      answered <= asked_dst;
      if (answered != asked_dst) answer <= {1'b1, {ANSWER{1'b0}}};
    end else if (begun != asked_dst) begin
      begun        <= asked_dst;
      dst_valid    <= 1'b1;
      dst_question <= question;
    end else if (dst_done) begin
      answered <= begun;
      answer   <= {1'b0, dst_answer};
    end
  end

endmodule

`default_nettype wire
