// Stretches of files to places in memory, by several threads that share them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace {

template <typename T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = Array<const std::int64_t>;

constexpr std::int64_t kWorth = 1 << 20;  // bytes that are worth a thread

// Whether a stretch was read; if not, what `errno` says, or 0 if the file ends before it does.
std::pair<bool, int> read_one(int file, std::int64_t at, std::uint8_t* to, std::int64_t size) {
    while (size > 0) {
        const ssize_t got = pread(file, to, static_cast<std::size_t>(size), at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return {false, got < 0 ? errno : 0};
        at += got, to += got, size -= got;
    }
    return {true, 0};
}

// All in one call, without the interpreter's lock: a reader that asks for it after each stretch waits as often for
// threads that channelize. Gives -1, or the first stretch that could not be read, and its `errno`.
std::pair<std::int64_t, int> read_pieces(const Numbers& files, const Numbers& at, const Numbers& to,
                                         const Numbers& sizes, const Array<std::uint8_t>& out, unsigned threads) {
    const std::size_t count = files.shape(0);
    if (at.shape(0) != count || to.shape(0) != count || sizes.shape(0) != count)
        throw std::invalid_argument("a file, a place, a destination and a size of each stretch");
    const auto room = static_cast<std::int64_t>(out.shape(0));
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t size = sizes.data()[i], begin = to.data()[i];
        if (at.data()[i] < 0 || size < 0 || begin < 0 || begin > room || size > room - begin)
            throw std::out_of_range("a stretch beyond the memory");
        bytes += size;
    }
    const nb::gil_scoped_release unlocked;
    std::atomic<std::size_t> next{0};
    std::mutex telling;
    std::pair<std::int64_t, int> failed{-1, 0};
    const auto work = [&] {
        for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
            const auto [done, why] =
                read_one(static_cast<int>(files.data()[i]), at.data()[i], out.data() + to.data()[i], sizes.data()[i]);
            if (done) continue;
            const std::lock_guard lock(telling);
            const auto mine = static_cast<std::int64_t>(i);
            if (failed.first < 0 || mine < failed.first) failed = {mine, why};
            next = count;
        }
    };
    std::vector<std::jthread> others;
    const std::int64_t wanted = std::min<std::int64_t>(threads, 1 + bytes / kWorth);
    for (std::int64_t n = 1; n < wanted; ++n) others.emplace_back(work);
    work();
    others.clear();
    return failed;
}

}  // namespace

void bind_pieces(nb::module_& m) {
    using namespace nb::literals;
    m.def("read_pieces", &read_pieces, "files"_a, "at"_a, "to"_a, "sizes"_a, "out"_a, "threads"_a = 1,
          "Read stretches of files, by their numbers, to places in memory; -1, or the first that cannot be read.");
}
