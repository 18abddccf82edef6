// ryle.array._native: the delays of many inputs at many times, made while Python does something else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace nb = nanobind;

namespace {

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A linear model: delay in samples and phase in radians at its start, and how they change; samples a second.
struct Model {
    double delay, rate, phase, phase_rate, sample_rate;
};
constexpr std::size_t kNumbers = 5;
constexpr std::size_t kWorth = 1 << 17, kThreads = 4;  // delays that are worth a thread, and threads at most

// Adding and taking away 1.5·2^52 rounds to even whatever is below 2^51 in magnitude, and compilers make vectors of it.
constexpr double kRounds = 6755399441055744.0, kMost = 2251799813685248.0;

struct Row {
    std::int64_t* coarse;
    double *fine, *phase;
};

// Compiled for the widest vectors that the machine may have; no sum joins a product, so that all give the same bits.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define RYLE_WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RYLE_WIDEST
#endif

// Delays below `kMost`.
RYLE_WIDEST void linear(const Model& model, std::int64_t start, const std::int64_t* counts, std::size_t first,
                        std::size_t end, const Row& to) {
    const Model m = model;
    std::int64_t* const coarse = to.coarse;
    double *const fine = to.fine, *const phase = to.phase;
    for (std::size_t i = first; i < end; ++i) {
        const double samples = static_cast<double>(counts[i] - start);
        const double delay = m.delay + m.rate * samples;
        const double whole = (delay + kRounds) - kRounds;
        coarse[i] = static_cast<std::int64_t>(whole);
        fine[i] = delay - whole;
        phase[i] = m.phase + m.phase_rate * (samples / m.sample_rate);
    }
}

void linear_of_any_size(const Model& model, std::int64_t start, const std::int64_t* counts, std::size_t first,
                        std::size_t end, const Row& to) {
    for (std::size_t i = first; i < end; ++i) {
        const double samples = static_cast<double>(counts[i] - start);
        const double delay = model.delay + model.rate * samples;
        const double whole = std::nearbyint(delay);
        to.coarse[i] = static_cast<std::int64_t>(whole);
        to.fine[i] = delay - whole;
        to.phase[i] = model.phase + model.phase_rate * (samples / model.sample_rate);
    }
}

// Whether delays between two sample counts are far below `kMost`: they lie between those at the ends.
bool moderate(const Model& model, std::int64_t start, std::int64_t from, std::int64_t to) {
    const auto small = [&](std::int64_t at) {
        return std::fabs(model.delay + model.rate * static_cast<double>(at - start)) < kMost / 2;
    };
    return small(from) && small(to);
}

// Of each input a queue of models in order of their start, each valid until the next one starts; zero before the first.
void evaluate(const Vector<std::int64_t>& counts, const Vector<std::int64_t>& starts, const Numbers& numbers,
              const Vector<std::int64_t>& ends, const Out<std::int64_t>& coarse, const Out<double>& fine,
              const Out<double>& phase) {
    const std::size_t times = counts.size(), inputs = ends.size();
    const auto fits = [&](const auto& out) { return out.shape(0) == inputs && out.shape(1) == times; };
    if (!fits(coarse) || !fits(fine) || !fits(phase) || numbers.shape(0) != starts.size() ||
        numbers.shape(1) != kNumbers)
        throw std::invalid_argument("arrays do not belong together");
    for (std::size_t i = 0; i < inputs; ++i)
        if (ends.data()[i] < (i ? ends.data()[i - 1] : 0) || ends.data()[i] > static_cast<std::int64_t>(starts.size()))
            throw std::invalid_argument("models out of range");
    const nb::gil_scoped_release unlocked;
    const std::int64_t* at = counts.data();
    const bool ascending = std::is_sorted(at, at + times);
    const auto of_input = [&](std::size_t i) {
        const std::int64_t *begin = starts.data() + (i ? ends.data()[i - 1] : 0), *end = starts.data() + ends.data()[i];
        const Row to{coarse.data() + i * times, fine.data() + i * times, phase.data() + i * times};
        for (std::size_t first = 0; first < times;) {
            const std::int64_t* next = std::upper_bound(begin, end, at[first]);
            const bool none = next == begin;
            std::size_t last = first + 1;
            if (ascending)
                last =
                    next == end ? times : static_cast<std::size_t>(std::lower_bound(at + last, at + times, *next) - at);
            else
                while (last < times && (next == end || at[last] < *next) && (none || at[last] >= next[-1])) ++last;
            if (none) {
                std::fill(to.coarse + first, to.coarse + last, 0);
                std::fill(to.fine + first, to.fine + last, 0.0);
                std::fill(to.phase + first, to.phase + last, 0.0);
            } else {
                const double* n = numbers.data() + kNumbers * static_cast<std::size_t>(next - 1 - starts.data());
                const Model model{n[0], n[1], n[2], n[3], n[4]};
                const bool fast = ascending && moderate(model, next[-1], at[first], at[last - 1]);
                (fast ? linear : linear_of_any_size)(model, next[-1], at, first, last, to);
            }
            first = last;
        }
    };
    const std::size_t threads = std::clamp<std::size_t>(inputs * times / kWorth, 1, std::min(kThreads, inputs + 1));
    std::vector<std::jthread> others;
    const auto some = [&](std::size_t thread) {
        for (std::size_t i = thread; i < inputs; i += threads) of_input(i);
    };
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(some, thread);
    some(0);
}

}  // namespace

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    m.doc() = "Delays of many inputs";
    m.def("evaluate", &evaluate, nb::arg("counts"), nb::arg("starts"), nb::arg("numbers"), nb::arg("ends"),
          nb::arg("coarse"), nb::arg("fine"), nb::arg("phase"));
}
