#include "mesh/turns.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/testing/eventually.h"

namespace carillon::mesh {
namespace {

TEST(TurnsTest, WhoWaitsHasHisTurnBeforeTheMutexIsTakenAgain) {
  Turns turns;
  Mutex mutex;
  for (int round = 0; round < 100; ++round) {
    int had = 0;
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex);
      for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
          const Turns::Turn turn(turns, mutex);
          ++had;
        });
      }
      EXPECT_TRUE(Eventually([&] { return turns.waiting() == 3; }));
    }
    turns.GiveWay();
    {
      MutexLock lock(mutex);
      EXPECT_EQ(had, 3) << "round " << round;
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(TurnsTest, NobodyWaitsForNobody) {
  Turns turns;
  turns.GiveWay();
  Mutex mutex;
  {
    const Turns::Turn turn(turns, mutex);
    turns.GiveWay();
  }
  EXPECT_EQ(turns.waiting(), 0u);
}

}  // namespace
}  // namespace carillon::mesh
