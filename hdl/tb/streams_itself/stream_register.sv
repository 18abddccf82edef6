// SPDX-License-Identifier: BSD-3-Clause
// A stream register that keeps the stream's rules, or breaks one of them: what the drivers in streams.py are tried on.
`default_nettype none

module stream_register #(
    parameter int WIDTH = 64,
    parameter int FAULT = 0  // 1: tvalid falls while waiting; 2: data changes while waiting; 3: tkeep with a hole
) (
    input  wire logic               clk,
    input  wire logic               rst,
    input  wire logic [WIDTH-1:0]   s_axis_tdata,
    input  wire logic [WIDTH/8-1:0] s_axis_tkeep,
    input  wire logic               s_axis_tvalid,
    output logic                    s_axis_tready,
    input  wire logic               s_axis_tlast,
    input  wire logic [0:0]         s_axis_tuser,
    input  wire logic [31:0]        s_axis_ip,
    output logic [WIDTH-1:0]        m_axis_tdata,
    output logic [WIDTH/8-1:0]      m_axis_tkeep,
    output logic                    m_axis_tvalid,
    input  wire logic               m_axis_tready,
    output logic                    m_axis_tlast,
    output logic [0:0]              m_axis_tuser,
    output logic [31:0]             m_axis_ip
);
    logic [2:0] waited;
    logic full;
    assign m_axis_tvalid = full && !(FAULT == 1 && waited[0]);
    assign s_axis_tready = !full || (m_axis_tvalid && m_axis_tready);

    always_ff @(posedge clk) begin
        if (s_axis_tvalid && s_axis_tready) begin
            m_axis_tdata <= s_axis_tdata;
            m_axis_tkeep <= FAULT == 3 && s_axis_tlast ? s_axis_tkeep & ~(WIDTH / 8)'(1) : s_axis_tkeep;
            m_axis_tlast <= s_axis_tlast;
            m_axis_tuser <= s_axis_tuser;
            m_axis_ip <= s_axis_ip;
            full <= 1'b1;
        end else if (m_axis_tvalid && m_axis_tready) begin
            full <= 1'b0;
        end
        waited <= m_axis_tvalid && !m_axis_tready ? waited + 3'd1 : 3'd0;
        if (FAULT == 2 && m_axis_tvalid && !m_axis_tready) m_axis_tdata <= ~m_axis_tdata;
        if (rst) begin
            full <= 1'b0;
            waited <= '0;
        end
    end
endmodule

`default_nettype wire
