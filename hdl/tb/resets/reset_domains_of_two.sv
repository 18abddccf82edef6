// SPDX-License-Identifier: BSD-3-Clause
// reset_domains with two applications, whose ports a bench can drive each for itself.
`default_nettype none

module reset_domains_of_two (
    input  wire  clk,
    input  wire  request,
    input  wire  gentle,
    output logic rst,
    output logic open,
    input  wire  closed,
    input  wire  app0_clk,
    input  wire  app1_clk,
    output logic app0_rst,
    output logic app1_rst,
    output logic app0_open,
    output logic app1_open,
    input  wire  app0_closed,
    input  wire  app1_closed
);

  reset_domains #(.N(2)) resets (
      .clk, .request, .gentle, .rst, .open, .closed, .app_clk({app1_clk, app0_clk}), .app_rst({app1_rst, app0_rst}),
      .app_open({app1_open, app0_open}), .app_closed({app1_closed, app0_closed})
  );

endmodule

`default_nettype wire
