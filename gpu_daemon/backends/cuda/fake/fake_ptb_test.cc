// That the fake GPU's persistent blocks divide their work as ptb_kernel.cuh's do.
#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

class FakePtbTest : public ::testing::Test {
 protected:
  // The blocks that ran, in their order.
  std::vector<uint64_t> Run(uint32_t threads) {
    std::vector<uint64_t> ran;
    std::mutex mutex;
    EXPECT_TRUE(RunPtb(supply_, threads, [&](uint64_t block) {
      {
        const std::lock_guard lock(mutex);
        ran.push_back(block);
        runners_.insert(std::this_thread::get_id());
      }
      if (stop_while_running_) {
        std::atomic_ref(stop_).store(1, std::memory_order_relaxed);
        while (
            std::atomic_ref(words_.stopped).load(std::memory_order_relaxed) ==
            0) {
          std::this_thread::yield();
        }
      }
      return true;
    }));
    std::ranges::sort(ran);
    return ran;
  }
  std::vector<uint64_t> Numbers(uint64_t from, uint64_t count) {
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), from);
    return numbers;
  }
  // What the host then reads as the first block that has not run.
  uint64_t End() {
    EndPtb(frame_, supply_);
    EXPECT_EQ(words_.taken, 0u);
    EXPECT_EQ(words_.stopped, 0u);
    EXPECT_EQ(words_.arrived, 0u);
    EXPECT_EQ(ecq_.sequence, 7u);
    return ended_;
  }

  simt::BlocksTaken words_;
  uint32_t stop_ = 0;
  uint64_t ended_ = 0;
  simt::BlockSupply supply_ = {.grid = {10, 20, 5},
                               .first = 10,
                               .taken = &words_,
                               .stop = &stop_,
                               .ended = &ended_};
  bool stop_while_running_ = false;
  std::set<std::thread::id> runners_;

 private:
  simt::EventScratch scratch_{};
  shm::EcqEntry ecq_{};
  const simt::EventFrame frame_ = {.ecq = &ecq_,
                                   .scratch = &scratch_,
                                   .totals = nullptr,
                                   .life = nullptr,
                                   .sequence = 7,
                                   .clock_offset_ns = 0,
                                   .slot_ended = nullptr,
                                   .launcher_ended = nullptr};
};

TEST_F(FakePtbTest, OneOfSeveralRunsNoBlock) {
  EXPECT_THAT(Run(3), ElementsAreArray(Numbers(10, 990)));
  EXPECT_EQ(words_.arrived, 3u);
  EXPECT_LE(runners_.size(), 2u);
  EXPECT_EQ(End(), 1000u);
}

TEST_F(FakePtbTest, TheWatchingOneEndsTheTaking) {
  stop_while_running_ = true;
  const std::vector<uint64_t> ran = Run(3);
  // Each of the two had one, and none takes another.
  EXPECT_GE(ran.size(), 1u);
  EXPECT_LE(ran.size(), 2u);
  EXPECT_EQ(words_.stopped, ran.size() + 1);
  EXPECT_THAT(ran, ElementsAreArray(Numbers(10, ran.size())));
  EXPECT_EQ(End(), 10 + ran.size());
}

TEST_F(FakePtbTest, OneAloneLooksItselfBeforeEachBlock) {
  EXPECT_THAT(Run(1), ElementsAreArray(Numbers(10, 990)));
  EXPECT_EQ(End(), 1000u);
  stop_ = 1;
  EXPECT_THAT(Run(1), IsEmpty());
  EXPECT_EQ(End(), 10u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
