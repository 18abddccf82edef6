// SPDX-License-Identifier: BSD-3-Clause
// A layer of a tree that adds 16-bit words in ones' complement: six rows become three, without carries from bit to bit.
//
// Contract: combinational, one LUT deep. The sum of the eth_pkg::ones_rows(ROWS) rows that come out is that of the rows that go
// in, modulo 65535, and 0 only if all of them are 0. Last comes what is left over: three rows become two, two or one stay as many.
// Latency: 0 cycles.
//
// How: of each column's six bits, a LUT each gives the count's ones, twos and fours; twos belong one column up, fours two,
// and what leaves column 15 comes back in column 0.
`default_nettype none

module ones_layer #(
    parameter  int ROWS = 6,
    localparam int LEFT = eth_pkg::ones_rows(ROWS)
) (
    input  wire  [ROWS*16-1:0] rows,
    output logic [LEFT*16-1:0] left
);

  localparam int GROUPS = (ROWS + 5) / 6;

  logic [GROUPS*96-1:0] full;
  logic [GROUPS*48-1:0] counts;
  assign full = (GROUPS * 96)'(rows);
  assign left = counts[LEFT*16-1:0];

  function automatic logic [15:0] majority(input logic [15:0] a, input logic [15:0] b, input logic [15:0] c);
    majority = (a & b) | (a & c) | (b & c);
  endfunction

  genvar g;
  generate
    for (g = 0; g < GROUPS; g = g + 1) begin : g_group
      logic [15:0] a, b, c, d, e, f, abc, def, carry_abc, carry_def, carry, twos, fours;
      assign {f, e, d, c, b, a} = full[g*96+:96];
      assign abc = a ^ b ^ c;
      assign def = d ^ e ^ f;
      assign carry_abc = majority(a, b, c);
      assign carry_def = majority(d, e, f);
      assign carry = abc & def;
      assign twos = carry_abc ^ carry_def ^ carry;
      assign fours = majority(carry_abc, carry_def, carry);
      assign counts[g*48+:48] = {fours[13:0], fours[15:14], twos[14:0], twos[15], abc ^ def};
    end
  endgenerate

endmodule

`default_nettype wire
