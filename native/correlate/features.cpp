// Why this CPU cannot run a kernel. Kept out of the kernels' own files, which are compiled for the CPUs they need.
#if defined(__x86_64__)
#include <cpuid.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernel.h"

namespace ryle::correlate {
namespace {

bool avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

}  // namespace

const char* without_avx2() {
    __builtin_cpu_init();
    const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                     __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    return can ? nullptr : "this CPU has no AVX2";
}

const char* without_vnni() {
    if (const char* reason = without_avx2()) return reason;
    return avx512() && __builtin_cpu_supports("avx512vnni") ? nullptr : "this CPU has no AVX-512 VNNI";
}

const char* without_amx() {
    if (const char* reason = without_avx2()) return reason;
    if (!avx512()) return "this CPU has no AVX-512";
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned tile_and_int8 = 1u << 24 | 1u << 25;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile_and_int8) != tile_and_int8) {
        return "this CPU has no AMX int8";
    }
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // AVX-512 is enabled, so the instruction exists
    constexpr unsigned tile_state = 3u << 17;
    if ((low & tile_state) != tile_state) return "the operating system does not enable AMX tiles";
#if defined(__linux__)
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) {
        return "the operating system refuses AMX tiles (Linux grants them from 5.16 on)";
    }
    return nullptr;
#else
    return "AMX tiles are requested through Linux only";
#endif
}

}  // namespace ryle::correlate
#endif
