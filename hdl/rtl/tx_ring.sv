// SPDX-License-Identifier: BSD-3-Clause
// One application's way into the core: its packets, in its own clock, become whole packets with length and sum in `clk`.
//
// Input (app_clk): UDP payloads as AXI4-Stream frames of 1..MAX_PAYLOAD bytes; a single beat with tkeep = 0 is an empty
// datagram. s_dst_ip, s_dst_port and s_src_port are sampled with the first beat. tready falls when the ring is full; nothing
// is lost by that, and the payload may pause anywhere. A packet longer than MAX_PAYLOAD, or with tuser set on its last beat,
// is dropped whole and gives one `dropped` event.
// Output (clk): the payloads in order, bit-exact, with m_length (bytes), addresses and m_sum, the ones' complement sum of the
// payload (for the UDP checksum), valid with every beat. A packet appears only when all of it is stored: no idle beat inside.
// Events (clk): `dropped`; `stalled`: an offered beat began to wait for room (data is lost only if the application cannot
// wait); `almost_full`: the ring may not take another packet of MAX_PAYLOAD bytes (rising edge).
// Latency: about 14 cycles from the last beat in. Throughput: one beat a cycle.
`default_nettype none

module tx_ring #(
    parameter int WIDTH       = 1024,
    parameter int DEPTH       = 262144 / WIDTH,  // beats
    parameter int FRAMES      = 64,
    parameter int MAX_PAYLOAD = 9000
) (
    input  wire                app_clk,
    input  wire                app_rst,
    input  wire  [WIDTH-1:0]   s_axis_tdata,
    input  wire  [WIDTH/8-1:0] s_axis_tkeep,
    input  wire                s_axis_tvalid,
    output logic               s_axis_tready,
    input  wire                s_axis_tlast,
    input  wire                s_axis_tuser,
    input  wire  [31:0]        s_dst_ip,
    input  wire  [15:0]        s_dst_port,
    input  wire  [15:0]        s_src_port,

    input  wire                clk,
    input  wire                rst,
    output logic [WIDTH-1:0]   m_axis_tdata,
    output logic [WIDTH/8-1:0] m_axis_tkeep,
    output logic               m_axis_tvalid,
    input  wire                m_axis_tready,
    output logic               m_axis_tlast,
    output logic [15:0]        m_length,
    output logic [31:0]        m_dst_ip,
    output logic [15:0]        m_dst_port,
    output logic [15:0]        m_src_port,
    output logic [15:0]        m_sum,
    output logic               dropped,
    output logic               stalled,
    output logic               almost_full
);

  localparam int SUM_LATENCY = 5;  // of ones_sum
  localparam int BEAT = WIDTH + WIDTH / 8 + 2 + 64;

  // The beat and its sideband, with tready from a flip-flop, then delayed in step with the sum.
  wire  [BEAT-1:0] offered = {s_dst_ip, s_dst_port, s_src_port, s_axis_tuser, s_axis_tlast, s_axis_tkeep, s_axis_tdata};
  logic [BEAT-1:0] taken;
  logic [BEAT-1:0] delayed[0:SUM_LATENCY-1];
  logic [SUM_LATENCY-1:0] delayed_valid;
  logic taken_valid, skid_ready, fifo_ready;
  wire enable = !delayed_valid[SUM_LATENCY-1] || fifo_ready;

  skid_buffer #(.BITS(BEAT)) skid (
      .clk(app_clk), .rst(app_rst),
      .s_data(offered), .s_valid(s_axis_tvalid && !app_rst), .s_ready(skid_ready),
      .m_data(taken), .m_valid(taken_valid), .m_ready(enable)
  );
  assign s_axis_tready = skid_ready && !app_rst;

  always_ff @(posedge app_clk) begin
    if (enable) begin
      delayed_valid <= {delayed_valid[SUM_LATENCY-2:0], taken_valid};
      delayed[0] <= taken;
      for (int n = 1; n < SUM_LATENCY; n++) delayed[n] <= delayed[n-1];
    end
    if (app_rst) delayed_valid <= '0;
  end

  logic [15:0] sum;
  logic sum_valid;  // with the last beat at the end of the delay, by construction
  ones_sum #(.WIDTH(WIDTH)) payload_sum (
      .clk(app_clk), .rst(app_rst), .enable(enable),
      .data(taken[WIDTH-1:0]), .keep(taken[WIDTH+:WIDTH/8]), .valid(taken_valid), .last(taken[WIDTH+WIDTH/8]),
      .sum(sum), .sum_valid(sum_valid)
  );

  // The sideband of the first beat stands for the packet.
  wire [BEAT-1:0] beat = delayed[SUM_LATENCY-1];
  wire beat_last = beat[WIDTH+WIDTH/8];
  logic first;
  logic [63:0] address_held;
  wire [63:0] address = first ? beat[BEAT-1-:64] : address_held;
  always_ff @(posedge app_clk) begin
    if (delayed_valid[SUM_LATENCY-1] && fifo_ready) begin
      first <= beat_last;
      address_held <= address;
    end
    if (app_rst) first <= 1'b1;
  end

  logic bad, oversize, full_now, was_full, waiting, was_waiting;
  logic stored_unused, full_unused;
  async_packet_fifo #(
      .WIDTH(WIDTH), .DEPTH(DEPTH), .FRAMES(FRAMES), .META(80), .MAX_BYTES(MAX_PAYLOAD), .DROP_WHEN_FULL(0)
  ) ring (
      .s_clk(app_clk), .s_rst(app_rst),
      .s_axis_tdata(beat[WIDTH-1:0]), .s_axis_tkeep(beat[WIDTH+:WIDTH/8]),
      .s_axis_tvalid(delayed_valid[SUM_LATENCY-1]), .s_axis_tready(fifo_ready), .s_axis_tlast(beat_last),
      .s_axis_tuser(beat[WIDTH+WIDTH/8+1]), .s_meta({address, sum}),
      .stored(stored_unused), .dropped_bad(bad), .dropped_oversize(oversize), .dropped_full(full_unused),
      .almost_full(full_now),
      .m_clk(clk), .m_rst(rst), .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast, .m_length,
      .m_meta({m_dst_ip, m_dst_port, m_src_port, m_sum})
  );

  always_ff @(posedge app_clk) begin
    waiting     <= s_axis_tvalid && !s_axis_tready && !app_rst;
    was_waiting <= waiting && !app_rst;
    was_full    <= full_now && !app_rst;
  end

  cdc_events dropped_events (
      .src_clk(app_clk), .src_rst(app_rst), .src_event(bad || oversize), .dst_clk(clk), .dst_rst(rst), .dst_event(dropped)
  );
  cdc_events stalled_events (
      .src_clk(app_clk), .src_rst(app_rst), .src_event(waiting && !was_waiting), .dst_clk(clk), .dst_rst(rst),
      .dst_event(stalled)
  );
  cdc_events full_events (
      .src_clk(app_clk), .src_rst(app_rst), .src_event(full_now && !was_full), .dst_clk(clk), .dst_rst(rst),
      .dst_event(almost_full)
  );

`ifdef VERILATOR
  logic begun = 1'b0;  // there has been a reset
  always_ff @(posedge app_clk) begin
    begun <= begun || app_rst;
    if (begun && !app_rst && delayed_valid[SUM_LATENCY-1])
      assert (sum_valid == beat_last) else $error("tx_ring: sum and last beat out of step");
  end
`endif

endmodule

`default_nettype wire
