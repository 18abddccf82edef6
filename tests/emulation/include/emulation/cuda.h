// The parts of CUDA C++ that kernels use, in C++.
#pragma once

#include <math.h>

#include <type_traits>

#include "emulation/block.h"

// CUDA's 64-bit integers are long long, where this system's may be long, which is another type.
using emulated_int64 = long long;
using emulated_uint64 = unsigned long long;
#define int64_t emulated_int64
#define uint64_t emulated_uint64

#define __device__
#define __host__
#define __global__
#define __constant__ static
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) alignas(bytes)
// Ignored by the compiler, and found by build.py after the preprocessor.
#define __launch_bounds__(threads, blocks) [[emulated::bounds(threads, blocks)]]
#define __builtin_assume(condition) ((void)0)

#define threadIdx (emulation::state.current->index)
#define blockIdx (emulation::state.block_index)
#define blockDim (emulation::state.block_size)
#define gridDim (emulation::state.grid_size)
constexpr int warpSize = 32;

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : emulation::fail("line %d: assert(%s) does not hold", __LINE__, #condition))
#define __trap() emulation::fail("line %d: __trap()", __LINE__)

// Vector types.
#define EMULATED_VECTOR(type, name, bytes2, bytes4)                         \
    struct alignas(bytes2) name##2 { type x, y; };                          \
    struct alignas(bytes4) name##4 { type x, y, z, w; };                    \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMULATED_VECTOR(signed char, char, 2, 4)
EMULATED_VECTOR(unsigned char, uchar, 2, 4)
EMULATED_VECTOR(short, short, 4, 8)
EMULATED_VECTOR(unsigned short, ushort, 4, 8)
EMULATED_VECTOR(int, int, 8, 16)
EMULATED_VECTOR(unsigned, uint, 8, 16)
EMULATED_VECTOR(float, float, 8, 16)
EMULATED_VECTOR(long long, longlong, 16, 16)
EMULATED_VECTOR(unsigned long long, ulonglong, 16, 16)
EMULATED_VECTOR(double, double, 16, 16)
#undef EMULATED_VECTOR
struct int3 {
    int x, y, z;
};
struct float3 {
    float x, y, z;
};
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
static inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }

// Barriers and fences. All fibers share one OS thread, so what one has written the others see.
#define EMULATED_PLACE emulation::Place place = emulation::Place::here(__builtin_FILE(), __builtin_LINE())
static inline void __syncthreads(EMULATED_PLACE) { emulation::wait_at_barrier(0, 0, 0, place); }
static inline int __syncthreads_count(int predicate, EMULATED_PLACE) {
    return static_cast<int>(emulation::wait_at_barrier(0, 0, predicate != 0, place));
}
static inline int __syncthreads_or(int predicate, EMULATED_PLACE) {
    return emulation::wait_at_barrier(0, 0, predicate != 0, place) != 0;
}
static inline int __syncthreads_and(int predicate, EMULATED_PLACE) {
    return emulation::wait_at_barrier(0, 0, predicate == 0, place) == 0;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { emulation::yield(); }

namespace emulation {

using Values = unsigned char (&)[WARP][64];

// Meet, then take the value of the lane that `source` names.
template <typename T>
static inline T exchange(const char* what, const Place& place, unsigned mask, T mine, unsigned source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4- and 8-byte values");
    return meet(
        what, place, false, mask, mine, [](Values) {},
        [&](Values values) {
            T value;
            if (mask >> source & 1)
                memcpy(&value, values[source], sizeof value);
            else
                memset(&value, POISON, sizeof value);  // of a lane outside the mask: undefined
            return value;
        });
}

static inline unsigned segment(unsigned lane, int width) { return lane & ~static_cast<unsigned>(width - 1); }

static inline unsigned ballot(const char* what, const Place& place, unsigned mask, bool mine) {
    return meet(
        what, place, false, mask, mine, [](Values) {},
        [&](Values values) {
            unsigned bits = 0;
            for (unsigned lane = 0; lane < WARP; ++lane)
                if (mask >> lane & 1 && values[lane][0]) bits |= 1u << lane;
            return bits;
        });
}

template <typename T, typename Combine>
static inline T reduce(const char* what, const Place& place, unsigned mask, T mine, Combine combine) {
    return meet(
        what, place, false, mask, mine, [](Values) {},
        [&](Values values) {
            T result{};
            bool first = true;
            for (unsigned lane = 0; lane < WARP; ++lane) {
                if (!(mask >> lane & 1)) continue;
                T value;
                memcpy(&value, values[lane], sizeof value);
                result = first ? value : combine(result, value);
                first = false;
            }
            return result;
        });
}

}  // namespace emulation

static inline void __syncwarp(unsigned mask = emulation::ALL, EMULATED_PLACE) {
    emulation::meet("__syncwarp", place, false, mask, 0, [](emulation::Values) {}, [](emulation::Values) { return 0; });
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulation::state.current->lane;
    const unsigned from = emulation::segment(lane, width) + (static_cast<unsigned>(source) & (width - 1));
    return emulation::exchange("__shfl_sync", place, mask, value, from);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulation::state.current->lane, from = lane ^ static_cast<unsigned>(lanes);
    const bool inside = from < emulation::segment(lane, width) + static_cast<unsigned>(width);
    return emulation::exchange("__shfl_xor_sync", place, mask, value, inside ? from : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulation::state.current->lane;
    const bool inside = lane >= emulation::segment(lane, width) + delta;
    return emulation::exchange("__shfl_up_sync", place, mask, value, inside ? lane - delta : lane);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulation::state.current->lane;
    const bool inside = lane + delta < emulation::segment(lane, width) + static_cast<unsigned>(width);
    return emulation::exchange("__shfl_down_sync", place, mask, value, inside ? lane + delta : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    return emulation::ballot("__ballot_sync", place, mask, predicate != 0);
}
static inline int __any_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    return emulation::ballot("__any_sync", place, mask, predicate != 0) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    return emulation::ballot("__all_sync", place, mask, predicate != 0) == mask;
}
static inline unsigned __reduce_add_sync(unsigned mask, unsigned value, EMULATED_PLACE) {
    return emulation::reduce("__reduce_add_sync", place, mask, value, [](unsigned a, unsigned b) { return a + b; });
}
static inline int __reduce_add_sync(unsigned mask, int value, EMULATED_PLACE) {
    return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value), place));
}
template <typename T>
static inline T __reduce_max_sync(unsigned mask, T value, EMULATED_PLACE) {
    return emulation::reduce("__reduce_max_sync", place, mask, value, [](T a, T b) { return a > b ? a : b; });
}
template <typename T>
static inline T __reduce_min_sync(unsigned mask, T value, EMULATED_PLACE) {
    return emulation::reduce("__reduce_min_sync", place, mask, value, [](T a, T b) { return a < b ? a : b; });
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned value, EMULATED_PLACE) {
    return emulation::reduce("__reduce_or_sync", place, mask, value, [](unsigned a, unsigned b) { return a | b; });
}
static inline unsigned __reduce_and_sync(unsigned mask, unsigned value, EMULATED_PLACE) {
    return emulation::reduce("__reduce_and_sync", place, mask, value, [](unsigned a, unsigned b) { return a & b; });
}

// Atomics: one OS thread, so plain arithmetic. Sums wrap.
namespace emulation {
template <typename T, typename... Allowed>
concept one_of = (std::is_same_v<T, Allowed> || ...);
template <typename T>
concept atomic_integer = one_of<T, int, unsigned, unsigned long long>;
template <typename T>
concept atomic_ordered = one_of<T, int, unsigned, long long, unsigned long long>;
template <typename T>
concept atomic_addable = one_of<T, int, unsigned, unsigned long long, float, double>;
template <typename T>
using Same = std::type_identity_t<T>;
}  // namespace emulation
template <emulation::atomic_addable T>
static inline T atomicAdd(T* at, emulation::Same<T> value) {
    const T old = *at;
    if constexpr (std::is_same_v<T, int>)
        *at = static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
    else
        *at = old + value;
    return old;
}
#define EMULATED_ATOMIC(name, concept_, expression)         \
    template <emulation::concept_ T>                        \
    static inline T name(T* at, emulation::Same<T> value) { \
        const T old = *at;                                  \
        *at = (expression);                                 \
        return old;                                         \
    }
EMULATED_ATOMIC(atomicMax, atomic_ordered, old > value ? old : value)
EMULATED_ATOMIC(atomicMin, atomic_ordered, old < value ? old : value)
EMULATED_ATOMIC(atomicOr, atomic_integer, old | value)
EMULATED_ATOMIC(atomicAnd, atomic_integer, old& value)
EMULATED_ATOMIC(atomicXor, atomic_integer, old ^ value)
EMULATED_ATOMIC(atomicExch, atomic_addable, value)
#undef EMULATED_ATOMIC
template <emulation::atomic_integer T>
static inline T atomicCAS(T* at, emulation::Same<T> expected, emulation::Same<T> value) {
    const T old = *at;
    if (old == expected) *at = value;
    return old;
}

// Bits.
template <typename To, typename From>
static inline To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float value) { return emulated_bits<unsigned>(value); }
static inline int __float_as_int(float value) { return emulated_bits<int>(value); }
static inline float __uint_as_float(unsigned value) { return emulated_bits<float>(value); }
static inline float __int_as_float(int value) { return emulated_bits<float>(value); }
static inline long long __double_as_longlong(double value) { return emulated_bits<long long>(value); }
static inline double __longlong_as_double(long long value) { return emulated_bits<double>(value); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> 4 * i;
        result |= static_cast<unsigned>(both >> 8 * (nibble & 7) & 0xFF) << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
static inline int __popc(unsigned value) { return __builtin_popcount(value); }
static inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
static inline int __clz(int value) { return value ? __builtin_clz(static_cast<unsigned>(value)) : 32; }
static inline int __clzll(long long value) {
    return value ? __builtin_clzll(static_cast<unsigned long long>(value)) : 64;
}
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline int __ffsll(long long value) { return __builtin_ffsll(value); }
static inline unsigned __brev(unsigned value) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= (value >> i & 1) << (31 - i);
    return result;
}
static inline unsigned long long __brevll(unsigned long long value) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(value))) << 32 |
           __brev(static_cast<unsigned>(value >> 32));
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline int __dp4a(int a, int b, int sum) {
    unsigned total = static_cast<unsigned>(sum);
    for (int i = 0; i < 4; ++i)
        total += static_cast<unsigned>(static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i));
    return static_cast<int>(total);
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int i = 0; i < 4; ++i) sum += (a >> 8 * i & 0xFF) * (b >> 8 * i & 0xFF);
    return sum;
}

// Arithmetic. Through double, which holds every product and rounds a sum as float would, and is not contracted.
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return static_cast<float>(static_cast<double>(a) * b); }
static inline float __fadd_rn(float a, float b) { return static_cast<float>(static_cast<double>(a) + b); }
static inline float __fsub_rn(float a, float b) { return static_cast<float>(static_cast<double>(a) - b); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float rsqrtf(float a) { return static_cast<float>(1.0 / sqrt(static_cast<double>(a))); }
static inline void sincospi(double turn, double* sine, double* cosine) {
    const double quarters = rint(2 * turn), angle = (turn - quarters / 2) * M_PI;
    const double s = sin(angle), c = cos(angle);
    switch (static_cast<int>(fmod(quarters, 4.0)) & 3) {
        case 0:
            *sine = s, *cosine = c;
            break;
        case 1:
            *sine = c, *cosine = -s;
            break;
        case 2:
            *sine = -s, *cosine = -c;
            break;
        default:
            *sine = -c, *cosine = s;
            break;
    }
}
static inline void sincospif(float turn, float* sine, float* cosine) {
    double s, c;
    sincospi(turn, &s, &c);
    *sine = static_cast<float>(s);
    *cosine = static_cast<float>(c);
}
static inline float sinpif(float turn) {
    float s, c;
    sincospif(turn, &s, &c);
    return s;
}
static inline float cospif(float turn) {
    float s, c;
    sincospif(turn, &s, &c);
    return c;
}
// The C library has functions of these names of its own.
#define __sinf(angle) sinf(angle)
#define __cosf(angle) cosf(angle)
#define __sincosf(angle, sine, cosine) sincosf(angle, sine, cosine)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
static inline float __saturatef(float value) { return value > 0 ? (value < 1 ? value : 1) : 0; }

// Conversions clamp, and turn NaN into 0.
namespace emulation {
template <typename To>
static inline To clamped(double value) {
    constexpr double low = std::is_signed_v<To> ? -2147483648.0 : 0.0,
                     high = std::is_signed_v<To> ? 2147483647.0 : 4294967295.0;
    return value != value  ? 0
           : value <= low  ? static_cast<To>(low)
           : value >= high ? static_cast<To>(high)
                           : static_cast<To>(value);
}
}  // namespace emulation
static inline int __float2int_rn(float value) { return emulation::clamped<int>(rint(value)); }
static inline int __float2int_rz(float value) { return emulation::clamped<int>(trunc(value)); }
static inline int __float2int_rd(float value) { return emulation::clamped<int>(floor(value)); }
static inline int __float2int_ru(float value) { return emulation::clamped<int>(ceil(value)); }
static inline unsigned __float2uint_rn(float value) { return emulation::clamped<unsigned>(rint(value)); }
static inline unsigned __float2uint_rz(float value) { return emulation::clamped<unsigned>(trunc(value)); }
static inline int __double2int_rn(double value) { return emulation::clamped<int>(rint(value)); }
static inline long long __double2ll_rn(double value) { return llrint(value); }
static inline long long __float2ll_rn(float value) { return llrintf(value); }
static inline float __int2float_rn(int value) { return static_cast<float>(value); }
static inline float __uint2float_rn(unsigned value) { return static_cast<float>(value); }
static inline float __ll2float_rn(long long value) { return static_cast<float>(value); }
static inline float __double2float_rn(double value) { return static_cast<float>(value); }

template <typename A, typename B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
static inline std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return static_cast<T>(fmin(a, b));
    else
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <typename A, typename B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
static inline std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return static_cast<T>(fmax(a, b));
    else
        return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}

// Loads and stores that name a cache policy.
#define EMULATED_LOAD(name)                  \
    template <typename T>                    \
    static inline T name(const T* address) { \
        return *address;                     \
    }
EMULATED_LOAD(__ldg)
EMULATED_LOAD(__ldcs)
EMULATED_LOAD(__ldcg)
EMULATED_LOAD(__ldca)
EMULATED_LOAD(__ldlu)
EMULATED_LOAD(__ldcv)
#undef EMULATED_LOAD
#define EMULATED_STORE(name)                                        \
    template <typename T>                                           \
    static inline void name(T* address, emulation::Same<T> value) { \
        *address = value;                                           \
    }
EMULATED_STORE(__stcs)
EMULATED_STORE(__stcg)
EMULATED_STORE(__stwb)
EMULATED_STORE(__stwt)
#undef EMULATED_STORE
