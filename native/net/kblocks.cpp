// F-heaps as they lie on the wire, [channel][spectrum][pol][re, im], to K-blocks, [channel][block][input][64 re | 64
// im].
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace nb = nanobind;

namespace {

template <typename T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

constexpr int64_t block = 64;

// One channel of `n` spectra to planar rows, one row a polarization. Plain loops over whole words: compilers turn them
// into shifts and packs for whatever machine they build for.
template <int Pols>
void planes8(const uint8_t* in, int64_t n, int8_t* out, int64_t row) {
    for (int64_t s = 0; s < n; ++s) {
        if constexpr (Pols == 2) {
            uint32_t w;
            std::memcpy(&w, in + 4 * s, 4);
            out[s] = static_cast<int8_t>(w);
            out[block + s] = static_cast<int8_t>(w >> 8);
            out[row + s] = static_cast<int8_t>(w >> 16);
            out[row + block + s] = static_cast<int8_t>(w >> 24);
        } else {
            uint16_t w;
            std::memcpy(&w, in + 2 * s, 2);
            out[s] = static_cast<int8_t>(w);
            out[block + s] = static_cast<int8_t>(w >> 8);
        }
    }
}

// 4 bit: one byte a value, real part in the high nibble, two's complement.
template <int Pols>
void planes4(const uint8_t* in, int64_t n, int8_t* out, int64_t row) {
    for (int64_t s = 0; s < n; ++s)
        for (int p = 0; p < Pols; ++p) {
            const auto w = static_cast<int8_t>(in[Pols * s + p]);
            out[p * row + s] = static_cast<int8_t>(w >> 4);
            out[p * row + block + s] = static_cast<int8_t>(static_cast<int8_t>(static_cast<uint8_t>(w) << 4) >> 4);
        }
}

// Bits from `first`, at most 64 of them, of a bit string, LSB first.
uint64_t bits(const uint8_t* string, int64_t first, int64_t n) {
    uint64_t v = 0;
    for (int64_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(string[(first + i) / 8] >> ((first + i) % 8) & 1) << i;
    return v;
}

// heaps: chunk memory of a SpectraReceiver, [antenna][heap][slot bytes]; present: [antenna][heap][groups + 1], the last
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
        static_cast<int64_t>(data.shape(2)) != inputs || data.shape(3) != 2 * block ||
        static_cast<int64_t>(present.shape(0)) != antennas || static_cast<int64_t>(present.shape(1)) != count ||
        static_cast<int64_t>(present.shape(2)) != groups + 1 || static_cast<int64_t>(kind.shape(0)) != antennas ||
        static_cast<int64_t>(kind.shape(1)) != count)
        throw std::invalid_argument("to_kblocks: shapes do not fit each other");
    auto* const planes =
        value_bytes == 2 ? (pols == 2 ? planes8<2> : planes8<1>) : (pols == 2 ? planes4<2> : planes4<1>);
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
                    int8_t* const rows = out + (c * blocks + b) * inputs * 2 * block + lane;
                    for (int64_t a = 0; a < antennas; ++a) {
                        const int64_t index = a * count + h;
                        planes(in + index * slot + c * column + s * pols * value_bytes, n, rows + a * pols * 2 * block,
                               2 * block);
                    }
                    s += n;
                }
        // What is not valid becomes zero, so that nothing of an earlier chunk can be read there.
        for (int64_t b = 0; b < blocks; ++b)
            for (int64_t i = 0; i < inputs; ++i) {
                const uint64_t v = bit[(g * blocks + b) * inputs + i];
                if (v == ~uint64_t{0}) continue;
                for (int64_t c = g * per_group; c < (g + 1) * per_group; ++c) {
                    int8_t* const row = out + ((c * blocks + b) * inputs + i) * 2 * block;
                    for (int64_t s = 0; s < block; ++s) {
                        const auto keep = static_cast<int8_t>(-static_cast<int>(v >> s & 1));
                        row[s] &= keep;
                        row[block + s] &= keep;
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
