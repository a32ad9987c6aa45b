#include "sim/exec/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace carillon::sim {
namespace {

// TSan sees a turn that reads while another thread frees.
TEST(Turns, NothingGoesDuringATurnAndNobodyStarves) {
  constexpr int kFrees = 200;
  Turns turns;
  bool there = true;
  std::atomic<int> freeing{2};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int free = 0; free < kFrees; ++free) {
        turns.Between([&] {
          there = false;
          std::this_thread::yield();
          there = true;
        });
      }
      --freeing;
    });
  }
  // At every moment some thread has a turn or wants one.
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      do {
        const Turns::Turn turn(&turns);
        std::this_thread::yield();
        EXPECT_TRUE(there);
      } while (freeing != 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace carillon::sim
