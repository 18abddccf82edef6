// SPDX-License-Identifier: BSD-3-Clause
// Registers of packet generator and checker, behind the core's extension bus, and the generator's table of streams.
//
// Addresses are those of src/ryle/fpga/registers.toml (0x98 to 0xB0 and 0x200 to 0x2FF). A 64-bit number is read low word
// first: that holds the high word. Addresses without a register read 0.
//
// Contract: a request is `ext_rd` or `ext_wr`, for one clock or until `ext_ack`, which comes for one clock, with `ext_rdata`.
// Writes to the table may come at any time, but are meant for a stopped generator. Latency: 2 clocks from request to `ext_ack`.
`default_nettype none

module traffic_registers #(
  parameter int WIDTH = 1024,
  parameter int STREAM_BITS = 4,
  parameter int CLOCK_HZ = 390_625_000
) (
  input  wire logic                   clk,
  input  wire logic                   rst,
  // Extension bus.
  input  wire logic                   ext_wr,
  input  wire logic                   ext_rd,
  input  wire logic [11:0]            ext_addr,
  input  wire logic [31:0]            ext_wdata,
  output logic [31:0]                 ext_rdata,
  output logic                        ext_ack,
  // Generator.
  output logic                        enable,
  input  wire logic                   running,
  output logic                        digitizer,
  output logic                        shared,
  output logic [7:0]                  streams,
  output logic [15:0]                 length,
  output logic [15:0]                 source_port,
  output logic [31:0]                 beats,
  output logic [31:0]                 period,
  output logic [31:0]                 limit,
  output logic [7:0]                  tone_step,
  output logic [3:0]                  tone_shift,
  output logic [3:0]                  noise_shift,
  output logic [31:0]                 seed,
  input  wire logic [63:0]            sent,
  input  wire logic [STREAM_BITS-1:0] stream,
  output logic [31:0]                 stream_ip,
  output logic [15:0]                 stream_port,
  output logic [15:0]                 stream_id,
  output logic [31:0]                 stream_delay,
  output logic [STREAM_BITS-1:0]      selected,
  output logic                        sequence_write,  // `sequence_new` becomes the selected stream's number
  output logic [63:0]                 sequence_new,
  input  wire logic [63:0]            sequence_held,   // the selected stream's number
  // Checker.
  output logic                        check,
  output logic                        clear,
  output logic [7:0]                  throttle,
  input  wire logic [63:0]            checked_packets,
  input  wire logic [63:0]            checked_bytes,
  input  wire logic [63:0]            checked_lost,
  input  wire logic [63:0]            checked_late,
  input  wire logic [63:0]            checked_wrong,
  input  wire logic [63:0]            checked_short,
  input  wire logic [63:0]            checked_next
);
  localparam int STREAMS = 1 << STREAM_BITS;
  localparam logic [15:0] LENGTH = 16'd8192;  // until one is written

  logic [31:0] ips[STREAMS];
  logic [15:0] ports[STREAMS];
  logic [15:0] ids[STREAMS];
  logic [31:0] delays[STREAMS];
  assign stream_ip = ips[stream];
  assign stream_port = ports[stream];
  assign stream_id = ids[stream];
  assign stream_delay = delays[stream];

  logic [31:0] low;   // word of a sequence number that waits for its high word
  logic [31:0] high;  // word that was held when the low one was read
  logic        request, wr, requested, reads;
  logic [11:0] address;
  assign request = (ext_rd || ext_wr) && !requested && !ext_ack;
  assign wr = request && ext_wr;
  assign sequence_write = wr && ext_addr == 12'h224;
  assign sequence_new = {ext_wdata, low};

  // A 64-bit number at `address`: low word there, high word 4 further.
  logic [63:0] wide;
  always_comb begin
    case (address & 12'hFF8)
      12'h220: wide = sequence_held;
      12'h230: wide = sent;
      12'h268: wide = checked_packets;
      12'h270: wide = checked_bytes;
      12'h278: wide = checked_lost;
      12'h280: wide = checked_late;
      12'h288: wide = checked_wrong;
      12'h290: wide = checked_short;
      12'h298: wide = checked_next;
      default: wide = 64'd0;
    endcase
  end
  logic is_wide;
  assign is_wide = (address & 12'hFF8) == 12'h220 || (address & 12'hFF8) == 12'h230
      || (address >= 12'h268 && address < 12'h2A0);

  always_ff @(posedge clk) begin
    requested <= request;
    reads <= ext_rd;
    address <= ext_addr;
    ext_ack <= requested;
    if (requested) begin
      if (is_wide) begin
        ext_rdata <= address[2] ? high : wide[31:0];
        if (reads && !address[2]) high <= wide[63:32];
      end else begin
        case (address)
          12'h098: ext_rdata <= ips[0];
          12'h09C: ext_rdata <= {16'd0, source_port};
          12'h0A0: ext_rdata <= {16'd0, ports[0]};
          12'h0A4: ext_rdata <= {16'd0, length};
          12'h0A8: ext_rdata <= {30'd0, running, enable};
          12'h0AC: ext_rdata <= beats;
          12'h0B0: ext_rdata <= period;
          12'h200: ext_rdata <= {23'd0, shared, 7'd0, digitizer};
          12'h204: ext_rdata <= {8'd0, 8'(STREAMS), 8'd0, streams};
          12'h208: ext_rdata <= 32'(selected);
          12'h20C: ext_rdata <= ips[selected];
          12'h210: ext_rdata <= {16'd0, ports[selected]};
          12'h214: ext_rdata <= {16'd0, ids[selected]};
          12'h218: ext_rdata <= delays[selected];
          12'h228: ext_rdata <= limit;
          12'h238: ext_rdata <= {20'd0, tone_shift, tone_step};
          12'h23C: ext_rdata <= {28'd0, noise_shift};
          12'h240: ext_rdata <= seed;
          12'h244: ext_rdata <= 32'(CLOCK_HZ);
          12'h260: ext_rdata <= {16'd0, throttle, 7'd0, check};
          default: ext_rdata <= 32'd0;
        endcase
      end
    end
    clear <= wr && ext_addr == 12'h264 && ext_wdata[0];
    if (wr) begin
      case (ext_addr)
        12'h098: ips[0] <= ext_wdata;
        12'h09C: source_port <= ext_wdata[15:0];
        12'h0A0: ports[0] <= ext_wdata[15:0];
        12'h0A4: length <= ext_wdata[15:0];
        12'h0A8: enable <= ext_wdata[0];
        12'h0AC: beats <= ext_wdata;
        12'h0B0: period <= ext_wdata;
        12'h200: {shared, digitizer} <= {ext_wdata[8], ext_wdata[0]};
        12'h204: streams <= ext_wdata[7:0];
        12'h208: selected <= ext_wdata[STREAM_BITS-1:0];
        12'h20C: ips[selected] <= ext_wdata;
        12'h210: ports[selected] <= ext_wdata[15:0];
        12'h214: ids[selected] <= ext_wdata[15:0];
        12'h218: delays[selected] <= ext_wdata;
        12'h220: low <= ext_wdata;
        12'h228: limit <= ext_wdata;
        12'h238: {tone_shift, tone_step} <= ext_wdata[11:0];
        12'h23C: noise_shift <= ext_wdata[3:0];
        12'h240: seed <= ext_wdata;
        12'h260: {throttle, check} <= {ext_wdata[15:8], ext_wdata[0]};
        default: ;
      endcase
    end
    if (rst) begin
      requested <= 1'b0;
      ext_ack <= 1'b0;
      ext_rdata <= '0;
      enable <= 1'b0;
      digitizer <= 1'b0;
      shared <= 1'b0;
      streams <= 8'd1;
      length <= LENGTH;
      source_port <= 16'd10000;
      beats <= '1;
      period <= 32'd1;
      limit <= '0;
      tone_step <= '0;
      tone_shift <= 4'd8;
      noise_shift <= 4'd0;
      seed <= '0;
      selected <= '0;
      check <= 1'b0;
      throttle <= '0;
      for (int s = 0; s < STREAMS; s++) begin
        ips[s] <= '0;
        ports[s] <= 16'd10000;
        ids[s] <= '0;
        delays[s] <= '0;
      end
    end
  end
endmodule

`default_nettype wire
