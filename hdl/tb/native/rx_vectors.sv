// SPDX-License-Identifier: BSD-3-Clause
// Replays frames from a file into rx_path and checks every decision and every byte that comes out.
//
// rx_vectors.py writes the file: rows of 128 bytes, last byte first, so that byte n of a row lies at bits [8n+7:8n]. The first
// row holds the settings, then each frame has a row of fields, its own rows, and those of the payload that must come out.
// +vectors=FILE; +gaps=P pauses the input in P of 256 cycles (also inside frames), +waits=P the output.
`default_nettype none
/* verilator lint_off PROCASSINIT */  // a bench may start from declarations

module rx_vectors #(
    parameter int WIDTH = 1024,
    parameter int ROWS  = 1 << 20
) ();

  localparam int KEEP = WIDTH / 8;
  localparam int PART = 1024 / WIDTH;  // beats in a row

  logic [1023:0] file[0:ROWS-1];

  logic clk = 1'b0, app_clk = 1'b0, rst = 1'b1;
  always #1.28 clk = !clk;
  always #1.2 app_clk = !app_clk;

  // ---- settings: row 0 -------------------------------------------------------------------------------------------------------

  wire [1023:0] set = file[0];
  wire [31:0] frames_in_file = set[31:0];

  // ---- a frame's row of fields -----------------------------------------------------------------------------------------------

  function automatic int frame_bytes(input int row); frame_bytes = {16'd0, file[row][15:0]}; endfunction
  function automatic int payload_bytes(input int row); payload_bytes = {16'd0, file[row][31:16]}; endfunction
  function automatic logic [3:0] verdict(input int row); verdict = file[row][35:32]; endfunction
  function automatic logic marked_bad(input int row); marked_bad = file[row][40]; endfunction
  function automatic int rows(input int bytes); rows = (bytes + 127) / 128; endfunction
  function automatic int next(input int row);
    next = row + 1 + rows(frame_bytes(row)) + rows(payload_bytes(row));
  endfunction

  // ---- device ----------------------------------------------------------------------------------------------------------------

  logic [WIDTH-1:0] s_data, m_data;
  logic [KEEP-1:0] s_keep, m_keep;
  logic s_valid = 1'b0, s_last, s_user, m_valid, m_last;
  logic m_ready = 1'b0;
  logic [15:0] m_length, m_src_port, m_dst_port;
  logic [31:0] m_src_ip, m_dst_ip;
  logic rx_frame, rx_stored, rx_overflow, cpu_stored, cpu_full, echo_stored, echo_full, query_valid, pause_valid;
  logic [9:0] rx_drop;
  logic [15:0] rx_stored_bytes;

  rx_path #(.WIDTH(WIDTH)) path (
      .clk, .rst, .enable(1'b1),
      .own_mac(set[64+:48]), .own_ip(set[128+:32]), .netmask(set[160+:32]), .group(set[192+:32]), .group_mask(set[224+:32]),
      .port(set[256+:16]), .port_mask(set[272+:16]), .promiscuous(set[288]), .accept_vlan(set[289]), .cpu_ports(set[290]),
      .answer_ping(set[291]), .igmp(set[292]), .ttl(8'd64),
      .s_axis_tdata(s_data), .s_axis_tkeep(s_keep), .s_axis_tvalid(s_valid), .s_axis_tlast(s_last), .s_axis_tuser(s_user),
      .app_clk, .app_rst(rst),
      .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid), .m_axis_tready(m_ready), .m_axis_tlast(m_last),
      .m_length, .m_src_ip, .m_src_port, .m_dst_ip, .m_dst_port,
      .arp_valid(), .arp_request(), .arp_sender_mac(), .arp_sender_ip(), .arp_target_ip(),
      .query_valid, .query_max(), .query_group(), .pause_valid, .pause_quanta(),
      .echo_axis_tdata(), .echo_axis_tkeep(), .echo_axis_tvalid(), .echo_axis_tready(1'b1), .echo_axis_tlast(),
      .cpu_bytes_ready(), .cpu_free(1'b0), .cpu_read_word(11'd0), .cpu_read_data(),
      .rx_frame, .rx_drop, .rx_stored, .rx_stored_bytes, .rx_overflow, .rx_almost_full(), .cpu_stored, .cpu_full, .echo_stored, .echo_full
  );

  // ---- frames in ---------------------------------------------------------------------------------------------------------------

  string path_name;
  int gaps = 0, waits = 0, fd, got;
  initial begin
    if (!$value$plusargs("vectors=%s", path_name)) $fatal(1, "+vectors=FILE is missing");
    void'($value$plusargs("gaps=%d", gaps));
    void'($value$plusargs("waits=%d", waits));
    fd = $fopen(path_name, "rb");
    if (fd == 0) $fatal(1, "cannot open %s", path_name);
    got = $fread(file, fd);
    $fclose(fd);
    if (got <= 128 || got >= ROWS * 128) $fatal(1, "%s has %0d bytes: empty, or more than ROWS rows", path_name, got);
    #40 rst = 1'b0;
  end

  int in_row = 1, in_at = 0, in_count = 0, beats = 0, idle = 0;
  wire [31:0] in_left = frame_bytes(in_row) - in_at;

  always @(posedge clk)
    if (!rst) begin
      if (in_count == frames_in_file || $urandom_range(255) < gaps) s_valid <= 1'b0;
      else begin
        s_valid <= 1'b1;
        s_data  <= file[in_row+1+in_at/128][(in_at/KEEP%PART)*WIDTH+:WIDTH];
        s_keep  <= in_left >= KEEP ? '1 : {KEEP{1'b1}} >> (KEEP - in_left);
        s_last  <= in_left <= KEEP;
        s_user  <= in_left <= KEEP && marked_bad(in_row);
        beats   <= beats + 1;
        in_at   <= in_at + KEEP;
        if (in_left <= KEEP) begin
          in_at    <= 0;
          in_row   <= next(in_row);
          in_count <= in_count + 1;
        end
      end
      idle <= in_count == frames_in_file ? idle + 1 : 0;
    end

  // ---- decisions: each frame one event, frames of a kind in order -----------------------------------------------------------

  int drop_row = 1, drop_count = 0;    // next frame that is not for the application
  int store_row = 1, store_count = 0;  // next that is

  function automatic int seek(input int row, input int count, input logic app);  // from this row on
    int r, c;
    r = row;
    c = count;
    while (c < frames_in_file && (verdict(r) == rx_pkg::VERDICT_APP) != app) begin
      r = next(r);
      c = c + 1;
    end
    seek = r;
  endfunction

  // Frames are counted with the rows passed, so that the end is known.
  int seen = 0;
  int by_verdict[0:14] = '{default: 0};

  // Events of all kinds at the time of the latest, echo's.
  logic [9:0] dropped;
  logic to_cpu, no_cpu, queried, paused, queried_1, paused_1;
  always @(posedge clk) begin
    {dropped, to_cpu, no_cpu} <= {rx_drop, cpu_stored, cpu_full};
    {queried, queried_1, paused, paused_1} <= {queried_1, query_valid, paused_1, pause_valid};
  end
  wire [15:0] events = {1'b0, paused, queried, echo_stored || echo_full, 1'b0, to_cpu || no_cpu, dropped};

  always @(posedge clk)
    if (!rst) begin
      if (rx_overflow) $fatal(1, "the application's FIFO overflowed");
      if ($countones(events) > 1) $fatal(1, "two decisions in one cycle: %b", events);
      if (events != 0) begin
        automatic int row = seek(drop_row, drop_count, 1'b0);
        automatic logic [3:0] v = verdict(row);
        if (!events[v]) $fatal(1, "frame at row %0d must get verdict %0d and got %b", row, v, events);
        by_verdict[v] <= by_verdict[v] + 1;
        drop_row   <= next(row);
        drop_count <= drop_count + 1;
      end
      if (rx_stored) begin
        automatic int row = seek(store_row, store_count, 1'b1);
        if (rx_stored_bytes != file[row][15:0]) $fatal(1, "row %0d: stored %0d bytes", row, rx_stored_bytes);
        by_verdict[rx_pkg::VERDICT_APP] <= by_verdict[rx_pkg::VERDICT_APP] + 1;
        store_row   <= next(row);
        store_count <= store_count + 1;
      end
      seen <= seen + (rx_frame ? 1 : 0);
    end

  // ---- payloads out ------------------------------------------------------------------------------------------------------------

  int out_row = 1, out_at = 0, out_packets = 0;
  longint out_bytes = 0;

  always @(posedge app_clk)
    if (!rst) begin
      m_ready <= $urandom_range(255) >= waits;
      if (m_valid && m_ready) begin
        automatic int row = out_at == 0 ? seek(out_row, 0, 1'b1) : out_row;
        automatic int left = payload_bytes(row) - out_at;
        automatic logic [WIDTH-1:0] want = file[row+1+rows(frame_bytes(row))+out_at/128][(out_at/KEEP%PART)*WIDTH+:WIDTH];
        automatic logic [KEEP-1:0] keep = left >= KEEP ? '1 : {KEEP{1'b1}} >> (KEEP - left);
        automatic logic [WIDTH-1:0] mask;
        automatic int kept = left >= KEEP ? KEEP : left;
        for (int i = 0; i < KEEP; i++) mask[8*i+:8] = {8{keep[i]}};
        if (m_keep != keep || m_last != (left <= KEEP)) $fatal(1, "row %0d byte %0d: tkeep %h tlast %b", row, out_at, m_keep, m_last);
        if (((m_data ^ want) & mask) != '0) $fatal(1, "row %0d byte %0d: wrong payload %h", row, out_at, m_data);
        if ({m_length, m_src_ip, m_src_port, m_dst_ip, m_dst_port} !=
            {file[row][31:16], file[row][64+:32], file[row][96+:16], file[row][128+:32], file[row][160+:16]})
          $fatal(1, "row %0d: wrong sideband", row);
        out_bytes <= out_bytes + longint'(kept);
        if (left <= KEEP) begin
          out_packets <= out_packets + 1;
          out_row     <= next(row);
          out_at      <= 0;
        end else begin
          out_row <= row;
          out_at  <= out_at + KEEP;
        end
      end
    end

  always @(posedge clk)
    if (idle == 20000 || (idle > 100 && seen == frames_in_file && out_packets == store_count && !m_valid)) begin
      if (seen != frames_in_file || drop_count + store_count != frames_in_file || out_packets != store_count)
        $fatal(1, "%0d frames went in; %0d seen, %0d not for the application, %0d stored, %0d came out",
               frames_in_file, seen, drop_count, store_count, out_packets);
      $write("frames %0d beats %0d packets %0d payload %0d verdicts", seen, beats, out_packets, out_bytes);
      for (int i = 0; i < 15; i++) $write(" %0d", by_verdict[i]);
      $write("\n");
      $finish;
    end

endmodule

`default_nettype wire
