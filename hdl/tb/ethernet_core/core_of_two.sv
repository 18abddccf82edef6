// SPDX-License-Identifier: BSD-3-Clause
// ethernet_core with two transmit applications, whose clocks are ports of their own: cocotb cannot wait for a bit of a port.
`default_nettype none

module core_of_two #(
    parameter int WIDTH    = 1024,
    parameter int CLOCK_HZ = 100000,
    localparam int TX_APPS = 2
) (
    input  wire                        clk,
    input  wire                        rst,

    // Applications that transmit.
    input  wire                        app0_clk,
    input  wire                        app1_clk,
    output logic [TX_APPS-1:0]         app_tx_rst,
    input  wire  [TX_APPS*WIDTH-1:0]   s_axis_tdata,
    input  wire  [TX_APPS*WIDTH/8-1:0] s_axis_tkeep,
    input  wire  [TX_APPS-1:0]         s_axis_tvalid,
    output logic [TX_APPS-1:0]         s_axis_tready,
    input  wire  [TX_APPS-1:0]         s_axis_tlast,
    input  wire  [TX_APPS-1:0]         s_axis_tuser,
    input  wire  [TX_APPS*32-1:0]      s_axis_dst_ip,
    input  wire  [TX_APPS*16-1:0]      s_axis_dst_port,
    input  wire  [TX_APPS*16-1:0]      s_axis_src_port,

    // The application that receives.
    input  wire                        app_rx_clk,
    output logic                       app_rx_rst,
    output logic [WIDTH-1:0]           m_axis_tdata,
    output logic [WIDTH/8-1:0]         m_axis_tkeep,
    output logic                       m_axis_tvalid,
    input  wire                        m_axis_tready,
    output logic                       m_axis_tlast,
    output logic [15:0]                m_axis_length,
    output logic [31:0]                m_axis_src_ip,
    output logic [15:0]                m_axis_src_port,
    output logic [31:0]                m_axis_dst_ip,
    output logic [15:0]                m_axis_dst_port,

    // MAC.
    output logic [WIDTH-1:0]           mac_tx_axis_tdata,
    output logic [WIDTH/8-1:0]         mac_tx_axis_tkeep,
    output logic                       mac_tx_axis_tvalid,
    input  wire                        mac_tx_axis_tready,
    output logic                       mac_tx_axis_tlast,
    input  wire  [WIDTH-1:0]           mac_rx_axis_tdata,
    input  wire  [WIDTH/8-1:0]         mac_rx_axis_tkeep,
    input  wire                        mac_rx_axis_tvalid,
    input  wire                        mac_rx_axis_tlast,
    input  wire                        mac_rx_axis_tuser,
    input  wire  [63:0]                phy_status,   // registers 34 (high word) and 38; in clk
    output logic [63:0]                phy_control,  // registers 3C (high word) and 40; in clk

    // Registers.
    input  wire                        s_axi_aclk,
    input  wire                        s_axi_aresetn,
    input  wire  [15:0]                s_axi_awaddr,
    input  wire                        s_axi_awvalid,
    output logic                       s_axi_awready,
    input  wire  [31:0]                s_axi_wdata,
    input  wire  [3:0]                 s_axi_wstrb,
    input  wire                        s_axi_wvalid,
    output logic                       s_axi_wready,
    output logic [1:0]                 s_axi_bresp,
    output logic                       s_axi_bvalid,
    input  wire                        s_axi_bready,
    input  wire  [15:0]                s_axi_araddr,
    input  wire                        s_axi_arvalid,
    output logic                       s_axi_arready,
    output logic [31:0]                s_axi_rdata,
    output logic [1:0]                 s_axi_rresp,
    output logic                       s_axi_rvalid,
    input  wire                        s_axi_rready,

    // Application's registers.
    output logic                       ext_wr,
    output logic                       ext_rd,
    output logic [11:0]                ext_addr,
    output logic [31:0]                ext_wdata,
    input  wire  [31:0]                ext_rdata,
    input  wire                        ext_ack
);

  ethernet_core #(.WIDTH(WIDTH), .TX_APPS(TX_APPS), .CLOCK_HZ(CLOCK_HZ)) core (.app_tx_clk({app1_clk, app0_clk}), .*);

endmodule

`default_nettype wire
