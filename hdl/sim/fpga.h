// SPDX-License-Identifier: BSD-3-Clause
// The simulated FPGA: ethernet_core_sim with its clocks.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "Vtop.h"
#include "network.h"
#include "verilated.h"

namespace simulation {

constexpr std::uint64_t kBusy = 4096;   // clocks that time goes on after something happened
constexpr int kAccessClocks = 100'000;  // a register that has not answered by then never will

// Clocks, the wire and the registers.
class Fpga {
  public:
    Fpga(Network& network, bool loopback) : network_(network) {
        top_.loopback = loopback;
        top_.rst = 1;
        top_.s_axi_aresetn = 0;
        for (int i = 0; i < 64; ++i) clock();
        top_.rst = 0;
        top_.s_axi_aresetn = 1;
        for (int i = 0; i < 1024; ++i) clock();  // the link comes up
    }
    ~Fpga() { top_.final(); }
    Fpga(const Fpga&) = delete;
    Fpga& operator=(const Fpga&) = delete;

    static constexpr std::size_t kKeep = sizeof(Vtop::far_rx_tdata);

    void clock() {
        top_.clk = 0;
        if (++phase_ % 2 == 0) top_.s_axi_aclk = !top_.s_axi_aclk;  // a quarter of the clock's rate
        const bool axi_edge = phase_ % 4 == 0;
        if (axi_edge) answered_ = answered();
        top_.eval();
        if (axi_edge) after_axi_edge();
        take();
        const bool moved = top_.far_tx_tvalid && top_.far_tx_tready;
        top_.clk = 1;
        top_.eval();
        if (moved) at_ += kKeep;
        give();
        ++clocks;
    }

    // A register access; false if the core answers with an error, or not at all.
    bool access(bool write, std::uint32_t address, std::uint32_t& value) {
        last_active_ = clocks;
        write_ = write;
        pending_ = true;
        if (write) {
            top_.s_axi_awaddr = address;
            top_.s_axi_wdata = value;
            top_.s_axi_wstrb = 0xf;
            next_aw_ = next_w_ = true;
        } else {
            top_.s_axi_araddr = address;
            next_ar_ = true;
        }
        for (int i = 0; i < kAccessClocks && pending_; ++i) clock();
        if (pending_) return pending_ = false;
        value = value_;
        return response_ == 0;
    }

    bool busy() const { return top_.generating || clocks - last_active_ < kBusy; }
    void loop(bool on) { top_.loopback = on; }

    std::uint64_t clocks = 0, bad = 0, underflows = 0;

  private:
    // What happens at the coming edge of the registers' clock, from the signals before it.
    struct Answer {
        bool aw, w, ar, b, r;
        std::uint32_t data;
        int response;
    };
    Answer answered() {
        return {static_cast<bool>(top_.s_axi_awvalid && top_.s_axi_awready),
                static_cast<bool>(top_.s_axi_wvalid && top_.s_axi_wready),
                static_cast<bool>(top_.s_axi_arvalid && top_.s_axi_arready),
                static_cast<bool>(top_.s_axi_bvalid && top_.s_axi_bready),
                static_cast<bool>(top_.s_axi_rvalid && top_.s_axi_rready),
                top_.s_axi_rdata,
                write_ ? top_.s_axi_bresp : top_.s_axi_rresp};
    }
    void after_axi_edge() {
        if (answered_.aw) top_.s_axi_awvalid = 0;
        if (answered_.w) top_.s_axi_wvalid = 0;
        if (answered_.ar) top_.s_axi_arvalid = 0;
        if (next_aw_) top_.s_axi_awvalid = 1;
        if (next_w_) top_.s_axi_wvalid = 1;
        if (next_ar_) top_.s_axi_arvalid = 1;
        next_aw_ = next_w_ = next_ar_ = false;
        top_.s_axi_bready = top_.s_axi_rready = 1;
        if (pending_ && (write_ ? answered_.b : answered_.r)) {
            pending_ = false;
            value_ = answered_.data;
            response_ = answered_.response;
        }
    }

    // A beat that arrived at the far end.
    void take() {
        if (top_.underflow) ++underflows;
        if (!top_.far_rx_tvalid) return;
        last_active_ = clocks;
        const auto* data = reinterpret_cast<const std::uint8_t*>(&top_.far_rx_tdata);
        const auto* keep = reinterpret_cast<const std::uint8_t*>(&top_.far_rx_tkeep);
        std::size_t bytes = 0;
        while (bytes < kKeep && keep[bytes / 8] >> bytes % 8 & 1) ++bytes;
        arriving_.insert(arriving_.end(), data, data + bytes);
        if (!top_.far_rx_tlast) return;
        if (top_.far_rx_tuser)
            ++bad;
        else
            network_.sent(arriving_, static_cast<std::uint64_t>(1e9 / CLOCK_HZ * static_cast<double>(clocks)));
        arriving_.clear();
    }

    // The next beat that the far end sends.
    void give() {
        auto& queue = network_.incoming;
        if (!queue.empty() && at_ >= queue.front().size()) {
            queue.pop_front();
            at_ = 0;
        }
        top_.far_tx_tvalid = !queue.empty();
        if (queue.empty()) return;
        last_active_ = clocks;
        const Frame& frame = queue.front();
        const std::size_t bytes = std::min(kKeep, frame.size() - at_);
        std::memcpy(&top_.far_tx_tdata, &frame[at_], bytes);
        std::array<std::uint8_t, kKeep / 8> keep{};
        for (std::size_t i = 0; i < bytes; ++i) keep[i / 8] |= static_cast<std::uint8_t>(1u << i % 8);
        std::memcpy(&top_.far_tx_tkeep, keep.data(), keep.size());
        top_.far_tx_tlast = at_ + bytes == frame.size();
    }

    Vtop top_;
    Network& network_;
    Frame arriving_;
    std::size_t at_ = 0;  // in the frame that is being sent to the core
    unsigned phase_ = 0;
    Answer answered_{};
    bool write_ = false, pending_ = false, next_aw_ = false, next_w_ = false, next_ar_ = false;
    std::uint32_t value_ = 0;
    int response_ = 0;
    std::uint64_t last_active_ = 0;
};

}  // namespace simulation
