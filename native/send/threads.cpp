#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cerrno>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace ryle {

SendThreads::~SendThreads() {
    stop();
    join();
}

void SendThreads::add(std::shared_ptr<PacketSource> source, std::shared_ptr<Port> port, int core, bool realtime) {
    if (begun_) throw std::logic_error("the threads have been started");
    if (port->buffers().empty()) throw std::invalid_argument("a port needs buffers");
    auto part = std::make_unique<Part>();
    part->source = std::move(source);
    part->port = std::move(port);
    part->core = core;
    part->realtime = realtime;
    parts_.push_back(std::move(part));
}

void SendThreads::start(double seconds) {
    if (begun_) throw std::logic_error("the threads have been started");
    begun_ = true;
    left_ = unready_ = static_cast<int>(parts_.size());
    for (auto& part : parts_) part->thread = std::thread([this, p = part.get(), seconds] { run(*p, seconds); });
}

// Core, priority, and a start that is the same for all. False if the thread cannot send.
bool SendThreads::prepare(Part& part) {
    pthread_setname_np(pthread_self(), "send");
    prctl(PR_SET_TIMERSLACK, 1UL);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (part.core >= 0 && part.core < CPU_SETSIZE) CPU_SET(part.core, &cores);
    if (part.core >= 0) part.error = pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
    if (part.error) part.message = "core " + std::to_string(part.core) + " cannot be had; see 'taskset -p $$'";
    const sched_param first{1};
    if (part.realtime && !part.error && (part.error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &first)))
        part.message = "no real-time priority: it needs root or CAP_SYS_NICE ('ulimit -r')";
    if (part.error) stop();
    if (unready_.fetch_sub(1) == 1) start_.store(now_ns() + 1'000'000, std::memory_order_release);
    while (started() == 0) {
        const timespec pause{0, 100'000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    }
    return !part.error;
}

void SendThreads::run(Part& part, double seconds) {
    try {
        if (prepare(part)) {
            const std::int64_t start = started();
            const bool ends = seconds > 0 && seconds < 9e9;
            const std::int64_t until =
                ends ? start + static_cast<std::int64_t>(seconds * 1e9) : std::numeric_limits<std::int64_t>::max();
            send_all(*part.source, *part.port, start, until, stop_, part.loop);
        }
    } catch (const std::system_error& error) {
        part.error = error.code().value();
        part.message = error.what();
    } catch (const std::exception& error) {
        part.error = EIO;
        part.message = error.what();
    }
    if (part.error) stop();  // a plan that is sent in part only is of no use
    left_.fetch_sub(1, std::memory_order_release);
}

void SendThreads::join() {
    for (auto& part : parts_)
        if (part->thread.joinable()) part->thread.join();
}

}  // namespace ryle
