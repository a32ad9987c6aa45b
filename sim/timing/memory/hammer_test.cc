// Hundreds of thousands of random requests through random small memories, with queues of one
// or two places, one MSHR, one bank, and ports that are too narrow: each is
// answered once, in a bounded time, and afterwards nothing is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sim/timing/memory/memory_system.h"

namespace carillon::sim::timing {
namespace {

class Hammer {
 public:
  explicit Hammer(uint32_t seed) : random_(seed) {}

  Config RandomConfig() {
    Config config = *LoadConfig("tiny");
    config.sm.count = 1 + Below(5);
    config.clock.interconnect_mhz = Pick({400, 1000, 2300});
    config.clock.l2_mhz = Pick({500, 1000, 1900});
    config.clock.dram_mhz = Pick({300, 1000, 3500});
    config.l2_slices = Pick({1, 2, 4, 8});
    config.dram.channels = std::min(config.l2_slices, Pick({1, 2, 4}));
    config.l2.bytes = config.l2_slices * Pick({256, 512, 2048});
    config.l2.ways = Pick({1, 2});
    config.l2.mshrs = config.l2_slices * Pick({1, 2, 8});
    config.l2.merges = Pick({1, 2, 5});
    config.l2.latency = Pick({1, 20});
    config.l2_data_bytes = Pick({8, 32, 128});
    config.l2_queue = Pick({1, 2, 8});
    config.l2_dram_queue = Pick({1, 2, 8});
    config.interconnect.latency = Pick({0, 1, 5, 60});
    config.interconnect.request_bytes = Pick({4, 32});
    config.interconnect.reply_bytes = Pick({4, 32});
    config.interconnect.slice_bytes = Pick({4, 32, 64});
    config.interconnect.sm_queue = Pick({1, 2, 8});
    config.interconnect.slice_replies = Pick({1, 2, 8});
    config.interconnect.sm_replies = Pick({1, 2, 8});
    config.dram.banks = Pick({1, 2, 16});
    config.dram.read_queue = Pick({1, 2, 16});
    config.dram.write_queue = Pick({1, 2, 16});
    config.dram.write_high = 1 + Below(config.dram.write_queue);
    config.dram.write_low = 1 + Below(config.dram.write_high);
    config.dram.write_turn = Pick({1, 2, 8});
    config.dram.row_hits = Pick({0, 1, 8});
    config.dram.refresh = 50;
    config.dram.refresh_interval = Pick({0, 51, 700});
    return config;
  }

  MemoryRequest RandomRequest(uint32_t sm, uint32_t tag) {
    MemoryRequest request = {
        .line = Below(hot_) * 128ull,
        .tag = tag,
        .sm = static_cast<uint16_t>(sm),
        .sectors = static_cast<Sectors>(1 + Below(15)),
        .kind = static_cast<RequestKind>(
            Pick({0, 0, 0, 1, 2, 2, 2, 3}))};  // RequestKind's order
    if (request.kind == RequestKind::kAtomic) {
      request.lanes = static_cast<uint8_t>(1 + Below(32));
    }
    return request;
  }

  void Run() {
    const Config config = RandomConfig();
    MemorySystem memory(config);
    hot_ = Pick({1, 4, 100});
    const uint32_t count = 600;
    std::vector<int> answers(count);
    std::vector<bool> may_send(config.sm.count, true);
    uint32_t sent = 0;
    uint32_t answered = 0;
    Cycle now = 0;
    for (; answered < count && now < 10'000'000; ++now) {
      memory.Advance(now, [&](const MemoryRequest& reply) {
        if (reply.kind == RequestKind::kRoom) {
          may_send[reply.sm] = true;
          return;
        }
        ++answers[reply.tag];
        ++answered;
      });
      // Each SM sends as much as it can, and asks no more before it is told.
      for (uint32_t sm = 0; sm < config.sm.count; ++sm) {
        while (may_send[sm] && sent < count) {
          may_send[sm] = memory.CanSend(sm, now);
          if (may_send[sm]) memory.Send(RandomRequest(sm, sent++), now);
        }
      }
      if (memory.next(now) == kNever && sent == count) break;
      ASSERT_TRUE(sent == count || memory.next(now) != kNever ||
                  std::ranges::count(may_send, true) != 0)
          << "nothing will happen any more";
    }
    EXPECT_EQ(answered, count);
    EXPECT_TRUE(std::ranges::all_of(answers, [](int n) { return n == 1; }));
    for (int i = 0; i < 3000; ++i) {
      memory.Advance(++now, [&](const MemoryRequest& reply) {
        EXPECT_EQ(reply.kind, RequestKind::kRoom);
      });
    }
    EXPECT_TRUE(memory.idle());
  }

 private:
  uint32_t Below(uint32_t end) {
    return std::uniform_int_distribution<uint32_t>(0, end - 1)(random_);
  }
  uint32_t Pick(std::initializer_list<uint32_t> of) {
    return of.begin()[Below(static_cast<uint32_t>(of.size()))];
  }

  std::mt19937 random_;
  uint32_t hot_ = 1;  // lines
};

TEST(MemorySystem, EveryRequestIsAnsweredOnceWhateverIsFull) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Hammer(seed).Run();
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace carillon::sim::timing
