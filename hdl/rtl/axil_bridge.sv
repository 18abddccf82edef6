// SPDX-License-Identifier: BSD-3-Clause
// AXI4-Lite, in its own clock, to one read or write at a time in the core's clock.
//
// Contract: each AXI transaction becomes one `bus_valid` cycle in `clk`; address, data and strobes stay as they are until
// `bus_done`, which brings read data and error. Then the AXI response follows (SLVERR for an error). Reads and writes
// take turns where both wait. Both resets must be active together. About 12 cycles of the slower clock each.
`default_nettype none

module axil_bridge #(
    parameter int ADDRESS = 16  // bits
) (
    input  wire                s_axi_aclk,
    input  wire                s_axi_rst,
    input  wire  [ADDRESS-1:0] s_axi_awaddr,
    input  wire                s_axi_awvalid,
    output logic               s_axi_awready,
    input  wire  [31:0]        s_axi_wdata,
    input  wire  [3:0]         s_axi_wstrb,
    input  wire                s_axi_wvalid,
    output logic               s_axi_wready,
    output logic [1:0]         s_axi_bresp,
    output logic               s_axi_bvalid,
    input  wire                s_axi_bready,
    input  wire  [ADDRESS-1:0] s_axi_araddr,
    input  wire                s_axi_arvalid,
    output logic               s_axi_arready,
    output logic [31:0]        s_axi_rdata,
    output logic [1:0]         s_axi_rresp,
    output logic               s_axi_rvalid,
    input  wire                s_axi_rready,

    input  wire                clk,
    input  wire                rst,
    output logic               bus_valid,
    output logic               bus_write,
    output logic [ADDRESS-1:0] bus_addr,
    output logic [31:0]        bus_wdata,
    output logic [3:0]         bus_strb,
    input  wire                bus_done,
    input  wire  [31:0]        bus_rdata,
    input  wire                bus_error
);

  localparam int REQUEST = 1 + ADDRESS + 32 + 4;

  logic waiting, writing, wrote_last;  // for the core; a write; what to prefer next
  logic request_ready, reply_valid, reply_error;
  logic [31:0] reply_data;

  wire can_write = s_axi_awvalid && s_axi_wvalid && !s_axi_bvalid;
  wire can_read  = s_axi_arvalid && !s_axi_rvalid;
  wire idle      = !waiting && request_ready && !s_axi_rst;
  wire do_write  = idle && can_write && !(can_read && wrote_last);
  wire do_read   = idle && can_read && !do_write;

  // Taken in one cycle, address and data of a write together.
  assign s_axi_awready = do_write;
  assign s_axi_wready  = do_write;
  assign s_axi_arready = do_read;

  cdc_bus #(.BITS(REQUEST)) to_core (
      .src_clk(s_axi_aclk), .src_rst(s_axi_rst),
      .src_data({do_write, do_write ? s_axi_awaddr : s_axi_araddr, s_axi_wdata, s_axi_wstrb}),
      .src_valid(do_write || do_read), .src_ready(request_ready),
      .dst_clk(clk), .dst_rst(rst), .dst_data({bus_write, bus_addr, bus_wdata, bus_strb}), .dst_valid(bus_valid)
  );
  cdc_bus #(.BITS(33)) to_axi (
      .src_clk(clk), .src_rst(rst), .src_data({bus_error, bus_rdata}), .src_valid(bus_done), .src_ready(),
      .dst_clk(s_axi_aclk), .dst_rst(s_axi_rst), .dst_data({reply_error, reply_data}), .dst_valid(reply_valid)
  );

  always_ff @(posedge s_axi_aclk) begin
    if (do_write || do_read) begin
      waiting    <= 1'b1;
      writing    <= do_write;
      wrote_last <= do_write;
    end
    if (s_axi_bready) s_axi_bvalid <= 1'b0;
    if (s_axi_rready) s_axi_rvalid <= 1'b0;
    if (waiting && reply_valid) begin
      waiting <= 1'b0;
      if (writing) begin
        s_axi_bvalid <= 1'b1;
        s_axi_bresp  <= {reply_error, 1'b0};
      end else begin
        s_axi_rvalid <= 1'b1;
        s_axi_rresp  <= {reply_error, 1'b0};
        s_axi_rdata  <= reply_data;
      end
    end
    if (s_axi_rst) begin
      waiting      <= 1'b0;
      wrote_last   <= 1'b0;
      s_axi_bvalid <= 1'b0;
      s_axi_rvalid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
