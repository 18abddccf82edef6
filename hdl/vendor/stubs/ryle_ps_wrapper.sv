// SPDX-License-Identifier: BSD-3-Clause
// Black box for elaboration: the processor system that vpk120/ip.tcl makes, with two AXI4-Lite masters.
`default_nettype none
(* blackbox *)
module ryle_ps_wrapper (
    output wire        pl_clk, pl_resetn,
    output wire [31:0] core_awaddr, core_wdata, core_araddr, mac_awaddr, mac_wdata, mac_araddr,
    output wire [3:0]  core_wstrb, mac_wstrb,
    output wire [2:0]  core_awprot, core_arprot, mac_awprot, mac_arprot,
    output wire        core_awvalid, core_wvalid, core_bready, core_arvalid, core_rready,
    output wire        mac_awvalid, mac_wvalid, mac_bready, mac_arvalid, mac_rready,
    input  wire        core_awready, core_wready, core_bvalid, core_arready, core_rvalid,
    input  wire        mac_awready, mac_wready, mac_bvalid, mac_arready, mac_rvalid,
    input  wire [1:0]  core_bresp, core_rresp, mac_bresp, mac_rresp,
    input  wire [31:0] core_rdata, mac_rdata
);
endmodule
`default_nettype wire
