// SPDX-License-Identifier: BSD-3-Clause
// Black boxes for elaboration: buffers of AMD's UltraScale+ devices (UG974).
`default_nettype none

(* blackbox *)
module IBUF (input wire I, output wire O);
endmodule

(* blackbox *)
module IBUFDS_GTE4 #(parameter [1:0] REFCLK_HROW_CK_SEL = 2'b00) (input wire I, IB, CEB, output wire O, ODIV2);
endmodule

`default_nettype wire
