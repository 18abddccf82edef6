// SPDX-License-Identifier: BSD-3-Clause
// A digitizer's samples as a function of their index alone: a tone, and noise that all streams share.
//
// Sample n, an 8-bit signed number, is clamp(tone(n) >>> tone_shift + noise(n) >>> noise_shift, -127, 127), where
//     tone(n)  = round(127 cos(2 pi (n * tone_step mod 256) / 256)),           0 if tone_shift is 8
//     noise(n) = byte n mod 4, lowest first, of hash((n div 4 mod 2^30) ^ seed), 0 if noise_shift is 8
// and the hash is below (32-bit integers; multiplications are by constants with few ones, so that no DSP is needed).
// ryle.fpga.pattern computes the same in numpy. Streams that are to see the same noise later are given n less a delay.
//
// Contract: lane i of `samples` is sample index + i of the clock LATENCY enabled clocks before.
// Throughput: WIDTH/8 samples a clock. Latency: 9 enabled clocks.
`default_nettype none

module sample_pattern #(
  parameter int WIDTH = 1024,
  localparam int LANES = WIDTH / 8
) (
  input  wire logic             clk,
  input  wire logic             advance,     // everything stands still without it
  input  wire logic [31:0]      index,       // of lane 0
  input  wire logic [7:0]       tone_step,   // turns per sample, in 1/256; held while samples are made, as are these:
  input  wire logic [3:0]       tone_shift,
  input  wire logic [3:0]       noise_shift,
  input  wire logic [31:0]      seed,
  output logic [WIDTH-1:0]      samples
);
  // cos(2 pi i / 256) in byte i. A test compares it with the cosine.
  localparam logic [2047:0] COSINE = {
    256'h7f7f7f7e7e7e7d7d7c7b7a7a79787675747371706f6d6b6a68666462605e5c5a,
    256'h585553514e4c494744413f3c393633312e2b2825221f1c191613100c09060300,
    256'hfdfaf7f4f0edeae7e4e1dedbd8d5d2cfcdcac7c4c1bfbcb9b7b4b2afadaba8a6,
    256'ha4a2a09e9c9a9896959391908f8d8c8b8a888786868584838382828281818181,
    256'h81818182828283838485868687888a8b8c8d8f9091939596989a9c9ea0a2a4a6,
    256'ha8abadafb2b4b7b9bcbfc1c4c7cacdcfd2d5d8dbdee1e4e7eaedf0f4f7fafd00,
    256'h0306090c101316191c1f2225282b2e313336393c3f414447494c4e515355585a,
    256'h5c5e60626466686a6b6d6f70717374757678797a7a7b7c7d7d7e7e7e7f7f7f7f
  };
  logic [7:0] cosine[256];  // read only
  initial for (int n = 0; n < 256; n++) cosine[n] = COSINE[8*n+:8];
  localparam int WORDS = LANES / 4 + 1;  // one more, since lane 0 need not begin a word

  // A sum whose lower half is added in one clock and whose upper half takes the carry in the next.
  typedef struct packed {
    logic [15:0] high;
    logic        carry;
    logic [15:0] low;
  } split_t;

  function automatic split_t add(input logic [31:0] a, input logic [31:0] b);
    add.high = a[31:16] + b[31:16];
    {add.carry, add.low} = {1'b0, a[15:0]} + {1'b0, b[15:0]};
  endfunction

  function automatic logic [31:0] whole(input split_t x);
    whole = {x.high + 16'(x.carry), x.low};
  endfunction

  // Three numbers to two of the same sum.
  function automatic split_t add3(input logic [31:0] a, input logic [31:0] b, input logic [31:0] c);
    add3 = add(a ^ b ^ c, ((a & b) | (a & c) | (b & c)) << 1);
  endfunction

  // A word's hash: four steps, each a sum and an exclusive or. The first and the last add numbers that hardly overlap.
  function automatic logic [31:0] mixed(input logic [31:0] sum, input int shift);
    mixed = sum ^ (sum >> shift);
  endfunction

  function automatic logic signed [7:0] scaled(input logic signed [7:0] value, input logic [3:0] shift);
    scaled = shift >= 4'd8 ? 8'sd0 : value >>> shift[2:0];
  endfunction

  // Noise: hashed, then the bytes are moved so that lane 0 is its own.
  logic [6:0][1:0]     offset;
  logic [WORDS*32-1:0] words;
  genvar w, i;
  generate
    for (w = 0; w < WORDS; w = w + 1) begin : g_word
      logic [31:0] k0, k1, k2, k3, k4;
      split_t      sum2, sum3;
      always_ff @(posedge clk) if (advance) begin
        k0 <= (({2'b00, index[31:2]} + 32'(w)) & 32'h3FFF_FFFF) ^ seed;
        k1 <= mixed(~k0 + (k0 << 15), 12);
        sum2 <= add(k1, k1 << 2);
        k2 <= mixed(whole(sum2), 4);
        sum3 <= add3(k2, k2 << 3, k2 << 11);
        k3 <= mixed(whole(sum3), 16);
        k4 <= mixed(k3 + (k3 << 13), 15);
      end
      assign words[32*w+:32] = k4;
    end
  endgenerate
  always_ff @(posedge clk) if (advance) offset <= {offset[5:0], index[1:0]};
  logic [WIDTH-1:0] noise;
  assign noise = WIDTH'(words >> {offset[6], 3'b000});

  // Tone: the phase of lane 0 is multiplied out, the other lanes are ahead of it by constants.
  logic [5:0][7:0] phase;
  always_ff @(posedge clk) if (advance) phase <= {phase[4:1], 8'(phase[0] * tone_step), index[7:0]};

  generate
    for (i = 0; i < LANES; i = i + 1) begin : g_lane
      logic [7:0]        ahead, at;
      logic signed [7:0] tone, a_tone, a_noise, sample;
      logic signed [8:0] sum;
      always_ff @(posedge clk) if (advance) begin
        ahead <= 8'(8'(i) * tone_step);
        at <= phase[5] + ahead;
        a_tone <= scaled(tone, tone_shift);
        a_noise <= scaled(noise[8*i+:8], noise_shift);
        sample <= sum > 9'sd127 ? 8'sd127 : sum < -9'sd127 ? -8'sd127 : sum[7:0];
      end
      assign tone = cosine[at];
      assign sum = 9'(a_tone) + 9'(a_noise);
      assign samples[8*i+:8] = sample;
    end
  endgenerate
endmodule

`default_nettype wire
