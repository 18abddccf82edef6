// SPDX-License-Identifier: BSD-3-Clause
// Everything between the applications and the MAC on the transmit side.
//
//   application i -> tx_ring --\
//                              frame_arbiter -> udp_tx -> skid_buffer --\
//   ...                      -/                                          frame_arbiter -> MAC
//                        cpu_tx_buffer, host's protocols ------------/
//
// Contract: applications share the line by whole packets, round robin; their sum, the CPU and the host's protocols (host_axis: ARP,
// ICMP, IGMP) share it by whole frames in the same way, so a frame of the latter two waits for at most two others, and one
// application that always sends gets all the beats that the others leave. A frame that has begun never runs dry (one at host_axis
// must not pause). With one application always valid, 8192-byte payloads leave every 65 beats at 1024 bits. Latency: 10 cycles behind
// tx_ring.
// Sideband of application i: bits [i*32 +: 32] of s_dst_ip etc. Events are single cycles of `clk`, one bit an application.
`default_nettype none

module tx_path #(
    parameter int WIDTH       = 1024,
    parameter int APPS        = 1,
    parameter int RING_DEPTH  = 262144 / WIDTH,
    parameter int RING_FRAMES = 64,
    parameter int MAX_PAYLOAD = 9000,
    parameter int CPU_BYTES   = 2048
) (
    // Applications, each in its clock.
    input  wire  [APPS-1:0]              app_clk,
    input  wire  [APPS-1:0]              app_rst,
    input  wire  [APPS*WIDTH-1:0]        s_axis_tdata,
    input  wire  [APPS*WIDTH/8-1:0]      s_axis_tkeep,
    input  wire  [APPS-1:0]              s_axis_tvalid,
    output logic [APPS-1:0]              s_axis_tready,
    input  wire  [APPS-1:0]              s_axis_tlast,
    input  wire  [APPS-1:0]              s_axis_tuser,
    input  wire  [APPS*32-1:0]           s_dst_ip,
    input  wire  [APPS*16-1:0]           s_dst_port,
    input  wire  [APPS*16-1:0]           s_src_port,

    input  wire                          clk,
    input  wire                          rst,
    // Registers.
    input  wire                          enable,
    input  wire                          udp_checksum,
    input  wire  [47:0]                  own_mac,
    input  wire  [31:0]                  own_ip,
    input  wire  [7:0]                   ttl,
    input  wire  [7:0]                   tos,
    // CPU's buffer.
    input  wire                          cpu_write,
    input  wire  [$clog2(CPU_BYTES)-3:0] cpu_address,
    input  wire  [31:0]                  cpu_write_data,
    output logic [31:0]                  cpu_read_data,
    input  wire                          cpu_send,
    input  wire  [15:0]                  cpu_send_bytes,
    output logic                         cpu_busy,
    // ARP table, and frames of the host's protocols.
    output logic                         lookup_valid,
    output logic [31:0]                  lookup_ip,
    input  wire                          lookup_hit,
    input  wire  [47:0]                  lookup_mac,
    input  wire  [WIDTH-1:0]             host_axis_tdata,
    input  wire  [WIDTH/8-1:0]           host_axis_tkeep,
    input  wire                          host_axis_tvalid,
    output logic                         host_axis_tready,
    input  wire                          host_axis_tlast,
    // MAC.
    output logic [WIDTH-1:0]             m_axis_tdata,
    output logic [WIDTH/8-1:0]           m_axis_tkeep,
    output logic                         m_axis_tvalid,
    input  wire                          m_axis_tready,
    output logic                         m_axis_tlast,
    // Events.
    output logic [APPS-1:0]              dropped,      // packet too long or marked bad
    output logic [APPS-1:0]              stalled,      // ring full: a beat began to wait
    output logic [APPS-1:0]              almost_full,
    output logic                         no_mac        // packet dropped: no entry in the ARP table
);

  localparam int KEEP = WIDTH / 8;
  localparam int META = 16 + 32 + 16 + 16 + 16;  // length, addresses, sum

  logic [APPS*WIDTH-1:0] ring_tdata;
  logic [APPS*KEEP-1:0] ring_tkeep;
  logic [APPS-1:0] ring_tvalid, ring_tready, ring_tlast;
  logic [APPS*META-1:0] ring_meta;

  genvar i;
  generate
    for (i = 0; i < APPS; i = i + 1) begin : g_app
      tx_ring #(.WIDTH(WIDTH), .DEPTH(RING_DEPTH), .FRAMES(RING_FRAMES), .MAX_PAYLOAD(MAX_PAYLOAD)) ring (
          .app_clk(app_clk[i]), .app_rst(app_rst[i]),
          .s_axis_tdata(s_axis_tdata[i*WIDTH+:WIDTH]), .s_axis_tkeep(s_axis_tkeep[i*KEEP+:KEEP]),
          .s_axis_tvalid(s_axis_tvalid[i]), .s_axis_tready(s_axis_tready[i]),
          .s_axis_tlast(s_axis_tlast[i]), .s_axis_tuser(s_axis_tuser[i]),
          .s_dst_ip(s_dst_ip[i*32+:32]), .s_dst_port(s_dst_port[i*16+:16]), .s_src_port(s_src_port[i*16+:16]),
          .clk, .rst,
          .m_axis_tdata(ring_tdata[i*WIDTH+:WIDTH]), .m_axis_tkeep(ring_tkeep[i*KEEP+:KEEP]),
          .m_axis_tvalid(ring_tvalid[i]), .m_axis_tready(ring_tready[i]), .m_axis_tlast(ring_tlast[i]),
          .m_length(ring_meta[i*META+80+:16]), .m_dst_ip(ring_meta[i*META+48+:32]),
          .m_dst_port(ring_meta[i*META+32+:16]), .m_src_port(ring_meta[i*META+16+:16]), .m_sum(ring_meta[i*META+:16]),
          .dropped(dropped[i]), .stalled(stalled[i]), .almost_full(almost_full[i])
      );
    end
  endgenerate

  logic [WIDTH-1:0] packet_tdata, built_tdata, frame_tdata, cpu_tdata;
  logic [KEEP-1:0] packet_tkeep, built_tkeep, frame_tkeep, cpu_tkeep;
  logic packet_tvalid, packet_tready, packet_tlast;
  logic built_tvalid, built_tready, built_tlast;
  logic frame_tvalid, frame_tready, frame_tlast;
  logic cpu_tvalid, cpu_tready, cpu_tlast;
  logic [META-1:0] packet_meta;

  frame_arbiter #(.N(APPS), .WIDTH(WIDTH), .META(META)) packets (
      .clk, .rst,
      .s_axis_tdata(ring_tdata), .s_axis_tkeep(ring_tkeep), .s_axis_tvalid(ring_tvalid), .s_axis_tready(ring_tready),
      .s_axis_tlast(ring_tlast), .s_meta(ring_meta),
      .m_axis_tdata(packet_tdata), .m_axis_tkeep(packet_tkeep), .m_axis_tvalid(packet_tvalid),
      .m_axis_tready(packet_tready), .m_axis_tlast(packet_tlast), .m_meta(packet_meta)
  );

  udp_tx #(.WIDTH(WIDTH)) headers (
      .clk, .rst, .enable, .udp_checksum, .own_mac, .own_ip, .ttl, .tos,
      .s_axis_tdata(packet_tdata), .s_axis_tvalid(packet_tvalid), .s_axis_tready(packet_tready),
      .s_axis_tlast(packet_tlast),
      .s_length(packet_meta[80+:16]), .s_dst_ip(packet_meta[48+:32]), .s_dst_port(packet_meta[32+:16]),
      .s_src_port(packet_meta[16+:16]), .s_sum(packet_meta[0+:16]),
      .lookup_valid, .lookup_ip, .lookup_hit, .lookup_mac, .no_mac,
      .m_axis_tdata(built_tdata), .m_axis_tkeep(built_tkeep), .m_axis_tvalid(built_tvalid),
      .m_axis_tready(built_tready), .m_axis_tlast(built_tlast)
  );

  // The MAC's ready would run through the arbiter and all that waits for it in udp_tx.
  skid_buffer #(.BITS(WIDTH + KEEP + 1)) cut (
      .clk, .rst, .s_data({built_tlast, built_tkeep, built_tdata}), .s_valid(built_tvalid), .s_ready(built_tready),
      .m_data({frame_tlast, frame_tkeep, frame_tdata}), .m_valid(frame_tvalid), .m_ready(frame_tready)
  );

  cpu_tx_buffer #(.WIDTH(WIDTH), .BYTES(CPU_BYTES)) cpu (
      .clk, .rst, .write(cpu_write), .address(cpu_address), .write_data(cpu_write_data), .read_data(cpu_read_data),
      .send(cpu_send), .send_bytes(cpu_send_bytes), .busy(cpu_busy),
      .m_axis_tdata(cpu_tdata), .m_axis_tkeep(cpu_tkeep), .m_axis_tvalid(cpu_tvalid), .m_axis_tready(cpu_tready),
      .m_axis_tlast(cpu_tlast)
  );

  logic meta_unused;
  frame_arbiter #(.N(3), .WIDTH(WIDTH), .META(1)) frames (
      .clk, .rst,
      .s_axis_tdata({host_axis_tdata, cpu_tdata, frame_tdata}), .s_axis_tkeep({host_axis_tkeep, cpu_tkeep, frame_tkeep}),
      .s_axis_tvalid({host_axis_tvalid, cpu_tvalid, frame_tvalid}),
      .s_axis_tready({host_axis_tready, cpu_tready, frame_tready}),
      .s_axis_tlast({host_axis_tlast, cpu_tlast, frame_tlast}), .s_meta(3'b000),
      .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast, .m_meta(meta_unused)
  );

endmodule

`default_nettype wire
