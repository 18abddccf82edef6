// The kernel for any CPU: plain loops that compilers turn into 16-bit multiply-adds of pairs.
#include "count.h"
#include "int16_panels.h"

namespace ryle::correlate {
namespace {

const char* always() { return nullptr; }

void multiply(const void* panels, int inputs, int blocks, std::int32_t* tiles, Prefetch& next) {
    for_each_int16_tile(
        panels, inputs, blocks, tiles, [blocks, &next](const auto* a, const auto* b, std::int32_t* tile) {
            next.fetch();
            std::uint32_t sum[kForms][kTile][kTile] = {};  // unsigned: wraps by definition
            for (int block = 0; block < blocks; ++block, a += kPanel, b += kPanel) {
                for (int form = 0; form < kForms; ++form) {
                    const std::int16_t* a0 = a + form * kTile * kSpectra;
                    const std::int16_t* b0 = b + form * kTile * kSpectra;
                    std::int32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0;
                    for (int k = 0; k < kSpectra; ++k) {
                        s00 += b0[k] * a0[k];
                        s01 += b0[k] * a0[kSpectra + k];
                        s10 += b0[kSpectra + k] * a0[k];
                        s11 += b0[kSpectra + k] * a0[kSpectra + k];
                    }
                    sum[form][0][0] += static_cast<std::uint32_t>(s00);
                    sum[form][0][1] += static_cast<std::uint32_t>(s01);
                    sum[form][1][0] += static_cast<std::uint32_t>(s10);
                    sum[form][1][1] += static_cast<std::uint32_t>(s11);
                }
            }
            for (int j = 0; j < kTile; ++j) {
                for (int i = 0; i < kTile; ++i) {
                    std::int32_t& re = tile[j * kTile + i];
                    std::int32_t& im = tile[(kTile + j) * kTile + i];
                    re = static_cast<std::int32_t>(static_cast<std::uint32_t>(re) + sum[0][j][i] - sum[2][j][i]);
                    im = static_cast<std::int32_t>(static_cast<std::uint32_t>(im) + sum[0][j][i] - sum[1][j][i]);
                }
            }
        });
}

}  // namespace

const Kernel kPortable{"portable", kTile, kTile, always, int16_panel_bytes, int16_pack, multiply, count_pairs};

}  // namespace ryle::correlate
