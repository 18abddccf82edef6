// SPDX-License-Identifier: BSD-3-Clause
// Next hops: which MAC address a packet to an IPv4 address goes to.
//
// Contract of the lookup: one a cycle. Latency: 4 cycles from `lookup_*` to `result_*`. The next hop is the address itself
// if it lies in the own subnet, else the gateway: it finds the MAC address, the packet's destination stays what it is. A
// multicast address needs no table (RFC 1112), nor does a broadcast (255.255.255.255, or of the own subnet).
//
// The table has 256 entries, direct-mapped by the last octet of the next hop, with the whole address as tag: hosts of a /24 never
// collide; in a larger subnet two that share an octet push each other out. Entries do not age: they change when
// somebody says so. A miss raises `request_*` for the next hop, at most one a millisecond for an entry; it waits for
// `request_ready`, and misses meanwhile raise none (they come again with the next packet).
//
// Access port: `access_valid` waits for `access_ready`, which comes with the result of a read. Learning has its own port of the
// same kind and yields to it; `learn_known_only` changes an address that is in the table, and adds none.
// After reset, and after `clear`, the table is empty once 256 cycles have passed; until then all lookups miss.
`default_nettype none

module arp_table #(
    parameter int CLOCK_HZ = 390625000
) (
    input  wire         clk,
    input  wire         rst,

    input  wire  [31:0] own_ip,
    input  wire  [31:0] netmask,
    input  wire  [31:0] gateway,

    input  wire         lookup_valid,
    input  wire  [31:0] lookup_ip,
    output logic        result_valid,
    output logic        result_hit,
    output logic [47:0] result_mac,

    output logic        request_valid,
    output logic [31:0] request_ip,
    input  wire         request_ready,

    input  wire         learn_valid,
    input  wire         learn_known_only,
    input  wire  [31:0] learn_ip,
    input  wire  [47:0] learn_mac,
    output logic        learn_ready,

    input  wire         clear,
    input  wire         access_valid,
    input  wire         access_write,
    input  wire  [31:0] access_ip,
    input  wire  [47:0] access_mac,
    output logic        access_ready,
    output logic        access_used,       // read: the entry holds something,
    output logic [31:0] access_entry_ip,   //       for this address,
    output logic [47:0] access_entry_mac,
    output logic        clearing
);

  localparam int ENTRY = 1 + 32 + 48;  // {used, address, MAC}

  logic [ENTRY-1:0] table_lookup[0:255];  // written alike, each with a read port of its own
  logic [ENTRY-1:0] table_access[0:255];
  logic             write;
  logic [7:0]       write_index;
  logic [ENTRY-1:0] write_entry;

  always_ff @(posedge clk) if (write) table_lookup[write_index] <= write_entry;
  always_ff @(posedge clk) if (write) table_access[write_index] <= write_entry;

  // ---- lookup ---------------------------------------------------------------------------------------------------------------

  logic [3:0]       valid_at;
  logic [31:0]      ip_1, hop_2, hop_3, hop_4;
  logic             local_1, group_1, broadcast_1, group_2, broadcast_2, group_3, broadcast_3;
  logic [22:0]      group_mac_2, group_mac_3;
  logic [ENTRY-1:0] entry_3;
  wire              found_3 = entry_3[80] && entry_3[79:48] == hop_3 && !clearing;
  logic             missed_4;

  always_ff @(posedge clk) begin
    valid_at    <= {valid_at[2:0], lookup_valid};
    // 1: kinds of addresses
    ip_1        <= lookup_ip;
    local_1     <= ((lookup_ip ^ own_ip) & netmask) == 32'd0;
    group_1     <= eth_pkg::is_multicast(lookup_ip);
    broadcast_1 <= lookup_ip == 32'hffff_ffff || (((lookup_ip ^ own_ip) & netmask) == 32'd0 &&
                   (lookup_ip | netmask) == 32'hffff_ffff && netmask[1:0] == 2'b00);
    // 2: next hop
    hop_2       <= local_1 ? ip_1 : gateway;
    group_2     <= group_1;
    broadcast_2 <= broadcast_1;
    group_mac_2 <= ip_1[22:0];
    // 3: entry
    entry_3     <= table_lookup[hop_2[7:0]];
    hop_3       <= hop_2;
    group_3     <= group_2;
    broadcast_3 <= broadcast_2;
    group_mac_3 <= group_mac_2;
    // 4: result
    result_hit  <= group_3 || broadcast_3 || found_3;
    result_mac  <= group_3 ? eth_pkg::multicast_mac({9'd0, group_mac_3}) : broadcast_3 ? eth_pkg::MAC_BROADCAST : entry_3[47:0];
    missed_4    <= valid_at[2] && !(group_3 || broadcast_3 || found_3) && hop_3 != 32'd0;
    hop_4       <= hop_3;
    if (rst) begin
      valid_at <= '0;
      missed_4 <= 1'b0;
    end
  end

  assign result_valid = valid_at[3];

  // ---- requests: not more often than the stamp of the entry's last one allows -----------------------------------------------

  localparam int TICK = CLOCK_HZ / 1000 > 0 ? CLOCK_HZ / 1000 : 1;  // cycles in a millisecond

  logic [8:0]  stamps[0:255];  // {used, millisecond}
  logic [8:0]  stamp;
  logic [31:0] tick_count, miss_ip;
  logic [7:0]  now;
  logic        miss_1, miss_2;
  wire  [7:0]  age = now - stamp[7:0];
  wire         raise = miss_2 && (!stamp[8] || age >= 8'd2);  // two ticks apart: at least one whole millisecond

  always_ff @(posedge clk) begin
    if (clearing) stamps[write_index] <= 9'd0;
    else if (raise) stamps[miss_ip[7:0]] <= {1'b1, now};
  end

  always_ff @(posedge clk) begin
    tick_count <= tick_count + 1'b1;
    if (tick_count == 32'(TICK - 1)) begin
      tick_count <= 32'd0;
      now        <= now + 1'b1;
    end
    miss_1 <= missed_4 && !miss_1 && !miss_2 && !request_valid && !clearing;
    if (!miss_1 && !miss_2) miss_ip <= hop_4;
    stamp  <= stamps[miss_ip[7:0]];
    miss_2 <= miss_1;
    if (request_ready) request_valid <= 1'b0;
    if (raise) begin
      request_valid <= 1'b1;
      request_ip    <= miss_ip;
    end
    if (rst) begin
      tick_count    <= 32'd0;
      now           <= 8'd0;
      miss_1        <= 1'b0;
      miss_2        <= 1'b0;
      request_valid <= 1'b0;
    end
  end

  // ---- access and learning: read the entry, then write it ---------------------------------------------------------------------

  localparam logic [1:0] IDLE = 2'd0, READ = 2'd1, USE = 2'd2, CLEAR = 2'd3;

  logic [1:0]       state;
  logic             learning;
  logic [7:0]       count;
  logic [ENTRY-1:0] entry;

  wire [31:0] chosen_ip = learning ? learn_ip : access_ip;
  wire known = entry[80] && entry[79:48] == learn_ip;

  assign access_ready     = state == USE && !learning;
  assign learn_ready      = state == USE && learning;
  assign access_used      = entry[80];
  assign access_entry_ip  = entry[79:48];
  assign access_entry_mac = entry[47:0];
  assign clearing         = state == CLEAR;
  assign write            = clearing || (access_ready && access_write) || (learn_ready && (known || !learn_known_only));
  assign write_index      = clearing ? count : chosen_ip[7:0];
  assign write_entry      = clearing ? '0 : {1'b1, chosen_ip, learning ? learn_mac : access_mac};

  always_ff @(posedge clk) begin
    entry <= table_access[chosen_ip[7:0]];
    count <= count + 1'b1;
    case (state)
      IDLE: begin
        learning <= !access_valid;
        if (access_valid || learn_valid) state <= READ;
      end
      READ: state <= USE;
      USE: state <= IDLE;
      default: if (count == 8'hff) state <= IDLE;
    endcase
    if (rst || clear) begin
      state <= CLEAR;
      count <= 8'd0;
    end
  end

endmodule

`default_nettype wire
