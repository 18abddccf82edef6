// SPDX-License-Identifier: BSD-3-Clause
// The core's registers on CASPER's map, behind AXI4-Lite. src/ryle/fpga/registers.toml is the map.
//
// Contract: registers live in `clk`; each access crosses there and back (axil_bridge), so all outputs are of `clk` and need
// no more. `clock_status` is answered in the AXI clock, and all others with SLVERR while `clk` stands. Byte strobes are obeyed everywhere. Addresses that mean nothing read 0. A counter's read holds its upper half for the
// read 0x100 further: the two are of one moment, whatever is read between. A write to bytes_ready with a length in its lower
// half sends the CPU's frame; one with both halves 0 frees the oldest received frame.
// ARP entries by the window at 0x1000: entry n is {own_ip[31:8], n}; its first word takes effect together with its
// second. ARP commands are done when the write is answered, but for clear, which takes 256 cycles (arp_status says).
// Extension: `ext_wr` or `ext_rd` pulses, and `ext_ack` answers within EXT_CYCLES, else the access ends in SLVERR.
// Latency: about 12 cycles of the slower clock.
`default_nettype none

module axil_regs #(
    parameter int WIDTH      = 1024,
    parameter int CLOCK_HZ   = 390625000,
    parameter int TX_APPS    = 1,
    parameter int CPU_TX     = 2048,  // bytes of the buffers
    parameter int CPU_RX     = 8192,
    parameter int EXT_CYCLES = 255
) (
    input  wire                s_axi_aclk,
    input  wire                s_axi_rst,
    input  wire  [15:0]        s_axi_awaddr,
    input  wire                s_axi_awvalid,
    output logic               s_axi_awready,
    input  wire  [31:0]        s_axi_wdata,
    input  wire  [3:0]         s_axi_wstrb,
    input  wire                s_axi_wvalid,
    output logic               s_axi_wready,
    output logic [1:0]         s_axi_bresp,
    output logic               s_axi_bvalid,
    input  wire                s_axi_bready,
    input  wire  [15:0]        s_axi_araddr,
    input  wire                s_axi_arvalid,
    output logic               s_axi_arready,
    output logic [31:0]        s_axi_rdata,
    output logic [1:0]         s_axi_rresp,
    output logic               s_axi_rvalid,
    input  wire                s_axi_rready,

    input  wire                clk,
    input  wire                rst,

    // Settings.
    output logic               enable,
    output logic               udp_checksum,
    output logic               accept_vlan,
    output logic               answer_arp,
    output logic               cpu_ports,
    output logic               answer_ping,
    output logic               igmp,
    output logic               honour_pause,
    output logic               promiscuous,
    output logic               soft_reset,
    output logic [47:0]        own_mac,
    output logic [31:0]        own_ip,
    output logic [31:0]        gateway,
    output logic [31:0]        netmask,
    output logic [31:0]        group,
    output logic [31:0]        group_mask,
    output logic [15:0]        port,
    output logic [15:0]        port_mask,
    output logic [7:0]         ttl,
    output logic [7:0]         tos,
    output logic               vlan_insert,
    output logic [15:0]        vlan_tci,
    output logic [63:0]        phy_control,
    input  wire  [63:0]        phy_status,
    input  wire                igmp_joined,

    // Events, of core_counters.
    input  wire                tx_packet,
    input  wire  [15:0]        tx_bytes,
    input  wire  [TX_APPS-1:0] tx_overflow,
    input  wire  [TX_APPS-1:0] tx_almost_full,
    input  wire  [TX_APPS-1:0] tx_oversize,
    input  wire                tx_no_arp,
    input  wire                rx_frame,
    input  wire  [9:0]         rx_drop,
    input  wire                rx_stored,
    input  wire  [15:0]        rx_stored_bytes,
    input  wire                rx_overflow,
    input  wire                rx_almost_full,
    input  wire                cpu_stored,
    input  wire                cpu_full,
    input  wire                echo_stored,
    input  wire                echo_full,
    input  wire                query_valid,
    input  wire                igmp_sent,
    input  wire                pause_valid,
    input  wire                tx_held,

    // ARP table.
    output logic               arp_clear,
    output logic               arp_access_valid,
    output logic               arp_access_write,
    output logic [31:0]        arp_access_ip,
    output logic [47:0]        arp_access_mac,
    input  wire                arp_access_ready,
    input  wire                arp_access_used,
    input  wire  [31:0]        arp_access_entry_ip,
    input  wire  [47:0]        arp_access_entry_mac,
    input  wire                arp_clearing,

    // CPU's buffers, by words: a read follows its address by one cycle (transmit), by two (receive).
    output logic               cpu_tx_write,
    output logic [10:0]        cpu_tx_word,
    output logic [31:0]        cpu_tx_write_data,
    input  wire  [31:0]        cpu_tx_read_data,
    output logic               cpu_tx_send,
    output logic [15:0]        cpu_tx_send_bytes,
    input  wire                cpu_tx_busy,
    output logic [10:0]        cpu_rx_word,
    input  wire  [31:0]        cpu_rx_read_data,
    input  wire  [15:0]        cpu_rx_bytes_ready,
    output logic               cpu_rx_free,

    // Extension.
    output logic               ext_wr,
    output logic               ext_rd,
    output logic [11:0]        ext_addr,
    output logic [31:0]        ext_wdata,
    input  wire  [31:0]        ext_rdata,
    input  wire                ext_ack
);

  localparam int KEEP = WIDTH / 8;

  logic        bus_valid, bus_write, bus_done, bus_error;
  logic [15:0] bus_addr;
  logic [31:0] bus_wdata, bus_rdata;
  logic [3:0]  bus_strb;

  axil_bridge #(.ADDRESS(16), .STATUS(32'(regs_pkg::REG_CLOCK_STATUS))) bridge (
      .s_axi_aclk, .s_axi_rst,
      .s_axi_awaddr, .s_axi_awvalid, .s_axi_awready, .s_axi_wdata, .s_axi_wstrb, .s_axi_wvalid, .s_axi_wready,
      .s_axi_bresp, .s_axi_bvalid, .s_axi_bready,
      .s_axi_araddr, .s_axi_arvalid, .s_axi_arready, .s_axi_rdata, .s_axi_rresp, .s_axi_rvalid, .s_axi_rready,
      .clk, .rst, .bus_valid, .bus_write, .bus_addr, .bus_wdata, .bus_strb, .bus_done, .bus_rdata, .bus_error
  );

  function automatic logic [31:0] merge(input logic [31:0] was, input logic [31:0] now, input logic [3:0] strobes);
    for (int i = 0; i < 4; i++) merge[8*i+:8] = strobes[i] ? now[8*i+:8] : was[8*i+:8];
  endfunction

  // ---- where an access goes -------------------------------------------------------------------------------------------------

  wire [15:0] address   = {bus_addr[15:2], 2'b00};
  wire        page_2    = address[15:8] == 8'h03 || address[15:8] == 8'h04;  // like page 0, which is full
  wire        page_core = address[15:9] == 7'd0 || page_2;  // registers and the upper halves of counters
  wire        to_upper  = page_2 ? !address[8] : address[8];
  wire [6:0]  word      = {page_2, address[7:2]};           // of a counter, either half
  wire        to_ext    = (address >= regs_pkg::EXT_FIRST && address <= regs_pkg::EXT_LAST) ||
                          address[15:8] == regs_pkg::EXT_PAGE[15:8];
  wire        to_arp    = address[15:11] == regs_pkg::MEM_ARP[15:11];
  wire        to_cpu_tx = address[15:13] == regs_pkg::MEM_CPU_TX[15:13];
  wire        to_cpu_rx = address[15:13] == regs_pkg::MEM_CPU_RX[15:13];

  // ---- settings ---------------------------------------------------------------------------------------------------------------

  logic [31:0] control, mac_low, arp_ip, arp_mac_low;
  logic [15:0] mac_high, arp_mac_high;
  logic [31:0] phy_control_high, phy_control_low;
  logic        arp_hit;
  logic [31:0] arp_entry_ip;

  assign enable       = control[regs_pkg::CONTROL_ENABLE];
  assign udp_checksum = control[regs_pkg::CONTROL_UDP_CHECKSUM];
  assign accept_vlan  = control[regs_pkg::CONTROL_ACCEPT_VLAN];
  assign answer_arp   = control[regs_pkg::CONTROL_ANSWER_ARP];
  assign cpu_ports    = control[regs_pkg::CONTROL_CPU_PORTS];
  assign answer_ping  = control[regs_pkg::CONTROL_ANSWER_PING];
  assign igmp         = control[regs_pkg::CONTROL_IGMP];
  assign honour_pause = control[regs_pkg::CONTROL_HONOUR_PAUSE];
  assign promiscuous  = control[regs_pkg::CONTROL_PROMISCUOUS];
  assign soft_reset   = control[regs_pkg::CONTROL_SOFT_RESET];
  assign own_mac      = {mac_high, mac_low};
  assign phy_control  = {phy_control_high, phy_control_low};

  logic [31:0] setting;  // what a setting reads; also what a strobed write is merged with; a cycle behind the address
  always_ff @(posedge clk)
    case (address)
      regs_pkg::REG_CORE_TYPE:        setting <= 32'h0101_0104;  // as CASPER's drivers take it
      regs_pkg::REG_BUFFER_SIZES:     setting <= {16'(CPU_RX), 16'(CPU_TX)};
      regs_pkg::REG_WORD_LENGTHS:     setting <= {16'(KEEP), 16'(KEEP)};
      regs_pkg::REG_MAC_HIGH:         setting <= {16'd0, mac_high};
      regs_pkg::REG_MAC_LOW:          setting <= mac_low;
      regs_pkg::REG_IP:               setting <= own_ip;
      regs_pkg::REG_GATEWAY:          setting <= gateway;
      regs_pkg::REG_NETMASK:          setting <= netmask;
      regs_pkg::REG_MULTICAST_IP:     setting <= group;
      regs_pkg::REG_MULTICAST_MASK:   setting <= group_mask;
      regs_pkg::REG_BYTES_READY:      setting <= {cpu_rx_bytes_ready, cpu_tx_busy ? cpu_tx_send_bytes : 16'd0};
      regs_pkg::REG_CONTROL:          setting <= control;
      regs_pkg::REG_PORT:             setting <= {port_mask, port};
      regs_pkg::REG_PHY_STATUS_HIGH:  setting <= phy_status[63:32];
      regs_pkg::REG_PHY_STATUS:       setting <= phy_status[31:0];
      regs_pkg::REG_PHY_CONTROL_HIGH: setting <= phy_control_high;
      regs_pkg::REG_PHY_CONTROL:      setting <= phy_control_low;
      regs_pkg::REG_ARP_SIZE:         setting <= 32'd256;
      regs_pkg::REG_ARP_IP:           setting <= arp_ip;
      regs_pkg::REG_ARP_MAC_HIGH:     setting <= {16'd0, arp_mac_high};
      regs_pkg::REG_ARP_MAC_LOW:      setting <= arp_mac_low;
      regs_pkg::REG_ARP_STATUS:       setting <= {30'd0, arp_hit, arp_clearing};
      regs_pkg::REG_ARP_ENTRY_IP:     setting <= arp_entry_ip;
      regs_pkg::REG_RYLE_VERSION:     setting <= 32'h5279_0001;
      regs_pkg::REG_TX_HEADER:        setting <= {16'd0, tos, ttl};
      regs_pkg::REG_TX_VLAN:          setting <= {15'd0, vlan_insert, vlan_tci};
      regs_pkg::REG_IGMP_STATUS:      setting <= {31'd0, igmp_joined};
      default:                        setting <= 32'd0;
    endcase

  wire [31:0] merged = merge(setting, bus_wdata, bus_strb);
  wire        low_written = bus_strb[1:0] != 2'b00;
  wire [31:0] strobed = merge(32'd0, bus_wdata, bus_strb);

  // ---- counters ---------------------------------------------------------------------------------------------------------------

  logic [15:0] counter_address;  // a cycle behind the address
  always_ff @(posedge clk) counter_address <= {page_2 ? 8'h03 : 8'h00, address[7:0]};

  logic        clear, found;
  logic [63:0] value;
  logic [31:0]  upper[0:127];  // halves held since the lower ones were read,
  logic [127:0] upper_held;    // if they were since reset
  logic [31:0]  upper_value;   // a cycle behind the address
  always_ff @(posedge clk) upper_value <= upper_held[word] ? upper[word] : 32'd0;

  core_counters #(.CLOCK_HZ(CLOCK_HZ), .TX_APPS(TX_APPS)) counters (
      .clk, .rst, .clear, .tx_packet, .tx_bytes, .tx_overflow, .tx_almost_full, .tx_oversize, .tx_no_arp,
      .rx_frame, .rx_drop, .rx_stored, .rx_stored_bytes, .rx_overflow, .rx_almost_full, .cpu_stored, .cpu_full,
      .echo_stored, .echo_full, .query_valid, .igmp_sent, .pause_valid, .tx_held,
      .address(counter_address), .value, .found
  );

  // ---- accesses, one at a time -----------------------------------------------------------------------------------------------

  localparam logic [2:0] IDLE = 3'd0, WAIT = 3'd1, CORE = 3'd2, BUFFER = 3'd3, ARP_READ = 3'd4, ARP_WRITE = 3'd5, EXT = 3'd6;

  logic [2:0]  state;
  logic [15:0] count;
  logic [15:0] entry_high;
  logic [31:0] entry_low;   // of the ARP entry to be written by the window
  logic [7:0]  high_index;  // the entry whose first word was written last
  logic [15:0] high_written;
  logic        high_pending;
  logic        arp_window, arp_writes;

  assign ext_addr          = address[11:0];
  assign ext_wdata         = strobed;
  assign cpu_tx_word       = address[12:2];
  assign cpu_tx_write_data = merge(cpu_tx_read_data, bus_wdata, bus_strb);
  assign cpu_rx_word       = address[12:2];

  wire [47:0] entry       = arp_access_used ? arp_access_entry_mac : 48'd0;
  wire [31:0] window_high = merge({16'd0, entry[47:32]}, bus_wdata, bus_strb);

  assign arp_access_valid = state == ARP_READ || state == ARP_WRITE;
  assign arp_access_write = state == ARP_WRITE;
  assign arp_access_ip    = arp_window ? {own_ip[31:8], address[10:3]} : arp_ip;
  assign arp_access_mac   = arp_window ? {entry_high, entry_low} : {arp_mac_high, arp_mac_low};

  always_ff @(posedge clk) begin
    bus_done     <= 1'b0;
    ext_wr       <= 1'b0;
    ext_rd       <= 1'b0;
    clear        <= 1'b0;
    arp_clear    <= 1'b0;
    cpu_tx_write <= 1'b0;
    cpu_tx_send  <= 1'b0;
    cpu_rx_free  <= 1'b0;

    case (state)
      IDLE: begin
        bus_rdata  <= 32'd0;
        bus_error  <= 1'b0;
        count      <= 16'd0;
        arp_window <= to_arp;
        arp_writes <= 1'b0;
        if (bus_valid) begin
          state <= to_arp ? ARP_READ : to_ext ? EXT : page_core ? WAIT : BUFFER;
          if (to_ext && !to_arp) begin
            ext_wr <= bus_write;
            ext_rd <= !bus_write;
          end
        end
      end

      // The register's value comes, and the counter's.
      WAIT: state <= CORE;

      CORE: begin
        state    <= IDLE;
        bus_done <= 1'b1;
        if (!bus_write) begin
          bus_rdata <= to_upper ? upper_value : found ? value[31:0] : setting;
          if (!to_upper && found) begin
            upper[word]      <= value[63:32];
            upper_held[word] <= 1'b1;
          end
        end else
          case (address)
            regs_pkg::REG_MAC_HIGH:         mac_high <= merged[15:0];
            regs_pkg::REG_MAC_LOW:          mac_low <= merged;
            regs_pkg::REG_IP:               own_ip <= merged;
            regs_pkg::REG_GATEWAY:          gateway <= merged;
            regs_pkg::REG_NETMASK:          netmask <= merged;
            regs_pkg::REG_MULTICAST_IP:     group <= merged;
            regs_pkg::REG_MULTICAST_MASK:   group_mask <= merged;
            regs_pkg::REG_CONTROL:          control <= merged;
            regs_pkg::REG_PORT:             {port_mask, port} <= merged;
            regs_pkg::REG_PHY_CONTROL_HIGH: phy_control_high <= merged;
            regs_pkg::REG_PHY_CONTROL:      phy_control_low <= merged;
            regs_pkg::REG_COUNTER_RESET:    clear <= strobed != 32'd0;
            regs_pkg::REG_ARP_IP:           arp_ip <= merged;
            regs_pkg::REG_TX_HEADER:        {tos, ttl} <= merged[15:0];
            regs_pkg::REG_TX_VLAN:          {vlan_insert, vlan_tci} <= merged[16:0];
            regs_pkg::REG_ARP_MAC_HIGH:     arp_mac_high <= merged[15:0];
            regs_pkg::REG_ARP_MAC_LOW:      arp_mac_low <= merged;
            regs_pkg::REG_BYTES_READY: begin
              if (low_written && strobed[15:0] != 16'd0) begin
                if (!cpu_tx_busy) begin
                  cpu_tx_send       <= 1'b1;
                  cpu_tx_send_bytes <= strobed[15:0];
                end
              end else if (bus_strb[3:2] == 2'b11 && strobed[31:16] == 16'd0) cpu_rx_free <= 1'b1;
            end
            regs_pkg::REG_ARP_COMMAND:
              case (strobed[1:0])
                2'd1: begin
                  bus_done <= 1'b0;
                  state    <= ARP_WRITE;
                end
                2'd2: begin
                  bus_done <= 1'b0;
                  state    <= ARP_READ;
                end
                2'd3: arp_clear <= 1'b1;
                default: ;
              endcase
            default: ;
          endcase
      end

      BUFFER: begin
        count <= count + 1'b1;
        if (count == 16'd2) begin
          state        <= IDLE;
          bus_done     <= 1'b1;
          bus_rdata    <= to_cpu_tx ? cpu_tx_read_data : to_cpu_rx ? cpu_rx_read_data : 32'd0;
          cpu_tx_write <= bus_write && to_cpu_tx;
        end
      end

      ARP_READ:
        if (arp_access_ready) begin
          state    <= IDLE;
          bus_done <= 1'b1;
          if (!arp_window) begin
            arp_hit                     <= arp_access_used && arp_access_entry_ip == arp_ip;
            arp_entry_ip                <= arp_access_entry_ip;
            {arp_mac_high, arp_mac_low} <= entry;
          end else if (!bus_write) bus_rdata <= address[2] ? entry[31:0] : {16'd0, entry[47:32]};
          else if (!address[2]) begin
            high_pending <= 1'b1;
            high_index   <= address[10:3];
            high_written <= window_high[15:0];
          end else begin
            state        <= ARP_WRITE;
            bus_done     <= 1'b0;
            high_pending <= 1'b0;
            entry_high   <= high_pending && high_index == address[10:3] ? high_written : entry[47:32];
            entry_low    <= merge(entry[31:0], bus_wdata, bus_strb);
          end
        end

      ARP_WRITE:
        if (arp_access_ready) begin
          state    <= IDLE;
          bus_done <= 1'b1;
        end

      default:  // EXT
        begin
          count <= count + 1'b1;
          if (ext_ack || count == 16'(EXT_CYCLES)) begin
            state     <= IDLE;
            bus_done  <= 1'b1;
            bus_rdata <= ext_ack ? ext_rdata : 32'd0;
            bus_error <= !ext_ack;
          end
        end
    endcase

    if (clear) upper_held <= '0;
    if (rst) begin
      upper_held        <= '0;
      state             <= IDLE;
      bus_done          <= 1'b0;
      ext_wr            <= 1'b0;
      ext_rd            <= 1'b0;
      // Drivers of CASPER's map do not know these, so the core answers unless told otherwise.
      control           <= 32'd1 << regs_pkg::CONTROL_ANSWER_ARP | 32'd1 << regs_pkg::CONTROL_ANSWER_PING |
                           32'd1 << regs_pkg::CONTROL_IGMP;
      ttl               <= eth_pkg::IP_TTL;
      tos               <= 8'd0;
      vlan_insert       <= 1'b0;
      vlan_tci          <= 16'd0;
      mac_high          <= 16'd0;
      mac_low           <= 32'd0;
      own_ip            <= 32'd0;
      gateway           <= 32'd0;
      netmask           <= 32'hffff_ff00;
      group             <= 32'd0;
      group_mask        <= 32'd0;
      port              <= 16'd0;
      port_mask         <= 16'hffff;
      phy_control_high  <= 32'd0;
      phy_control_low   <= 32'd0;
      arp_ip            <= 32'd0;
      arp_mac_high      <= 16'd0;
      arp_mac_low       <= 32'd0;
      arp_hit           <= 1'b0;
      high_pending      <= 1'b0;
      arp_entry_ip      <= 32'd0;
      cpu_tx_send_bytes <= 16'd0;
    end
  end

endmodule

`default_nettype wire
