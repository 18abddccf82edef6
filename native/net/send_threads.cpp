#include "send_threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace ryle {

SendThreads::~SendThreads() {
    stop();
    join();
}

void SendThreads::add(std::shared_ptr<PacketSource> source, std::shared_ptr<Port> port, int core) {
    if (start_) throw std::logic_error("the threads have been started");
    if (port->buffers().empty()) throw std::invalid_argument("a port needs buffers");
    auto part = std::make_unique<Part>();
    part->source = std::move(source);
    part->port = std::move(port);
    part->core = core;
    parts_.push_back(std::move(part));
}

void SendThreads::start(double seconds) {
    if (start_) throw std::logic_error("the threads have been started");
    start_ = now_ns() + 2'000'000;
    const bool ends = seconds > 0 && seconds < 9e9;
    const std::int64_t until =
        ends ? start_ + static_cast<std::int64_t>(seconds * 1e9) : std::numeric_limits<std::int64_t>::max();
    left_ = static_cast<int>(parts_.size());
    for (auto& part : parts_) part->thread = std::thread([this, p = part.get(), until] { run(*p, until); });
}

void SendThreads::run(Part& part, std::int64_t until) {
    prctl(PR_SET_TIMERSLACK, 1UL);
    try {
        if (part.core >= 0) {
            cpu_set_t cores;
            CPU_ZERO(&cores);
            if (part.core < CPU_SETSIZE) CPU_SET(part.core, &cores);
            if (const int error = pthread_setaffinity_np(pthread_self(), sizeof cores, &cores))
                throw std::system_error(error, std::generic_category(),
                                        "core " + std::to_string(part.core) + " cannot be had; see 'taskset -p $$'");
        }
        send_all(*part.source, *part.port, start_, until, stop_, part.loop);
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
