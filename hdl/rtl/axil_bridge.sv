// SPDX-License-Identifier: BSD-3-Clause
// AXI4-Lite, in its own clock, to one read or write at a time in the core's clock.
//
// Contract: each AXI transaction becomes one `bus_valid` cycle in `clk`; address, data and strobes stay as they are until
// `bus_done`, which brings read data and error. Then the AXI response follows (SLVERR for an error). Reads and writes
// take turns where both wait. Latency: about 12 cycles of the slower clock.
// Every transaction is answered, whatever `clk` and `rst` do: with SLVERR while `rst` is active, after TIMEOUT cycles of
// s_axi_aclk without an answer, and at once while `clk` stands or such an access is still under way. It then is carried out
// when `clk` comes back, for nobody, or dropped by `rst`; nobody else gets its answer.
// A read of STATUS is answered here: bit 0, `clk` stands; bit 1, an access is under way that nobody waits for.
// TIMEOUT must be more than an access takes.
`default_nettype none

module axil_bridge #(
    parameter int ADDRESS = 16,  // bits
    parameter int STATUS  = -4,  // address
    parameter int TIMEOUT = 4096  // cycles of s_axi_aclk
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

  logic waiting, writing;      // for an answer; a write
  logic for_status, for_core;  // who answers
  logic ready, failed, error, stopped;
  logic [31:0] data;
  logic [15:0] waited;

  wire can_write = s_axi_awvalid && s_axi_wvalid && !s_axi_bvalid;
  wire can_read  = s_axi_arvalid && !s_axi_rvalid;
  wire idle      = !waiting && !s_axi_rst;
  wire do_write  = idle && can_write;
  wire do_read   = idle && can_read && !can_write;  // writes do not hold it up: in the cycle of a write's response it is its turn
  wire [ADDRESS-1:0] address = do_write ? s_axi_awaddr : s_axi_araddr;
  wire at_status = address[ADDRESS-1:2] == STATUS[ADDRESS-1:2];
  wire ask       = (do_write || do_read) && !at_status && !stopped && ready;

  // Taken in one cycle, address and data of a write together.
  assign s_axi_awready = do_write;
  assign s_axi_wready  = do_write;
  assign s_axi_arready = do_read;

  clock_watch #(.CYCLES(TIMEOUT)) watch (.watched(clk), .clk(s_axi_aclk), .stopped);

  cdc_call #(.QUESTION(1 + ADDRESS + 32 + 4), .ANSWER(33)) call (
      .src_clk(s_axi_aclk), .src_question({do_write, address, s_axi_wdata, s_axi_wstrb}), .src_valid(ask), .src_ready(ready),
      .src_answer({error, data}), .src_failed(failed),
      .dst_clk(clk), .dst_rst(rst), .dst_question({bus_write, bus_addr, bus_wdata, bus_strb}), .dst_valid(bus_valid),
      .dst_done(bus_done), .dst_answer({bus_error, bus_rdata})
  );

  wire late     = waited == 16'(TIMEOUT - 1);
  wire answered = waiting && (!for_core || ready || late);
  wire refused  = for_status ? 1'b0 : !for_core || !ready || failed || error;

  always_ff @(posedge s_axi_aclk) begin
    waited <= waiting ? waited + 1'b1 : 16'd0;
    if (do_write || do_read) begin
      waiting    <= 1'b1;
      writing    <= do_write;
      for_status <= at_status;
      for_core   <= ask;
    end
    if (s_axi_bready) s_axi_bvalid <= 1'b0;
    if (s_axi_rready) s_axi_rvalid <= 1'b0;
    if (answered) begin
      waiting <= 1'b0;
      if (writing) begin
        s_axi_bvalid <= 1'b1;
        s_axi_bresp  <= {refused, 1'b0};
      end else begin
        s_axi_rvalid <= 1'b1;
        s_axi_rresp  <= {refused, 1'b0};
        s_axi_rdata  <= for_status ? {30'd0, !ready, stopped} : refused ? 32'd0 : data;
      end
    end
    if (s_axi_rst) begin
      waiting      <= 1'b0;
      s_axi_bvalid <= 1'b0;
      s_axi_rvalid <= 1'b0;
    end
  end

endmodule

`default_nettype wire
