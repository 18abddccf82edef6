// ryle.channelize._native: the F-engine on a CPU.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "filter.h"
#include "kernels.h"
#include "post.h"
#include "wire/packed.h"

namespace nb = nanobind;

namespace ryle {
namespace {

// Best first.
std::vector<const ChannelizeKernels*> available() {
    std::vector<const ChannelizeKernels*> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512vbmi"))
        found.push_back(&channelize_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        found.push_back(&channelize_avx2);
#endif
    found.push_back(&channelize_portable);
    return found;
}

const ChannelizeKernels& kernels(const std::string& isa) {
    static const std::vector<const ChannelizeKernels*> found = available();
    if (isa.empty()) return *found.front();
    for (const ChannelizeKernels* one : found)
        if (isa == one->name) return *one;
    throw std::invalid_argument("this machine has no instruction set '" + isa + "'");
}

template <typename T>
using Vector1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Which windows are there as a whole: those of spectrum s begin `origin + step·s − coarse[input][s]` after packet 0.
void whole_windows(const Matrix<const int64_t>& coarse, int64_t origin, int64_t step, int64_t window,
                   const Matrix<const uint8_t>& present, int64_t packet_samples, const Matrix<bool>& out) {
    const size_t inputs = coarse.shape(0), spectra = coarse.shape(1), packets = present.shape(1);
    if (present.shape(0) != inputs || out.shape(0) != inputs || out.shape(1) != spectra)
        throw std::invalid_argument("arrays of different shapes");
    if (window < 1 || packet_samples < 1) throw std::invalid_argument("window and packet_samples must be positive");
    const int64_t last = int64_t(packets) * packet_samples - window;
    std::vector<int32_t> missing(packets + 1);  // before each packet
    for (size_t i = 0; i < inputs; i++) {
        const int64_t* delay = coarse.data() + i * spectra;
        const auto start = [&](size_t s) { return origin + step * int64_t(s) - delay[s]; };
        const uint8_t* there = present.data() + i * packets;
        bool* whole = out.data() + i * spectra;
        for (size_t s = 0; s < spectra; s++) {
            const int64_t at = start(s);
            whole[s] = (at >= 0) & (at <= last);
        }
        if (packets == 0 || std::memchr(there, 0, packets) == nullptr) continue;
        for (size_t p = 0; p < packets; p++) missing[p + 1] = missing[p] + (there[p] == 0);
        for (size_t s = 0; s < spectra; s++)
            if (whole[s])
                whole[s] = missing[(start(s) + window - 1) / packet_samples + 1] == missing[start(s) / packet_samples];
    }
}

// Some spectra of one input: its packed pieces and the values of each, and of each spectrum the value at which its
// window begins, whether it is valid, and its delay.
struct Some {
    std::vector<Vector1<const uint8_t>> pieces;
    std::vector<int64_t> values;
    Vector1<const int64_t> starts;
    Vector1<const uint8_t> valid;
    Vector1<const double> fine, phase;
    Vector1<const int64_t> coarse;
    Vector1<const std::complex<float>> gains;
    bool conjugated;
};

// Buffers of one thread, and who transforms rows of them: frames begin a cache line behind each row's start.
struct Workspace {
    Matrix<float> rows;
    nb::callable transform;

    static constexpr int kLead = 16;  // floats
    float* frames() const { return rows.data() + kLead; }
    ptrdiff_t stride() const { return rows.stride(0); }
};

// The channelizer of an observation's inputs, of which it does one, or a part of its spectra, at a time.
//
// The interpreter's lock is taken for the transform alone: all threads of a process want it, and each wait for it is a
// sleep and a wake-up.
class Channelizer {
  public:
    Channelizer(int bits, int parts, int taps, int channels, const Vector1<const float>& weights, int64_t group,
                double slope, const std::string& isa)
        : bits_(bits),
          parts_(parts),
          channels_(channels),
          slope_(slope),
          kernels_(kernels(isa)),
          samples_(sample_kernels(isa)),
          filter_(parts, taps, 2 * int64_t(channels), {weights.data(), weights.data() + weights.size()}, group,
                  kernels_) {}

    // Saturated values, and the sums of the squares of the values that the valid spectra advance over: of integers, of
    // floats.
    std::tuple<int64_t, uint64_t, double> quantize(const Some& some, const Workspace& work, bool dither, uint64_t seed,
                                                   uint32_t input, int limit, uint64_t first_spectrum,
                                                   const Output& output, int64_t bytes, int64_t out_spectrum) const {
        const nb::gil_scoped_release unlocked;
        const int rows = int(some.valid.size());
        if (output.form == Form::blocks && (out_spectrum % kBlock || rows % kBlock))
            throw std::invalid_argument("K-blocks are written 64 spectra at a time");
        if (!output.holds(out_spectrum, rows, channels_, bytes)) throw std::invalid_argument("output too small");
        int64_t saturated = 0;
        batches(some, work, [&](int row, const Turned& turned) {
            saturated += ryle::quantize(turned, {dither, seed, input, limit}, first_spectrum + row, output,
                                        out_spectrum + row, kernels_);
        });
        const Stream stream = stream_of(some);
        uint64_t exact = 0;
        double sum = 0.0;
        for (int row = 0, end; row < rows; row = end) {
            end = row + 1;
            if (!some.valid.data()[row]) continue;
            const int64_t* starts = some.starts.data();
            while (end < rows && some.valid.data()[end] && starts[end] == starts[end - 1] + filter_.step()) end++;
            stream.squares(starts[row], starts[row] + (end - row) * filter_.step(), exact, sum);
        }
        return {saturated, exact, sum};
    }

    void rotate(const Some& some, const Workspace& work, const Matrix<std::complex<float>>& out) const {
        const nb::gil_scoped_release unlocked;
        if (out.shape(0) != some.valid.size() || int(out.shape(1)) != channels_)
            throw std::invalid_argument("output of the wrong shape");
        batches(some, work, [&](int row, const Turned& turned) {
            ryle::rotate(turned, out.data() + int64_t(row) * channels_, kernels_);
        });
    }

  private:
    Stream stream_of(const Some& some) const {
        if (some.pieces.size() != some.values.size()) throw std::invalid_argument("pieces without their lengths");
        Stream stream{{}, bits_, samples_};
        for (size_t i = 0; i < some.pieces.size(); i++) {
            if (some.values[i] < 0 || uint64_t(some.values[i]) * bits_ > some.pieces[i].size() * 8)
                throw std::invalid_argument("samples wanted past the end of the data");
            stream.pieces.push_back({some.pieces[i].data(), some.values[i]});
        }
        return stream;
    }

    // Calls `use(row, turned)` for batches of so many spectra as the workspace has rows.
    template <typename Use>
    void batches(const Some& some, const Workspace& work, Use use) const {
        const int rows = int(some.valid.size()), most = int(work.rows.shape(0));
        if (some.starts.size() != size_t(rows) || some.fine.size() != size_t(rows) ||
            some.phase.size() != size_t(rows) || some.coarse.size() != size_t(rows))
            throw std::invalid_argument("arrays of different numbers of spectra");
        if (int(some.gains.size()) != channels_) throw std::invalid_argument("a gain of each channel is wanted");
        if (most < kTile || most % kTile || work.stride() < Workspace::kLead + 2 * padded(channels_))
            throw std::invalid_argument("a workspace of the wrong shape");
        const Stream stream = stream_of(some);
        const auto transform = [&](int64_t row, int64_t count) {
            const nb::gil_scoped_acquire locked;
            work.transform(row, count);
        };
        for (int row = 0; row < rows; row += most) {
            const int count = std::min(most, rows - row);
            const uint8_t* valid = some.valid.data() + row;
            filter_.apply(stream, {some.starts.data() + row, valid, count}, some.conjugated, work.frames(),
                          work.stride(), transform);
            use(row, Turned{work.frames() - (parts_ == 1), work.stride(), count, channels_, valid,
                            some.fine.data() + row, some.phase.data() + row,
                            parts_ == 1 ? some.coarse.data() + row : nullptr, slope_, some.gains.data()});
        }
    }

    int bits_, parts_, channels_;
    double slope_;
    const ChannelizeKernels& kernels_;
    const SampleKernels& samples_;
    Filter filter_;
};

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const ChannelizeKernels* one : available()) names.emplace_back(one->name);
    return names;
}

}  // namespace
}  // namespace ryle

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    using nb::arg;
    using namespace ryle;
    using Bytes = Vector1<const uint8_t>;
    using Integers = Vector1<const int64_t>;
    using Doubles = Vector1<const double>;
    m.doc() = "The F-engine on a CPU";
    m.attr("COLUMNS") = kColumns;
    m.attr("TILE") = kTile;
    m.attr("LEAD") = Workspace::kLead;
    m.def("instruction_sets", &instruction_sets);
    m.def("whole_windows", &whole_windows, arg("coarse"), arg("origin"), arg("step"), arg("window"), arg("present"),
          arg("packet_samples"), arg("out"), nb::call_guard<nb::gil_scoped_release>());
    nb::class_<Some>(m, "Some").def(nb::init<std::vector<Bytes>, std::vector<int64_t>, Integers, Bytes, Doubles,
                                             Doubles, Integers, Vector1<const std::complex<float>>, bool>(),
                                    arg("pieces"), arg("values"), arg("starts"), arg("valid"), arg("fine"),
                                    arg("phase"), arg("coarse"), arg("gains"), arg("conjugated"));
    nb::class_<Workspace>(m, "Workspace").def(nb::init<Matrix<float>, nb::callable>(), arg("rows"), arg("transform"));
    nb::class_<Channelizer>(m, "Channelizer")
        .def(nb::init<int, int, int, int, const Vector1<const float>&, int64_t, double, const std::string&>(),
             arg("bits"), arg("parts"), arg("taps"), arg("channels"), arg("weights"), arg("group"), arg("slope"),
             arg("isa") = "")
        .def(
            "quantize",
            [](const Channelizer& self, const Some& some, const Workspace& work, bool dither, uint64_t seed,
               uint32_t input, int limit, uint64_t first_spectrum, int form, const Vector1<uint8_t>& out,
               int64_t offset, int64_t channel_stride, int64_t group_stride, int64_t spectrum_stride, int64_t group,
               int64_t out_spectrum) {
                if (offset < 0 || form < 0 || form > 2 || group < 1) throw std::invalid_argument("no such output");
                const Output output{Form(form),   out.data() + offset, channel_stride,
                                    group_stride, spectrum_stride,     group};
                return self.quantize(some, work, dither, seed, input, limit, first_spectrum, output,
                                     int64_t(out.size()) - offset, out_spectrum);
            },
            arg("some"), arg("work"), arg("dither"), arg("seed"), arg("input"), arg("limit"), arg("first_spectrum"),
            arg("form"), arg("out"), arg("offset"), arg("channel_stride"), arg("group_stride"), arg("spectrum_stride"),
            arg("group"), arg("out_spectrum"))
        .def("rotate", &Channelizer::rotate, arg("some"), arg("work"), arg("out"));
}
