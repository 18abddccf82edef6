#include "source.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

namespace ryle {
namespace {

std::int64_t nanoseconds(clockid_t clock) {
    timespec t{};
    return clock_gettime(clock, &t) == 0 ? t.tv_sec * 1'000'000'000LL + t.tv_nsec : -1;
}

}  // namespace

Source::Source(std::vector<std::unique_ptr<Worker>> workers, std::vector<int> cores) : workers_(std::move(workers)) {
    if (workers_.empty()) throw std::invalid_argument("a source needs at least one thread");
    for (const int core : cores)
        if (core < 0 || core >= CPU_SETSIZE) throw std::invalid_argument("there is no such core");
    for (std::size_t i = 0; i < workers_.size() && !cores.empty(); ++i) workers_[i]->core_ = cores[i % cores.size()];
}

Source::~Source() {
    stop();
    for (auto& worker : workers_)
        if (worker->thread_.joinable()) worker->thread_.join();
}

void Source::start() {
    if (started_) throw std::logic_error("a source starts once; make another");
    started_ = true;
    for (auto& worker : workers_) worker->open();
    for (auto& worker : workers_) {
        worker->began_ = std::chrono::steady_clock::now();
        worker->running_ = true;
        worker->thread_ = std::thread([this, w = worker.get()] { body(*w); });
        pthread_setname_np(worker->thread_.native_handle(), worker->name_.substr(0, 15).c_str());
        if (worker->core_ < 0) continue;
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(worker->core_, &set);
        if (const int e = pthread_setaffinity_np(worker->thread_.native_handle(), sizeof set, &set)) {
            stop();
            throw std::system_error(e, std::generic_category(),
                                    "cannot run a thread on core " + std::to_string(worker->core_));
        }
    }
}

void Source::body(Worker& worker) {
    try {
        worker.run();
    } catch (const std::exception& e) {
        const std::lock_guard lock(mutex_);
        if (error_.empty()) error_ = worker.name_ + ": " + e.what();
    }
    worker.drops_ = worker.kernel_drops();
    worker.cpu_ns_ = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    worker.wall_ns_ = (std::chrono::steady_clock::now() - worker.began_) / std::chrono::nanoseconds(1);
    worker.running_ = false;
}

void Source::stop() {
    for (auto& worker : workers_) worker->stop_ = true;
}

bool Source::join(std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (running()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (auto& worker : workers_)
        if (worker->thread_.joinable()) worker->thread_.join();
    return true;
}

bool Source::running() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->running_.load(); });
}

std::vector<ThreadReport> Source::report() const {
    std::vector<ThreadReport> reports;
    for (const auto& w : workers_) {
        ThreadReport r;
        r.name = w->name_;
        r.core = w->core_;
        r.running = w->running_;
        r.cpu_seconds = w->cpu_ns_ * 1e-9;
        r.wall_seconds = w->wall_ns_ * 1e-9;
        r.packets = w->packets_;
        r.bytes = w->bytes_;
        r.calls = w->calls_;
        r.interruptions = w->interruptions();
        r.discarded = w->discarded();
        if (r.running) {
            clockid_t clock;
            if (pthread_getcpuclockid(const_cast<std::thread&>(w->thread_).native_handle(), &clock) == 0)
                if (const std::int64_t ns = nanoseconds(clock); ns >= 0) r.cpu_seconds = ns * 1e-9;
            r.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - w->began_).count();
            r.kernel_drops = w->kernel_drops();
        } else {
            r.kernel_drops = w->drops_;
        }
        reports.push_back(std::move(r));
    }
    return reports;
}

std::string Source::error() const {
    const std::lock_guard lock(mutex_);
    return error_;
}

}  // namespace ryle
