// SPDX-License-Identifier: BSD-3-Clause
// Pause frames (IEEE 802.3 annex 31B): for how long the other end wants nothing.
//
// Contract: `pause_valid` with `quanta`, each of 512 bit times of the line, sets the time that is left; 0 ends it. `hold` is high while
// `honour` is on and time is left; whoever sends then begins no frame. QUANTA_256 is how many quanta pass in a clock, in 256ths: where
// the line takes WIDTH bits a clock, WIDTH / 2. Rounded down it holds a little longer than asked for. Latency: 1 cycle.
`default_nettype none

module pause_timer #(
    parameter int QUANTA_256 = 512
) (
    input  wire        clk,
    input  wire        rst,
    input  wire        honour,
    input  wire        pause_valid,
    input  wire [15:0] quanta,
    output logic       hold
);

  logic [23:0] left;  // 256ths of a quantum
  wire  [24:0] next = {1'b0, left} - 25'(QUANTA_256);

  always_ff @(posedge clk) begin
    left <= pause_valid ? {quanta, 8'd0} : next[24] ? 24'd0 : next[23:0];
    hold <= honour && left != 24'd0;
    if (rst) begin
      left <= 24'd0;
      hold <= 1'b0;
    end
  end

endmodule

`default_nettype wire
