#include "gpu_daemon/control/sessions/number_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace carillon::gpud {
namespace {

TEST(NumberPool, GivesEachOfItsNumbersOnceAndNoOther) {
  for (const uint32_t count : {1u, 63u, 64u, 65u, 1000u, 1024u}) {
    NumberPool pool(count);
    for (uint32_t n = 0; n < count; ++n) {
      ASSERT_EQ(pool.LowestFree(), n) << count;
      ASSERT_FALSE(pool.taken(n));
      pool.Take(n);
      ASSERT_TRUE(pool.taken(n));
      ASSERT_EQ(pool.used(), n + 1);
    }
    EXPECT_EQ(pool.LowestFree(), std::nullopt) << count;
  }
}

TEST(NumberPool, TheLowestFreeNumberComesFirstWhateverWasGivenBack) {
  constexpr uint32_t kCount = 200;
  NumberPool pool(kCount);
  std::set<uint32_t> free;
  for (uint32_t n = 0; n < kCount; ++n) free.insert(n);
  std::mt19937 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t n = random() % kCount;
    if (free.contains(n)) {
      pool.Take(n);
      free.erase(n);
    } else {
      pool.GiveBack(n);
      free.insert(n);
    }
    ASSERT_EQ(pool.LowestFree(),
              free.empty() ? std::nullopt : std::optional(*free.begin()));
    ASSERT_EQ(pool.used(), kCount - free.size());
  }
}

}  // namespace
}  // namespace carillon::gpud
