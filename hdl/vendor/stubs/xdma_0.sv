// SPDX-License-Identifier: BSD-3-Clause
// Black box for elaboration: what u55c/ip.tcl makes of AMD's XDMA (PG195): BAR 0 is the AXI4-Lite master, the DMA streams stay
// unused.
`default_nettype none
(* blackbox *)
module xdma_0 (
    input  wire        sys_clk, sys_clk_gt, sys_rst_n,
    output wire        user_lnk_up,
    output wire [3:0]  pci_exp_txp, pci_exp_txn,
    input  wire [3:0]  pci_exp_rxp, pci_exp_rxn,
    output wire        axi_aclk, axi_aresetn,
    input  wire [0:0]  usr_irq_req,
    output wire [0:0]  usr_irq_ack,
    output wire [31:0] m_axil_awaddr, m_axil_wdata, m_axil_araddr,
    output wire [2:0]  m_axil_awprot, m_axil_arprot,
    output wire [3:0]  m_axil_wstrb,
    output wire        m_axil_awvalid, m_axil_wvalid, m_axil_bready, m_axil_arvalid, m_axil_rready,
    input  wire        m_axil_awready, m_axil_wready, m_axil_bvalid, m_axil_arready, m_axil_rvalid,
    input  wire [1:0]  m_axil_bresp, m_axil_rresp,
    input  wire [31:0] m_axil_rdata,
    input  wire [63:0] s_axis_c2h_tdata_0,
    input  wire [7:0]  s_axis_c2h_tkeep_0,
    input  wire        s_axis_c2h_tvalid_0, s_axis_c2h_tlast_0,
    output wire        s_axis_c2h_tready_0,
    output wire [63:0] m_axis_h2c_tdata_0,
    output wire [7:0]  m_axis_h2c_tkeep_0,
    output wire        m_axis_h2c_tvalid_0, m_axis_h2c_tlast_0,
    input  wire        m_axis_h2c_tready_0
);
endmodule
`default_nettype wire
