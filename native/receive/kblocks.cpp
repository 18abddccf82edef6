// F-heaps as they lie on the wire, [channel][spectrum][pol][re, im], to K-blocks, [channel][block][input] rows
// (chunk.h).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "chunk.h"

namespace nb = nanobind;

namespace {

template <typename T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

constexpr int64_t block = ryle::kBlock, row_bytes = ryle::kRowBytes, group = ryle::kRowGroup;

// Where the real part of a block's spectrum lies in its row; the imaginary part is `group` bytes further.
int64_t place(int64_t lane) { return ryle::row_place(static_cast<int>(lane), 0); }

// Written as vectors, because compilers do not find them in loops as short as these.
typedef int8_t Bytes __attribute__((vector_size(16)));

Bytes even(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

Bytes odd(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// N spectra of one channel, 8 or 16 of one group, to rows: one row a polarization. 4-bit values are a byte each, real
// part in the high nibble, two's complement.
template <int Pols, int ValueBytes, int N>
void split(const uint8_t* in, int8_t* out) {
    Bytes values[Pols * ValueBytes] = {};
    std::memcpy(values, in, Pols * ValueBytes * N);
    Bytes parts[2][Pols];  // polarizations take turns
    for (int n = 0; n < Pols; ++n) {
        if constexpr (ValueBytes == 2) {
            parts[0][n] = even(values[2 * n], values[2 * n + 1]);
            parts[1][n] = odd(values[2 * n], values[2 * n + 1]);
        } else {
            parts[0][n] = values[n] >> 4;
            parts[1][n] = ((values[n] & 15) ^ 8) - 8;
        }
    }
    for (int part = 0; part < 2; ++part, out += group) {
        if constexpr (Pols == 2) {
            const Bytes first = even(parts[part][0], parts[part][1]), second = odd(parts[part][0], parts[part][1]);
            std::memcpy(out, &first, N);
            std::memcpy(out + row_bytes, &second, N);
        } else {
            std::memcpy(out, &parts[part][0], N);
        }
    }
}

// `n` spectra of one channel to rows, from a block's spectrum `lane` on; both are multiples of 8, as heaps are.
template <int Pols, int ValueBytes>
void split_run(const uint8_t* in, int64_t n, int64_t lane, int8_t* rows) {
    for (const int64_t end = lane + n; lane < end;) {
        if (lane % group == 0 && end - lane >= group) {
            split<Pols, ValueBytes, group>(in, rows + place(lane));
            lane += group, in += group * Pols * ValueBytes;
        } else {
            split<Pols, ValueBytes, 8>(in, rows + place(lane));
            lane += 8, in += 8 * Pols * ValueBytes;
        }
    }
}

// Bits from `first`, at most 64 of them, of a bit string, LSB first.
uint64_t bits(const uint8_t* string, int64_t first, int64_t n) {
    uint64_t v = 0;
    for (int64_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(string[(first + i) / 8] >> ((first + i) % 8) & 1) << i;
    return v;
}

// heaps: as they came, [antenna][heap][slot bytes]; present: [antenna][heap][groups + 1], the last
// one for the tail with the validity bits; kind: [antenna][heap], 2 if the heap has such a tail, 1 if not.
void to_kblocks(Array<const uint8_t, 3> heaps, Array<const uint8_t, 3> present, Array<const uint8_t, 2> kind,
                int64_t spectra_per_heap, int64_t pols, int64_t value_bytes, Array<int8_t, 4> data,
                Array<uint64_t, 3> valid) {
    const int64_t antennas = heaps.shape(0), count = heaps.shape(1), slot = heaps.shape(2);
    const int64_t groups = valid.shape(0), blocks = valid.shape(1), inputs = valid.shape(2), channels = data.shape(0);
    const int64_t column = spectra_per_heap * pols * value_bytes, payload = channels * column;
    const int64_t tail = spectra_per_heap / 8;
    if (inputs != antennas * pols || count * spectra_per_heap != blocks * block || channels % groups != 0 ||
        (pols != 1 && pols != 2) || (value_bytes != 1 && value_bytes != 2) || spectra_per_heap % 8 != 0 ||
        slot < payload + pols * tail || static_cast<int64_t>(data.shape(1)) != blocks ||
        static_cast<int64_t>(data.shape(2)) != inputs || data.shape(3) != row_bytes ||
        static_cast<int64_t>(present.shape(0)) != antennas || static_cast<int64_t>(present.shape(1)) != count ||
        static_cast<int64_t>(present.shape(2)) != groups + 1 || static_cast<int64_t>(kind.shape(0)) != antennas ||
        static_cast<int64_t>(kind.shape(1)) != count)
        throw std::invalid_argument("to_kblocks: shapes do not fit each other");
    auto* const split = value_bytes == 2 ? (pols == 2 ? split_run<2, 2> : split_run<1, 2>)
                                         : (pols == 2 ? split_run<2, 1> : split_run<1, 1>);
    int8_t* const out = data.data();
    uint64_t* const bit = valid.data();
    const uint8_t *const in = heaps.data(), *const here = present.data(), *const what = kind.data();
    nb::gil_scoped_release unlocked;

    std::memset(bit, 0, sizeof(uint64_t) * groups * blocks * inputs);
    const int64_t per_group = channels / groups;
    for (int64_t g = 0; g < groups; ++g) {
        for (int64_t a = 0; a < antennas; ++a)
            for (int64_t h = 0; h < count; ++h) {
                const int64_t index = a * count + h;
                const uint8_t* arrived = here + index * (groups + 1);
                if (!arrived[g] || (what[index] == 2 && !arrived[groups])) continue;
                const uint8_t* mask = in + index * slot + payload;
                for (int64_t s = 0; s < spectra_per_heap;) {
                    const int64_t at = h * spectra_per_heap + s, lane = at % block;
                    const int64_t n = std::min(spectra_per_heap - s, block - lane);
                    for (int64_t p = 0; p < pols; ++p) {
                        const uint64_t all = n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
                        const uint64_t v = what[index] == 2 ? bits(mask + p * tail, s, n) : all;
                        bit[(g * blocks + at / block) * inputs + a * pols + p] |= v << lane;
                    }
                    s += n;
                }
            }
        for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c)
            for (int64_t h = 0; h < count; ++h)
                for (int64_t s = 0; s < spectra_per_heap;) {
                    const int64_t at = h * spectra_per_heap + s, b = at / block, lane = at % block;
                    const int64_t n = std::min(spectra_per_heap - s, block - lane);
                    int8_t* const rows = out + (c * blocks + b) * inputs * row_bytes;
                    for (int64_t a = 0; a < antennas; ++a) {
                        const int64_t index = a * count + h;
                        split(in + index * slot + c * column + s * pols * value_bytes, n, lane,
                              rows + a * pols * row_bytes);
                    }
                    s += n;
                }
        // What is not valid becomes zero, so that nothing of an earlier chunk can be read there.
        for (int64_t b = 0; b < blocks; ++b)
            for (int64_t i = 0; i < inputs; ++i) {
                const uint64_t v = bit[(g * blocks + b) * inputs + i];
                if (v == ~uint64_t{0}) continue;
                int8_t keep[block];
                for (int64_t s = 0; s < block; ++s) keep[s] = static_cast<int8_t>(-static_cast<int>(v >> s & 1));
                for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
                    int8_t* const row = out + ((c * blocks + b) * inputs + i) * row_bytes;
                    for (int64_t s = 0; s < block; s += group)
                        for (int64_t part = 0; part < 2; ++part) {
                            Bytes values, mask;
                            std::memcpy(&values, row + place(s) + part * group, sizeof values);
                            std::memcpy(&mask, keep + s, sizeof mask);
                            values &= mask;
                            std::memcpy(row + place(s) + part * group, &values, sizeof values);
                        }
                }
            }
    }
}

}  // namespace

void bind_kblocks(nb::module_& m) {
    m.def("to_kblocks", &to_kblocks, nb::arg("heaps"), nb::arg("present"), nb::arg("kind"), nb::arg("spectra_per_heap"),
          nb::arg("pols"), nb::arg("value_bytes"), nb::arg("data"), nb::arg("valid"),
          "Transpose received F-heaps to K-blocks with their validity; what is invalid becomes zero.");
}
