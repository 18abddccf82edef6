// SPDX-License-Identifier: BSD-3-Clause
// The whole core with the behavioural MAC, its line looped back: packets in, the same packets out, by the million.
//
// Plusargs: packets=N; length=L, or length=0 for a mix of short and long ones, or length=-1 for 1..9000 one after the other; user=P,
// mac=P, sink=P: per cent of clocks in which the user's source, the MAC and the user's sink pause (-1: drawn anew from 0..90
// every 500 clocks); checksum=1: UDP checksums; seed=N.
// Every received bit is compared with what was sent; order, length, ports and addresses too. It ends with $fatal at the first
// difference, if the line underflows or if nothing happens for long; else it prints what it measured.
`timescale 1ns / 1ps
/* verilator lint_off PROCASSINIT */
/* verilator lint_off WIDTHEXPAND */
/* verilator lint_off BLKSEQ */

module core_tb #(
    parameter int WIDTH = 1024
);

  localparam int KEEP = WIDTH / 8;
  localparam real PERIOD = 2.56;
  localparam logic [31:0] IP = 32'h0a01_0203;
  localparam logic [47:0] MAC = 48'h0200_0000_0001;

  int packets, length, user_pause, mac_pause, sink_pause, checksum, seed;

  logic clk = 0, app_clk = 0, sink_clk = 0, axi_clk = 0, rst = 1;
  always #(PERIOD / 2) clk = !clk;
  always #1.27 app_clk = !app_clk;
  always #1.05 sink_clk = !sink_clk;  // fast enough to pause a tenth of the time: nothing may be lost here
  always #5 axi_clk = !axi_clk;

  // ---- what packet n is -------------------------------------------------------------------------------------------------

  function automatic logic [31:0] scramble(input logic [31:0] x);
    scramble = (x ^ seed) * 32'h9e37_79b1;
    scramble = (scramble ^ (scramble >> 15)) * 32'h85eb_ca6b;
    scramble = scramble ^ (scramble >> 13);
  endfunction

  function automatic int length_of(input int n);
    logic [31:0] x;
    x = scramble(n);
    if (length > 0) length_of = length;
    else if (length < 0) length_of = n % 9000 + 1;
    else if (x[31]) length_of = int'(x[27:0] % (4 * KEEP)) + 1;
    else length_of = int'(x[27:0] % 9000) + 1;
  endfunction

  function automatic logic [WIDTH-1:0] beat_of(input int n, input int beat);
    for (int w = 0; w < WIDTH / 64; w++)
      beat_of[w*64+:64] = {32'(n) ^ 32'(beat * 64 + w) * 32'h9e37_79b1, 32'(n) * 32'h85eb_ca6b + 32'(beat * 64 + w)};
  endfunction

  function automatic logic [KEEP-1:0] keep_of(input int left);
    keep_of = left >= KEEP ? '1 : ~({KEEP{1'b1}} << left);
  endfunction

  // ---- pauses -----------------------------------------------------------------------------------------------------------

  logic [31:0] draw_user, draw_mac, draw_sink;  // xorshift
  int share_user, share_mac, share_sink, since;
  function automatic logic [31:0] next(input logic [31:0] x);
    next = x ^ (x << 13);
    next = next ^ (next >> 17);
    next = next ^ (next << 5);
  endfunction
  logic pause_user, pause_mac, pause_sink;
  always @(posedge app_clk) begin
    draw_user <= next(draw_user);
    pause_user <= share_user > 0 && int'(draw_user[30:0] % 100) < share_user;
  end
  always @(posedge clk) begin
    draw_mac <= next(draw_mac);
    pause_mac <= share_mac > 0 && int'(draw_mac[30:0] % 100) < share_mac;
    since <= since == 499 ? 0 : since + 1;
    if (since == 0) begin
      share_user <= user_pause >= 0 ? user_pause : int'(draw_mac[15:0] % 91);
      share_mac <= mac_pause >= 0 ? mac_pause : int'(draw_mac[31:16] % 91);
    end
  end
  always @(posedge sink_clk) begin
    draw_sink <= next(draw_sink);
    pause_sink <= share_sink > 0 && int'(draw_sink[30:0] % 100) < share_sink;
  end

  // ---- source -----------------------------------------------------------------------------------------------------------

  logic [WIDTH-1:0] s_axis_tdata;
  logic [KEEP-1:0] s_axis_tkeep;
  logic s_axis_tvalid = 0, s_axis_tready, s_axis_tlast;
  logic [31:0] s_axis_dst_ip;
  logic [15:0] s_axis_src_port;
  int send_n = 0, send_beat = 0;
  logic go = 0;
  logic app_tx_rst, app_rx_rst;

  always @(posedge app_clk)
    if (app_tx_rst || !go) s_axis_tvalid <= 0;
    else if (!s_axis_tvalid || s_axis_tready) begin
      s_axis_tvalid <= send_n < packets && !pause_user;
      if (send_n < packets && !pause_user) begin
        automatic int left = length_of(send_n) - send_beat * KEEP;
        s_axis_tdata <= beat_of(send_n, send_beat);
        s_axis_tkeep <= keep_of(left);
        s_axis_tlast <= left <= KEEP;
        // The sideband counts with the first beat only.
        s_axis_dst_ip <= send_beat == 0 ? IP : 32'hdead_beef;
        s_axis_src_port <= send_beat == 0 ? 16'(send_n) : 16'h5555;
        send_beat <= left <= KEEP ? 0 : send_beat + 1;
        if (left <= KEEP) send_n <= send_n + 1;
      end
    end

  // ---- sink -------------------------------------------------------------------------------------------------------------

  logic [WIDTH-1:0] m_axis_tdata;
  logic [KEEP-1:0] m_axis_tkeep;
  logic m_axis_tvalid, m_axis_tlast;
  logic [15:0] m_axis_length, m_axis_src_port, m_axis_dst_port;
  logic [31:0] m_axis_src_ip, m_axis_dst_ip;
  int got_n = 0, got_beat = 0;
  longint got_bytes = 0;
  logic [WIDTH-1:0] mask, want;
  wire m_axis_tready = !pause_sink;

  always @(posedge sink_clk)
    if (!app_rx_rst && m_axis_tvalid && m_axis_tready) begin
      automatic int whole = length_of(got_n);
      automatic int left = whole - got_beat * KEEP;
      want = beat_of(got_n, got_beat);
      if (left < KEEP) begin
        for (int b = 0; b < KEEP; b++) mask[b*8+:8] = b < left ? 8'hff : 8'h00;
        want &= mask;
      end else mask = '1;
      if ((m_axis_tdata & mask) != want || m_axis_tkeep != keep_of(left) || m_axis_tlast != (left <= KEEP))
        $fatal(1, "packet %0d of %0d bytes, beat %0d differs: %h keep %h last %b, want %h", got_n, whole, got_beat,
               m_axis_tdata, m_axis_tkeep, m_axis_tlast, want);
      if (int'(m_axis_length) != whole || m_axis_src_port != 16'(got_n) || m_axis_dst_port != 16'd7148
          || m_axis_src_ip != IP || m_axis_dst_ip != IP)
        $fatal(1, "packet %0d: sideband differs: length %0d port %0d", got_n, m_axis_length, m_axis_src_port);
      got_beat <= left <= KEEP ? 0 : got_beat + 1;
      if (left <= KEEP) begin
        got_n <= got_n + 1;
        got_bytes <= got_bytes + 64'(whole);
      end
    end

  // ---- core and MAC -----------------------------------------------------------------------------------------------------

  logic [WIDTH-1:0] tx_tdata, rx_tdata, wire_data;
  logic [KEEP-1:0] tx_tkeep, rx_tkeep, wire_ctrl;
  logic tx_tvalid, tx_tready, tx_tlast, rx_tvalid, rx_tlast, rx_tuser, wire_valid;
  logic link_up, local_fault, remote_fault, bad_fcs, overrun, underflow;
  logic [63:0] phy_control;
  logic ext_wr, ext_rd;
  logic [11:0] ext_addr;
  logic [31:0] ext_wdata;

  logic [15:0] awaddr = 0, araddr = 0;
  logic [31:0] wdata = 0, rdata;
  logic awvalid = 0, awready, wready, bvalid, arvalid = 0, arready, rvalid;
  logic [1:0] bresp, rresp;

  ethernet_core #(.WIDTH(WIDTH), .CLOCK_HZ(20000)) core (
      .clk, .rst, .app_tx_clk(app_clk), .app_tx_rst, .s_axis_tdata, .s_axis_tkeep, .s_axis_tvalid, .s_axis_tready,
      .s_axis_tlast, .s_axis_tuser(1'b0), .s_axis_dst_ip, .s_axis_dst_port(16'd7148), .s_axis_src_port,
      .app_rx_clk(sink_clk), .app_rx_rst, .m_axis_tdata, .m_axis_tkeep, .m_axis_tvalid, .m_axis_tready, .m_axis_tlast,
      .m_axis_length, .m_axis_src_ip, .m_axis_src_port, .m_axis_dst_ip, .m_axis_dst_port,
      .mac_tx_axis_tdata(tx_tdata), .mac_tx_axis_tkeep(tx_tkeep), .mac_tx_axis_tvalid(tx_tvalid),
      .mac_tx_axis_tready(tx_tready), .mac_tx_axis_tlast(tx_tlast),
      .mac_rx_axis_tdata(rx_tdata), .mac_rx_axis_tkeep(rx_tkeep), .mac_rx_axis_tvalid(rx_tvalid),
      .mac_rx_axis_tlast(rx_tlast), .mac_rx_axis_tuser(rx_tuser),
      .phy_status({61'd0, remote_fault, local_fault, link_up}), .phy_control,
      .s_axi_aclk(axi_clk), .s_axi_aresetn(!rst), .s_axi_awaddr(awaddr), .s_axi_awvalid(awvalid), .s_axi_awready(awready),
      .s_axi_wdata(wdata), .s_axi_wstrb(4'hf), .s_axi_wvalid(awvalid), .s_axi_wready(wready), .s_axi_bresp(bresp),
      .s_axi_bvalid(bvalid), .s_axi_bready(1'b1), .s_axi_araddr(araddr), .s_axi_arvalid(arvalid), .s_axi_arready(arready),
      .s_axi_rdata(rdata), .s_axi_rresp(rresp), .s_axi_rvalid(rvalid), .s_axi_rready(1'b1),
      .ext_wr, .ext_rd, .ext_addr, .ext_wdata, .ext_rdata(32'd0), .ext_ack(ext_wr || ext_rd)
  );

  mac_model #(.WIDTH(WIDTH)) mac (
      .clk, .rst, .pause(pause_mac),
      .s_axis_tdata(tx_tdata), .s_axis_tkeep(tx_tkeep), .s_axis_tvalid(tx_tvalid), .s_axis_tready(tx_tready),
      .s_axis_tlast(tx_tlast), .m_axis_tdata(rx_tdata), .m_axis_tkeep(rx_tkeep), .m_axis_tvalid(rx_tvalid),
      .m_axis_tlast(rx_tlast), .m_axis_tuser(rx_tuser),
      .wire_tx_data(wire_data), .wire_tx_ctrl(wire_ctrl), .wire_tx_valid(wire_valid),
      .wire_rx_data(wire_data), .wire_rx_ctrl(wire_ctrl), .wire_rx_valid(wire_valid),
      .link_up, .local_fault, .remote_fault, .bad_fcs, .overrun, .underflow
  );

  // ---- measurements -----------------------------------------------------------------------------------------------------

  longint clock = 0, mac_beats = 0, idle_beats = 0, first_start = 0, last_start = 0, starts = 0;
  int beats_of_frame = 0, beats_least = 1 << 30, beats_most = 0;
  logic in_frame = 0;

  always @(posedge clk) begin
    clock <= clock + 1;
    if (underflow) $fatal(1, "the MAC ran dry inside a frame");
    if (in_frame && !tx_tvalid && !rst) $fatal(1, "tvalid fell inside a frame");
    if (tx_tvalid && tx_tready) begin
      mac_beats <= mac_beats + 1;
      in_frame <= !tx_tlast;
      beats_of_frame <= tx_tlast ? 0 : beats_of_frame + 1;
      if (tx_tlast) begin
        if (beats_of_frame + 1 < beats_least) beats_least <= beats_of_frame + 1;
        if (beats_of_frame + 1 > beats_most) beats_most <= beats_of_frame + 1;
      end
    end
    // Beats that the MAC would have taken while packets were still to be sent.
    if (!tx_tvalid && tx_tready && mac_beats > 0 && send_n < packets) idle_beats <= idle_beats + 1;
    if (wire_valid)
      for (int l = 0; l < KEEP / 8; l++)
        if (wire_ctrl[l*8] && wire_data[l*64+:8] == mac_pkg::CHAR_START) begin
          if (starts == 0) first_start <= clock;
          last_start <= clock;
          starts <= starts + 1;
        end
  end

  // ---- registers --------------------------------------------------------------------------------------------------------

  // Driven between edges, sampled at them.
  task automatic register_write(input logic [15:0] address, input logic [31:0] value);
    @(negedge axi_clk);
    awaddr = address;
    wdata = value;
    awvalid = 1;
    do @(posedge axi_clk); while (!(awready && wready));
    @(negedge axi_clk) awvalid = 0;
    while (!bvalid) @(posedge axi_clk);
    if (bresp != 0) $fatal(1, "write of %h failed", address);
  endtask

  task automatic register_read(input logic [15:0] address, output logic [31:0] value);
    @(negedge axi_clk);
    araddr = address;
    arvalid = 1;
    do @(posedge axi_clk); while (!arready);
    @(negedge axi_clk) arvalid = 0;
    while (!rvalid) @(posedge axi_clk);
    value = rdata;
  endtask

  task automatic expect_register(input string name, input logic [15:0] address, input logic [31:0] want_value);
    logic [31:0] value;
    register_read(address, value);
    if (value != want_value) $fatal(1, "register %s is %0d, not %0d", name, value, want_value);
  endtask

  // What the core counted, for whoever has to find a fault.
  task automatic report;
    logic [31:0] value;
    for (int a = 16'h48; a <= 16'hfc; a += 4) begin
      if (a == 16'h80) a = 16'hc0;
      register_read(16'(a), value);
      if (value != 0) $display("register %h: %0d", a, value);
    end
    $display("sent %0d (waiting: %b) beats to the MAC %0d, starts on the line %0d, received %0d", send_n,
             s_axis_tvalid && !s_axis_tready, mac_beats, starts, got_n);
  endtask

  int quiet, last_got;
  initial begin
    packets = 1000;
    length = 8192;
    seed = 1;
    void'($value$plusargs("packets=%d", packets));
    void'($value$plusargs("length=%d", length));
    void'($value$plusargs("user=%d", user_pause));
    void'($value$plusargs("mac=%d", mac_pause));
    void'($value$plusargs("sink=%d", sink_pause));
    void'($value$plusargs("checksum=%d", checksum));
    void'($value$plusargs("seed=%d", seed));
    share_sink = sink_pause;
    draw_user = 32'h1234_5671 ^ 32'(seed * 7919);
    draw_mac = 32'h8765_4321 ^ 32'(seed * 104729);
    draw_sink = 32'h0badc0de ^ 32'(seed * 1299709);

    repeat (20) @(posedge axi_clk);
    rst = 0;
    repeat (100) @(posedge axi_clk);
    register_write(regs_pkg::REG_MAC_HIGH, {16'd0, MAC[47:32]});
    register_write(regs_pkg::REG_MAC_LOW, MAC[31:0]);
    register_write(regs_pkg::REG_IP, IP);
    register_write(regs_pkg::REG_NETMASK, 32'hffff_ff00);
    register_write(regs_pkg::REG_PORT, {16'hffff, 16'd7148});
    register_write(regs_pkg::MEM_ARP + 16'd8 * 16'(IP[7:0]), {16'd0, MAC[47:32]});
    register_write(regs_pkg::MEM_ARP + 16'd8 * 16'(IP[7:0]) + 16'd4, MAC[31:0]);
    register_write(regs_pkg::REG_CONTROL, checksum != 0 ? 32'd3 : 32'd1);
    go = 1;

    quiet = 0;
    last_got = 0;
    while (got_n < packets) begin
      repeat (1000) @(posedge clk);
      quiet = got_n == last_got ? quiet + 1 : 0;
      last_got = got_n;
      if (quiet == 200) begin
        report();
        $fatal(1, "nothing received for 200000 clocks, after %0d packets of %0d", got_n, packets);
      end
    end
    repeat (500) @(posedge clk);
    if (got_n != packets || m_axis_tvalid) $fatal(1, "more packets received than sent");
    expect_register("tx_packets", regs_pkg::REG_TX_PACKETS, packets);
    expect_register("rx_packets", regs_pkg::REG_RX_PACKETS, packets);
    expect_register("rx_overflow", regs_pkg::REG_RX_OVERFLOW, 0);
    expect_register("bad_frames", regs_pkg::REG_RX_BAD, 0);
    expect_register("phy_status", regs_pkg::REG_PHY_STATUS, 1);
    if (overrun || idle_beats < 0) $fatal(1, "the MAC lost frames");

    $display("width=%0d packets=%0d bytes=%0d mac_beats=%0d idle_beats=%0d beats_least=%0d beats_most=%0d", WIDTH, packets,
             got_bytes, mac_beats, idle_beats, beats_least, beats_most);
    // Payload between the first and the last start on the line: whole packets over the time that they took there.
    if (length > 0)
      $display("wire_gbps=%0.3f", real'(starts - 1) * real'(length) * 8.0 / (real'(last_start - first_start) * PERIOD));
    $finish;
  end

endmodule
