// Three threads record at once, into files of many kinds: prints packets, unrecorded, bytes written, packets passed on.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "receive/recorder.h"

using namespace ryle;

int main(int, char** arguments) {
    for (int round = 0; round < 3; ++round) {
        RecorderPlan plan;
        plan.stem = std::string(arguments[1]) + "/" + std::to_string(round);
        plan.heads = {std::vector<std::uint8_t>(42), std::vector<std::uint8_t>(62)};
        plan.buffer_bytes = 1 << 18;
        plan.buffers = 2 + round;
        plan.file_bytes = round == 1 ? 300000 : 0;
        plan.direct = round != 2;
        Discard next;
        Recorder recorder(plan, &next);
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t)
            threads.emplace_back([&, t] {
                const std::vector<std::uint8_t> data(9000, static_cast<std::uint8_t>(t));
                for (std::uint32_t i = 0; i < 200; ++i) {
                    std::vector<Arrival> batch;
                    for (std::uint32_t k = 0; k < 5; ++k)
                        batch.push_back({data.data(), (i * 37 + k * 1001) % 9000, k % 3, nullptr, nullptr});
                    recorder.take(batch);
                    if (i % 50 == 0) (void)recorder.counts();
                    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
            });
        for (std::thread& thread : threads) thread.join();
        recorder.close();
        const RecorderCounts c = recorder.counts();
        std::printf("%lld %lld %lld %lld\n", static_cast<long long>(c.packets), static_cast<long long>(c.unrecorded),
                    static_cast<long long>(c.bytes), static_cast<long long>(next.packets()));
    }
}
