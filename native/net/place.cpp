// Where spead2's chunk streams put each heap: digitizer heaps (one packet each) and F-heaps (many packets).
//
// spead2 calls place() for the first packet of every heap, in its network thread. The counters are written by that
// thread alone and may be read from any other.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <stdexcept>
#include <unordered_map>

#include "window.h"

namespace nb = nanobind;
using ryle::Counter;
using ryle::Window;

namespace {

// spead2's struct chunk_place_data (spead2/recv_chunk_stream.h, version 4): a C interface that only grows at its end.
struct PlaceData {
    const uint8_t* packet;
    size_t packet_size;
    const int64_t* items;
    int64_t chunk_id;
    size_t heap_index;
    size_t heap_offset;
    uint64_t* batch_stats;
    uint8_t* extra;
    size_t extra_offset;
    size_t extra_size;
};

constexpr const char* signature = "void (void *, size_t, void *)";

uint64_t big_endian(const uint8_t* p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; ++i) v = v << 8 | p[i];
    return v;
}

// Whether a heap describes or steers the stream: descriptors (item 5) and stream control (6) are not data.
bool control(const PlaceData& d) {
    const size_t items = d.packet[6] << 8 | d.packet[7];
    for (size_t i = 0; i < items && 16 + 8 * i <= d.packet_size; ++i) {
        const uint64_t id = big_endian(d.packet + 8 + 8 * i) >> 48 & 0x7fff;
        if (id == 5 || id == 6) return true;
    }
    return false;
}

struct Counts {
    Counter heaps, placed, late, duplicate, malformed, foreign;
};

class DigitizerPlace {
  public:
    // The order in which Python asks spead2 for items.
    enum Item { heap_length, payload_offset, payload_length, stream_control, timestamp, digitiser_id, status };

    DigitizerPlace(const std::vector<int64_t>& streams, int64_t heap_samples, int64_t heap_bytes, int64_t chunk_packets,
                   int64_t window)
        : heap_samples_(heap_samples),
          heap_bytes_(heap_bytes),
          chunk_packets_(chunk_packets),
          window_(window),
          seen_(window, std::vector<uint8_t>(streams.size() * chunk_packets)),
          holds_(window, -1),
          stopped_(streams.size()) {
        for (size_t i = 0; i < streams.size(); ++i)
            if (!rows_.emplace(streams[i], i).second) throw std::invalid_argument("streams must differ");
    }

    static void callback(void* data, size_t, void* self) {
        static_cast<DigitizerPlace*>(self)->place(*static_cast<PlaceData*>(data));
    }

    Counts counts;
    Counter saturated, stops;
    Window& window() { return window_; }

  private:
    void place(PlaceData& d) {
        const int64_t* item = d.items;
        counts.heaps.add();
        const auto row = rows_.find(item[digitiser_id]);
        if (control(d)) {
            if (item[stream_control] == 2 && row != rows_.end() && !stopped_[row->second]) {
                stopped_[row->second] = true;
                stops.add();
            }
            return counts.foreign.add();
        }
        if (item[digitiser_id] >= 0 && row == rows_.end()) return counts.foreign.add();
        if (item[digitiser_id] < 0 || item[timestamp] < 0 || item[timestamp] % heap_samples_ != 0 ||
            item[heap_length] != heap_bytes_ || item[payload_offset] != 0 || item[payload_length] != heap_bytes_)
            return counts.malformed.add();
        const int64_t packet = item[timestamp] / heap_samples_;
        int64_t id;
        switch (window_.admit(packet / chunk_packets_, id)) {
            case Window::Verdict::implausible:
                return counts.malformed.add();
            case Window::Verdict::late:
                return counts.late.add();
            case Window::Verdict::open:
                break;
        }
        auto& seen = seen_[id % window_.chunks()];
        if (holds_[id % window_.chunks()] != id) {
            holds_[id % window_.chunks()] = id;
            seen.assign(seen.size(), 0);
        }
        const int64_t slot = row->second * chunk_packets_ + packet % chunk_packets_;
        if (seen[slot]) return counts.duplicate.add();
        seen[slot] = 1;
        counts.placed.add();
        if (item[status] > 0) saturated.add(item[status] >> 32 & 0xffff);
        stopped_[row->second] = false;
        d.chunk_id = id;
        d.heap_index = slot;
        d.heap_offset = slot * heap_bytes_;
    }

    int64_t heap_samples_, heap_bytes_, chunk_packets_;
    Window window_;
    std::unordered_map<int64_t, int64_t> rows_;
    std::vector<std::vector<uint8_t>> seen_;
    std::vector<int64_t> holds_;
    std::vector<bool> stopped_;
};

class SpectraPlace {
  public:
    enum Item { heap_length, payload_offset, payload_length, stream_control, timestamp, feng_id, frequency };

    // slot_bytes: from one heap to the next in a chunk. tail_bytes: the validity item behind the payload.
    SpectraPlace(int64_t antennas, int64_t first_channel, int64_t heap_samples, int64_t heap_bytes, int64_t tail_bytes,
                 int64_t packet_bytes, int64_t slot_bytes, int64_t chunk_heaps, int64_t window)
        : antennas_(antennas),
          first_channel_(first_channel),
          heap_samples_(heap_samples),
          heap_bytes_(heap_bytes),
          tail_bytes_(tail_bytes),
          packet_bytes_(packet_bytes),
          slot_bytes_(slot_bytes),
          chunk_heaps_(chunk_heaps),
          window_(window),
          stopped_(antennas) {
        if (slot_bytes < heap_bytes + tail_bytes) throw std::invalid_argument("a slot must hold a heap and its tail");
    }

    static void callback(void* data, size_t, void* self) {
        static_cast<SpectraPlace*>(self)->place(*static_cast<PlaceData*>(data));
    }

    Counts counts;  // of heaps; a heap whose packets come in two parts counts twice
    Counter stops;
    Counter split_late, split_malformed, split_foreign;  // of those refused: heaps of more packets than the one seen
    Window& window() { return window_; }

  private:
    // Count a heap that is not wanted; `split` counts those of which more packets may come unseen.
    static void refuse(const PlaceData& d, Counter& heaps, Counter& split) {
        heaps.add();
        if (d.items[payload_length] != d.items[heap_length]) split.add();
    }

    void place(PlaceData& d) {
        const int64_t* item = d.items;
        counts.heaps.add();
        const bool known = item[feng_id] >= 0 && item[feng_id] < antennas_;
        if (control(d)) {
            if (item[stream_control] == 2 && known && !stopped_[item[feng_id]]) {
                stopped_[item[feng_id]] = true;
                stops.add();
            }
            return refuse(d, counts.foreign, split_foreign);
        }
        if ((item[feng_id] >= 0 && !known) || (item[frequency] >= 0 && item[frequency] != first_channel_))
            return refuse(d, counts.foreign, split_foreign);
        const bool flagged = item[heap_length] == heap_bytes_ + tail_bytes_;
        const int64_t left = item[heap_length] - item[payload_offset];
        if (item[feng_id] < 0 || item[frequency] < 0 || item[timestamp] < 0 || item[timestamp] % heap_samples_ != 0 ||
            (item[heap_length] != heap_bytes_ && !flagged) || item[payload_offset] % packet_bytes_ != 0 ||
            item[payload_length] != (left < packet_bytes_ ? left : packet_bytes_))
            return refuse(d, counts.malformed, split_malformed);
        const int64_t heap = item[timestamp] / heap_samples_;
        int64_t id;
        switch (window_.admit(heap / chunk_heaps_, id)) {
            case Window::Verdict::implausible:
                return refuse(d, counts.malformed, split_malformed);
            case Window::Verdict::late:
                return refuse(d, counts.late, split_late);
            case Window::Verdict::open:
                break;
        }
        const int64_t slot = item[feng_id] * chunk_heaps_ + heap % chunk_heaps_;
        counts.placed.add();
        stopped_[item[feng_id]] = false;
        d.chunk_id = id;
        d.heap_index = slot * (heap_bytes_ / packet_bytes_ + 1);
        d.heap_offset = slot * slot_bytes_;
        d.extra[0] = flagged ? 2 : 1;
        d.extra_offset = slot;
        d.extra_size = 1;
    }

    int64_t antennas_, first_channel_, heap_samples_, heap_bytes_, tail_bytes_, packet_bytes_, slot_bytes_,
        chunk_heaps_;
    Window window_;
    std::vector<bool> stopped_;
};

template <typename Place>
void bind(nb::class_<Place>& c) {
    c.def_prop_ro("function", [](Place&) { return nb::capsule((void*)&Place::callback, signature); });
    c.def_prop_ro("user_data", [](Place& p) { return nb::capsule(&p); });
    c.def(
        "chunk", [](Place& p, int64_t id) { return p.window().chunk(id); }, nb::arg("id"),
        "(epoch, chunk since sync) of spead2's chunk number.");
    c.def_prop_ro("heaps", [](Place& p) { return p.counts.heaps.get(); });
    c.def_prop_ro("placed", [](Place& p) { return p.counts.placed.get(); });
    c.def_prop_ro("late", [](Place& p) { return p.counts.late.get(); });
    c.def_prop_ro("duplicate", [](Place& p) { return p.counts.duplicate.get(); });
    c.def_prop_ro("malformed", [](Place& p) { return p.counts.malformed.get(); });
    c.def_prop_ro("foreign", [](Place& p) { return p.counts.foreign.get(); });
    c.def_prop_ro("stops", [](Place& p) { return p.stops.get(); });
}

}  // namespace

void bind_place(nb::module_& m) {
    nb::class_<DigitizerPlace> digitizer(m, "DigitizerPlace");
    digitizer.def(nb::init<const std::vector<int64_t>&, int64_t, int64_t, int64_t, int64_t>(), nb::arg("streams"),
                  nb::arg("heap_samples"), nb::arg("heap_bytes"), nb::arg("chunk_packets"), nb::arg("window"));
    digitizer.def_prop_ro("saturated", [](DigitizerPlace& p) { return p.saturated.get(); });
    bind(digitizer);
    nb::class_<SpectraPlace> spectra(m, "SpectraPlace");
    spectra.def(nb::init<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>(),
                nb::arg("antennas"), nb::arg("first_channel"), nb::arg("heap_samples"), nb::arg("heap_bytes"),
                nb::arg("tail_bytes"), nb::arg("packet_bytes"), nb::arg("slot_bytes"), nb::arg("chunk_heaps"),
                nb::arg("window"));
    spectra.def_prop_ro("split", [](SpectraPlace& p) {
        return nb::make_tuple(p.split_late.get(), p.split_malformed.get(), p.split_foreign.get());
    });
    bind(spectra);
}
