// DPDK's environment: started once a process, its messages kept for error texts.
#pragma once
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace ryle::dpdk {

// A call into DPDK failed. The text ends with what DPDK logged last.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// `what`, the reason behind `code` (a negative errno), and the last lines that DPDK logged.
[[noreturn]] void fail(const std::string& what, int code);

// Start with these arguments (without the program's name). The calling thread keeps the processors it may run on.
// Throws Error if DPDK refuses, or if it was started and stopped before: that cannot be done twice.
void start(const std::vector<std::string>& args);
bool started();
// Give everything back, unless threads still use it: then the end of the process does.
void stop();
inline std::atomic<int> members{0};  // threads of ours that DPDK knows
// What DPDK logged, the newest 64 KiB.
std::string log();

}  // namespace ryle::dpdk
