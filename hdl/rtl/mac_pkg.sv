// SPDX-License-Identifier: BSD-3-Clause
// What the behavioural MAC's two directions share: characters of the wire and the CRC of Ethernet.
`default_nettype none

/* verilator lint_off UNUSEDPARAM */
package mac_pkg;

  // Control characters (wire_ctrl bit set), as on XGMII.
  localparam logic [7:0] CHAR_IDLE      = 8'h07;
  localparam logic [7:0] CHAR_SEQUENCE  = 8'h9c;
  localparam logic [7:0] CHAR_START     = 8'hfb;
  localparam logic [7:0] CHAR_TERMINATE = 8'hfd;
  localparam logic [7:0] CHAR_ERROR     = 8'hfe;

  // Start, six bytes 55, start-of-frame delimiter d5; the first byte is the least significant.
  localparam logic [63:0] PREAMBLE = 64'hd555_5555_5555_55fb;

  localparam int MIN_GAP = 12;  // bytes between frames, on average; the terminate character counts

  // Register after one more byte (reflected CRC-32, polynomial 04c11db7; starts at all ones, sent complemented).
  function automatic logic [31:0] crc_byte(input logic [31:0] crc, input logic [7:0] data);
    crc_byte = crc ^ {24'd0, data};
    for (int i = 0; i < 8; i++) crc_byte = (crc_byte >> 1) ^ (crc_byte[0] ? 32'hedb8_8320 : 32'd0);
  endfunction

  // Register's value after a good frame and its FCS.
  localparam logic [31:0] CRC_RESIDUE = 32'hdebb_20e3;

endpackage
/* verilator lint_on UNUSEDPARAM */

`default_nettype wire
