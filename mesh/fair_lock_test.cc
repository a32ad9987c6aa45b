#include "mesh/fair_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/testing/eventually.h"

namespace carillon::mesh {
namespace {

TEST(FairLockTest, WhoWaitsHasHisTurnBeforeTheMutexIsTakenAgain) {
  FairLock fair;
  Mutex mutex;
  for (int round = 0; round < 100; ++round) {
    int had = 0;
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex);
      for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
          const FairLock::Holder holder(fair, mutex);
          ++had;
        });
      }
      EXPECT_TRUE(Eventually([&] { return fair.waiting() == 3; }));
    }
    fair.GiveWay();
    {
      MutexLock lock(mutex);
      EXPECT_EQ(had, 3) << "round " << round;
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(FairLockTest, NobodyWaitsForNobody) {
  FairLock fair;
  fair.GiveWay();
  Mutex mutex;
  {
    const FairLock::Holder holder(fair, mutex);
    fair.GiveWay();
  }
  EXPECT_EQ(fair.waiting(), 0u);
}

}  // namespace
}  // namespace carillon::mesh
