// SPDX-License-Identifier: BSD-3-Clause
// N streams into one, a whole frame at a time, round robin.
//
// Contract: a frame once begun is never interleaved with another. The next frame comes from the first input with a waiting
// beat, counting upwards from the input after the one served last: with all N inputs always valid each gets exactly one
// frame in N, and no input waits for more than N-1 frames of others. No idle beat between frames if any input waits.
// Input i lies at bits [i] of the control vectors and at [i*WIDTH +: WIDTH] etc. of the others. Sideband of META bits travels
// with each beat. Latency: 1 cycle; throughput one beat a cycle; outputs come from flip-flops.
`default_nettype none

module frame_arbiter #(
    parameter int N     = 2,
    parameter int WIDTH = 1024,
    parameter int META  = 1
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire  [N*WIDTH-1:0]   s_axis_tdata,
    input  wire  [N*WIDTH/8-1:0] s_axis_tkeep,
    input  wire  [N-1:0]         s_axis_tvalid,
    output logic [N-1:0]         s_axis_tready,
    input  wire  [N-1:0]         s_axis_tlast,
    input  wire  [N*META-1:0]    s_meta,
    output logic [WIDTH-1:0]     m_axis_tdata,
    output logic [WIDTH/8-1:0]   m_axis_tkeep,
    output logic                 m_axis_tvalid,
    input  wire                  m_axis_tready,
    output logic                 m_axis_tlast,
    output logic [META-1:0]      m_meta
);

  localparam int KEEP = WIDTH / 8;
  localparam int NB   = N > 1 ? $clog2(N) : 1;

  logic [NB-1:0] served, chosen;  // the input of the present or last frame; the one whose beat may pass now
  logic locked;                   // a frame is under way

  // The waiting input nearest above `served`; the loop runs downwards so that the nearest wins.
  always_comb begin
    chosen = served;
    if (!locked)
      for (int i = N; i >= 1; i--)
        if (s_axis_tvalid[(int'(served)+i)%N]) chosen = NB'((int'(served) + i) % N);
  end

  wire advance = !m_axis_tvalid || m_axis_tready;

  always_comb begin
    s_axis_tready = '0;
    s_axis_tready[chosen] = advance && !rst;
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      m_axis_tvalid <= s_axis_tvalid[chosen];
      if (s_axis_tvalid[chosen]) begin
        served       <= chosen;
        locked       <= !s_axis_tlast[chosen];
        m_axis_tdata <= s_axis_tdata[chosen*WIDTH+:WIDTH];
        m_axis_tkeep <= s_axis_tkeep[chosen*KEEP+:KEEP];
        m_axis_tlast <= s_axis_tlast[chosen];
        m_meta       <= s_meta[chosen*META+:META];
      end
    end
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      locked        <= 1'b0;
      served        <= NB'(N - 1);  // so that input 0 is the first
    end
  end

endmodule

`default_nettype wire
