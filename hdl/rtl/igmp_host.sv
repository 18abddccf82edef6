// SPDX-License-Identifier: BSD-3-Clause
// An IGMPv2 host (RFC 2236): keeps switches and routers sending the groups that the core receives.
//
// Contract: while `enable` and `igmp` are on, the core is a member of all groups that equal `group` in the bits that are 1 in
// `group_mask`, if `group` is a multicast address and the upper 22 bits of the mask are 1 (1024 groups at most; more are not joined).
// `joined` says so. A change of these settings counts once it has stood for 64 ms, since two registers are written one after the other.
//   joining      each group is reported at once, and twice again, 0.3 to 0.7 s after the time before
//   a query      to all (group 0) or for one of ours: reported after a random delay of 0 to 63 % of the response time
//   leaving      a leave for each group; none if `enable` is off, as then nothing is sent
// Reports go one a millisecond, so that no switch has to take a burst of them. 224.0.0.1 is never reported. A report of another
// host does not stop ours, as a switch that snoops wants one from each port. A query while another is awaited moves the reports
// forward if its response time is shorter, never back, and if they ask for different groups all are reported.
//
// Queriers of version 3 ask in the same words, longer, and take reports of version 2 (RFC 3376, 7.3.2). Response codes over 127 mean
// longer times there than here, so that we answer early. A response time of 0 (version 1) is taken for 10 s; who asks so knows no
// report of version 2, and is not answered in his own.
// `report_*` waits for `report_ready`. A millisecond has CLOCK_HZ / 1000 cycles. Latency: to the next millisecond.
`default_nettype none

module igmp_host #(
    parameter int CLOCK_HZ = 390625000
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         enable,
    input  wire         igmp,
    input  wire  [5:0]  seed,        // differs from board to board
    input  wire  [31:0] group,
    input  wire  [31:0] group_mask,

    input  wire         query_valid,
    input  wire  [7:0]  query_max,   // tenths of a second
    input  wire  [31:0] query_group,

    output logic        report_valid,
    output logic        report_leave,
    output logic [31:0] report_group,
    input  wire         report_ready,

    output logic        joined,
    output logic        busy         // a report or leave is still to come
);

  localparam int TICK = CLOCK_HZ / 1000 > 0 ? CLOCK_HZ / 1000 : 1;  // cycles in a millisecond
  localparam int FREE = 10;                                         // low bits of a mask that may be 0
  localparam logic [7:0] V1_MAX = 8'd100, REPEAT_MAX = 8'd10;

  // ---- milliseconds, and chance -----------------------------------------------------------------------------------------------

  logic [31:0] tick_count;
  logic        tick;
  logic [15:0] shift = 16'h5279;
  wire  [5:0]  chance = shift[5:0] ^ seed;

  always_ff @(posedge clk) begin
    tick       <= tick_count == 32'(TICK - 1) && !rst;
    tick_count <= (rst || tick_count == 32'(TICK - 1)) ? 32'd0 : tick_count + 1'b1;
    shift      <= {shift[14:0], shift[15] ^ shift[13] ^ shift[12] ^ shift[10]};
  end

  // ---- what is wanted, once it stands ---------------------------------------------------------------------------------------------

  logic        wanted, changes, differs, settled;
  logic [31:0] want_group, want_mask;
  logic [6:0]  stood;  // milliseconds

  logic [31:0] joined_group, joined_mask;

  always_ff @(posedge clk) begin
    changes <= want_group != (group & group_mask) || want_mask != group_mask ||
               wanted != (igmp && eth_pkg::is_multicast(group) && &group_mask[31:FREE]);
    differs <= !wanted || joined_group != want_group || joined_mask != want_mask;
    settled <= stood[6] && !changes;
    if (tick) begin
      want_group <= group & group_mask;
      want_mask  <= group_mask;
      wanted     <= igmp && eth_pkg::is_multicast(group) && &group_mask[31:FREE];
      stood      <= changes ? 7'd0 : stood[6] ? stood : stood + 1'b1;
    end
    if (rst) begin
      wanted     <= 1'b0;
      want_group <= 32'd0;
      want_mask  <= 32'd0;
      changes    <= 1'b0;
      differs    <= 1'b0;
      stood      <= 7'd0;
      settled    <= 1'b0;
    end
  end

  // ---- queries ------------------------------------------------------------------------------------------------------------------

  logic        asked, asked_all;
  logic [31:0] asked_group;
  logic [7:0]  asked_max;

  always_ff @(posedge clk) begin
    asked       <= query_valid && !rst && (query_group == 32'd0 || ((query_group ^ joined_group) & joined_mask) == 32'd0);
    asked_all   <= query_group == 32'd0;
    asked_group <= query_group;
    asked_max   <= query_max == 8'd0 ? V1_MAX : query_max;
  end

  // ---- membership -----------------------------------------------------------------------------------------------------------------

  // The timer runs for `outer` times `due_max` milliseconds: up to 63 hundredths of the time that was allowed.
  logic        due, due_all;  // reports are due when the timer has run down
  logic [31:0] due_group;
  logic [7:0]  due_max, inner;
  logic [5:0]  outer;

  logic        walking, leaving, single;  // one report a tick: of all groups, or of one
  logic [31:0] at;
  logic [1:0]  repeats;

  // The next group: the free bits count up, the others pass the carry on.
  wire [FREE-1:0] mask_low = joined_mask[FREE-1:0];
  wire [FREE:0]   counted  = {1'b0, at[FREE-1:0] | mask_low} + 1'b1;
  wire            end_of_walk = single || counted[FREE];

  assign busy = due || walking || report_valid || repeats != 2'd0 || !settled || (enable && differs && (joined || wanted));

  always_ff @(posedge clk) begin
    if (report_ready) report_valid <= 1'b0;

    if (tick && walking && !report_valid) begin
      report_valid <= at != eth_pkg::IP_ALL_HOSTS;
      report_leave <= leaving;
      report_group <= at;
      at[FREE-1:0] <= (counted[FREE-1:0] & ~mask_low) | (at[FREE-1:0] & mask_low);
      walking      <= !end_of_walk;
      if (end_of_walk && leaving) joined <= 1'b0;
      if (end_of_walk && !leaving && repeats != 2'd0 && !due) begin
        repeats <= repeats - 1'b1;
        due     <= 1'b1;
        due_all <= 1'b1;
        due_max <= REPEAT_MAX;
        outer   <= {1'b1, chance[4:0]};
        inner   <= REPEAT_MAX;
      end
    end

    if (tick && due && !walking) begin
      inner <= inner == 8'd1 ? due_max : inner - 1'b1;
      if (inner == 8'd1) outer <= outer - 1'b1;
      if (outer == 6'd0) begin
        due     <= 1'b0;
        walking <= 1'b1;
        leaving <= 1'b0;
        single  <= !due_all;
        at      <= due_all ? joined_group : due_group;
      end
    end

    if (asked && joined && !leaving) begin
      due       <= 1'b1;
      due_all   <= asked_all || (due && (due_all || due_group != asked_group));
      due_group <= asked_group;
      if (!due || asked_max < due_max) begin
        due_max <= asked_max;
        outer   <= chance;
        inner   <= asked_max;
      end
    end

    if (tick && settled && !walking && !report_valid) begin
      if (joined && differs) begin
        due     <= 1'b0;
        repeats <= 2'd0;
        walking <= 1'b1;
        leaving <= 1'b1;
        single  <= 1'b0;
        at      <= joined_group;
      end else if (!joined && wanted) begin
        joined       <= 1'b1;
        joined_group <= want_group;
        joined_mask  <= want_mask;
        due          <= 1'b0;
        repeats      <= 2'd2;
        walking      <= 1'b1;
        leaving      <= 1'b0;
        single       <= 1'b0;
        at           <= want_group;
      end
    end

    if (rst || !enable) begin
      joined  <= 1'b0;
      due     <= 1'b0;
      walking <= 1'b0;
      leaving <= 1'b0;
      repeats <= 2'd0;
    end
    if (rst) begin
      report_valid <= 1'b0;
      joined_group <= 32'd0;
      joined_mask  <= 32'd0;
    end
  end

endmodule

`default_nettype wire
