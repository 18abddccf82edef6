// Where the spectra's windows lie: which samples each reads, whether all are there, and how it is to be turned.
//
// Spectra are worked on in groups of 128 that start at multiples of 16 since sync, so that a spectrum's arithmetic does
// not depend on the chunk it came in. Spectra of a group whose windows are a whole number of steps apart form a
// segment; as long as the coarse delay does not change there is one.
#include "passes.cuh"

// STEP: samples from one spectrum to the next; TAPS; PARTS: values of a sample, 2 if they are complex. A coarse delay
// of one sample turns the centre of a real band by a quarter.
constexpr int GROUP = 128, CLEAR = 256;
constexpr uint8_t NO_SEGMENT = 255;

// Set what is counted to zero: counters [streams][2], output_power [streams][channels] and the number of passes.
KERNEL(CLEAR, 1)
clear(uint64_t* __restrict__ counters, uint64_t* __restrict__ output_power, Pass* __restrict__ passes, int streams,
      int channels) {
    const int i = blockIdx.x * CLEAR + threadIdx.x;
    for (int64_t k = i; k < int64_t(streams) * channels; k += gridDim.x * CLEAR) output_power[k] = 0;
    for (int k = i; k < 2 * streams; k += gridDim.x * CLEAR) counters[k] = 0;
    if (i == 0) passes[0] = {};
}

// One block a group and stream.
// present [stream][packets]: 1 or 0. coarse, fine, phase [stream][spectra]: delays of the spectra asked for; spectrum 0
// of group 0 is number `before` of them (it may be negative). first_value: where it would start without delay, in
// values counted from the chunk's first.
// -> turns [stream][groups·8][2: these, those][2: even, odd][8], of tiles of 16 spectra: e^{i phase} (x, y; NaN if not
// valid),
//    angle per channel (z, radians), 1 if valid (w); and the turns of channels 1/8 (x, y) and 3/8 of the band apart (z,
//    w); segment [stream][groups·128]: number of the segment, or NO_SEGMENT; passes [any]: a pass of the filter over
//    each segment, in any order, and their number in passes[0].
KERNEL(GROUP, 1)
place_windows(const int64_t* __restrict__ coarse, const double* __restrict__ fine, const double* __restrict__ phase,
              const uint8_t* __restrict__ present, float4* __restrict__ turns, uint8_t* __restrict__ segment,
              Pass* __restrict__ passes, int spectra, int before, int groups, int first_group, int packets,
              int packet_samples, int64_t first_value) {
    SHARED_BYTES(shared);
    int64_t* delay = reinterpret_cast<int64_t*>(shared);  // [128]
    int* leads = reinterpret_cast<int*>(delay + GROUP);   // [128] whether a spectrum is its segment's first
    int* good = leads + GROUP;                            // [128]
    const int i = threadIdx.x, group = first_group + blockIdx.x, stream = blockIdx.y;
    const int64_t at = int64_t(stream) * groups + group;
    const int s = before + group * GROUP + i;
    const int64_t samples = int64_t(packets) * packet_samples;
    bool valid = s >= 0 && s < spectra;
    int64_t d = 0;
    const float nan = __uint_as_float(0x7fc00000u);
    float4 turn = make_float4(nan, nan, 0, 0), apart = make_float4(1, 0, 1, 0);
    if (valid) {
        const int64_t from = int64_t(stream) * spectra + s;
        d = coarse[from];
        const int64_t start = first_value / PARTS + int64_t(group * GROUP + i) * STEP - d;
        const int64_t last = start + int64_t(TAPS) * STEP - 1;
        valid = start >= 0 && last < samples;
        if (valid) {
            const uint8_t* here = present + int64_t(stream) * packets;
            int all = 1;
            const int end = int(last / packet_samples);
#pragma unroll 8
            for (int packet = int(start / packet_samples); packet <= end; ++packet) all &= here[packet] != 0;
            valid = all;
        }
        if (valid) {
            double angle = phase[from];
            if (PARTS == 1) angle += 1.5707963267948966 * double(d & 3);
            double sine, cosine;
            sincos(angle, &sine, &cosine);
            constexpr double SLOPE = -6.283185307179586 / STEP;  // of a fine delay of one sample, radians a channel
            turn = make_float4(float(cosine), float(sine), float(SLOPE * fine[from]), 1.0f);
            angle = SLOPE * fine[from] * (STEP * PARTS / 16);  // of channels 1/8 of the band apart
            sincos(angle, &sine, &cosine);
            apart.x = float(cosine);
            apart.y = float(sine);
            sincos(3 * angle, &sine, &cosine);
            apart.z = float(cosine);
            apart.w = float(sine);
        }
    }
    delay[i] = d;
    good[i] = valid;
    __syncthreads();
    int leader = i;  // the first valid spectrum of the same delay
    if (valid)
        for (int j = 0; j < i; ++j)
            if (good[j] && delay[j] == d) {
                leader = j;
                break;
            }
    leads[i] = valid && leader == i;
    __syncthreads();
    int number = 0;
    for (int j = 0; j < leader; ++j) number += leads[j];
    float4* to = turns + (at * GROUP + i / 16 * 16) * 2 + i % 2 * 8 + i % 16 / 2;
    to[0] = turn;
    to[16] = apart;
    segment[at * GROUP + i] = valid ? uint8_t(number) : NO_SEGMENT;
    int* base = good;  // no longer needed after the next barrier
    const int count = __syncthreads_count(leads[i]);
    if (i == 0) *base = count ? atomicAdd(&passes[0].count, count) : 0;
    __syncthreads();
    if (leads[i]) {
        Pass pass = {};
        pass.start = first_value + (int64_t(group) * GROUP * STEP - d) * PARTS;
        pass.stream = stream;
        pass.slot = stream * gridDim.x + blockIdx.x;
        pass.group = int(at);
        pass.segment = number;
        passes[1 + *base + number] = pass;
    }
}
