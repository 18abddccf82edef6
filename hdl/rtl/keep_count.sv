// SPDX-License-Identifier: BSD-3-Clause
// How many bytes a beat has: the number of ones in tkeep, which is contiguous from byte 0.
//
// Contract: combinational, four LUTs deep at 128 bytes; `count` means nothing if tkeep has a gap. Latency: 0 cycles.
//
// How: with count c, keep[n] says whether c > n. Bit b of c is set if c lies between an odd multiple of 2^b and the multiple
// behind it, hence one pair of tkeep's bits for each odd multiple, and an OR. A count from the first 0 on, one
// byte after the other, would be a chain as long as tkeep.
`default_nettype none

module keep_count #(
    parameter int KEEP = 128  // bytes a beat, a power of two
) (
    input  wire  [KEEP-1:0]       keep,
    output logic [$clog2(KEEP):0] count
);

  localparam int KB = $clog2(KEEP);

  always_comb begin
    count = '0;
    count[KB] = keep[KEEP-1];
    for (int b = 0; b < KB; b++)
      for (int at = 1 << b; at < KEEP; at += 2 << b)
        count[b] = count[b] | (keep[at-1] && !keep[at+(1<<b)-1]);
  end

endmodule

`default_nettype wire
