#include "eal.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <stdio.h>

#include <mutex>

#include "gate.h"

namespace ryle::dpdk {
namespace {

std::mutex mutex;
std::string messages;
enum class State { fresh, running, stopped } state = State::fresh;

ssize_t keep(void*, const char* text, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    messages.append(text, bytes);
    if (messages.size() > 1 << 16) messages.erase(0, messages.size() - (1 << 16));
    return static_cast<ssize_t>(bytes);
}

std::string last_lines(int lines) {
    std::lock_guard<std::mutex> lock(mutex);
    std::size_t at = messages.size();
    while (at > 0 && lines >= 0)
        if (messages[--at] == '\n' && at + 1 < messages.size()) --lines;
    return messages.substr(at);
}

}  // namespace

void fail(const std::string& what, int code) {
    std::string text = what + ": " + rte_strerror(code < 0 ? -code : code);
    if (const std::string said = last_lines(6); !said.empty()) text += "\nDPDK says: " + said;
    throw Error(text);
}

void start(const std::vector<std::string>& args) {
    if (state == State::running) return;
    if (state == State::stopped) throw Error("DPDK was stopped, or did not start; it can be started once in a process");
    cookie_io_functions_t sink{};
    sink.write = keep;
    if (FILE* stream = fopencookie(nullptr, "w", sink)) {
        setvbuf(stream, nullptr, _IOLBF, 0);
        rte_openlog_stream(stream);
    }
    std::vector<std::string> words{"ryle"};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    cpu_set_t before;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    state = State::stopped;  // whatever happens, not a second time
    const int rc = rte_eal_init(static_cast<int>(words.size()), argv.data());
    pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    if (rc < 0) fail("DPDK did not start", rte_errno);
    state = State::running;
}

bool started() { return state == State::running; }

void stop() {
    if (state != State::running || members > 0) return;
    state = State::stopped;
    Gate::get().shut();
    rte_eal_cleanup();
}

std::string log() {
    std::lock_guard<std::mutex> lock(mutex);
    return messages;
}

}  // namespace ryle::dpdk
