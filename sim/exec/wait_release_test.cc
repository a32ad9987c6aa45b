#include "sim/exec/wait_release.h"

#include <gtest/gtest.h>

#include <random>

namespace carillon::sim {
namespace {

constexpr uint64_t kFirst = 1;
constexpr uint64_t kSecond = 2;
constexpr uint64_t kBoth = 3;

class WaitReleaseTest : public testing::Test {
 protected:
  WaitReleaseTest() { block_.Start(&releases_, kBoth); }

  Releases releases_;
  WaitRelease block_;
};

TEST_F(WaitReleaseTest, HoldsWarpsUntilARelease) {
  EXPECT_FALSE(block_.Wait(0, kFirst));
  EXPECT_FALSE(block_.Wait(0, kSecond));
  EXPECT_EQ(block_.Wake(), 0u);
  releases_.Release(0);
  EXPECT_EQ(block_.Wake(), kBoth);
  EXPECT_EQ(block_.waiting(), 0u);
  EXPECT_FALSE(block_.Wait(0, kFirst)) << "it is locked again";
}

TEST_F(WaitReleaseTest, AReleaseBeforeTheWaitLetsAllOfABlockPassOnce) {
  releases_.Release(0);
  EXPECT_TRUE(block_.Wait(0, kSecond));
  EXPECT_FALSE(block_.Wait(0, kSecond)) << "the first has not passed yet";
  EXPECT_TRUE(block_.Wait(0, kFirst));
  EXPECT_EQ(block_.Wake(), 0u);
  EXPECT_FALSE(block_.Wait(0, kFirst));
}

TEST_F(WaitReleaseTest, OneThatIsBackBeforeTheOthersPassesByTheNextRelease) {
  releases_.Release(0);
  EXPECT_TRUE(block_.Wait(0, kFirst));
  EXPECT_FALSE(block_.Wait(0, kFirst));
  releases_.Release(0);
  EXPECT_EQ(block_.Wake(), 0u) << "the second warp has not passed by the first";
  EXPECT_TRUE(block_.Wait(0, kSecond));
  EXPECT_EQ(block_.Wake(), kFirst);
  EXPECT_TRUE(block_.Wait(0, kSecond));
  EXPECT_FALSE(block_.Wait(0, kSecond));
}

TEST_F(WaitReleaseTest, ReleasesBeforeTheFirstPassAreOne) {
  releases_.Release(0);
  releases_.Release(0);
  EXPECT_TRUE(block_.Wait(0, kFirst));
  EXPECT_TRUE(block_.Wait(0, kSecond));
  EXPECT_FALSE(block_.Wait(0, kFirst));
}

TEST_F(WaitReleaseTest, AnExitIsAsGoodAsAPass) {
  releases_.Release(0);
  EXPECT_TRUE(block_.Wait(0, kFirst));
  EXPECT_FALSE(block_.Wait(0, kFirst));
  releases_.Release(0);
  block_.Exited(kSecond);
  EXPECT_EQ(block_.Wake(), kFirst);
}

TEST_F(WaitReleaseTest, EachBlockPassesByARelease) {
  WaitRelease other;
  other.Start(&releases_, kFirst);
  EXPECT_FALSE(block_.Wait(0, kFirst));
  releases_.Release(0);
  EXPECT_EQ(block_.Wake(), kFirst);
  EXPECT_TRUE(other.Wait(0, kFirst));
}

TEST_F(WaitReleaseTest, ALaterBlockPassesIfNobodyHas) {
  releases_.Release(0);
  WaitRelease later;
  later.Start(&releases_, kFirst);
  EXPECT_TRUE(later.Wait(0, kFirst));
  WaitRelease last;
  last.Start(&releases_, kFirst);
  EXPECT_FALSE(last.Wait(0, kFirst));
}

// No release may be lost: after the last release, every warp passes at least
// once more, or had not yet passed by an earlier one.
TEST(WaitReleaseProperty, NoReleaseIsLost) {
  std::mt19937 random(7);
  for (int run = 0; run < 20'000; ++run) {
    Releases releases;
    WaitRelease block;
    const uint32_t warps = 1 + random() % 4;
    block.Start(&releases, (uint64_t{1} << warps) - 1);
    uint64_t ready = (uint64_t{1} << warps) - 1;
    std::array<int, 4> passes_since{};
    const int steps = static_cast<int>(random() % 40);
    const auto step = [&](uint32_t warp) {
      const uint64_t bit = uint64_t{1} << warp;
      const auto passed = [&](uint64_t which) {
        for (uint32_t w = 0; w < warps; ++w) passes_since[w] += which >> w & 1;
      };
      if (block.Wait(0, bit)) {
        passed(bit);
      } else {
        ready &= ~bit;
      }
      const uint64_t woken = block.Wake();
      ready |= woken;
      passed(woken);
    };
    const auto release = [&] {
      releases.Release(0);
      passes_since = {};
      const uint64_t woken = block.Wake();
      ready |= woken;
      for (uint32_t w = 0; w < warps; ++w) passes_since[w] += woken >> w & 1;
    };
    for (int i = 0; i < steps; ++i) {
      const auto warp = static_cast<uint32_t>(random() % warps);
      if (random() % 4 == 0) {
        release();
      } else if (ready >> warp & 1) {
        step(warp);
      }
    }
    release();
    for (int turn = 0; ready != 0; ++turn) {
      ASSERT_LT(turn, 100) << "it never locks";
      for (uint32_t w = 0; w < warps; ++w) {
        if (ready >> w & 1) step(w);
      }
    }
    for (uint32_t w = 0; w < warps; ++w) {
      ASSERT_GE(passes_since[w], 1) << "run " << run << ", warp " << w;
    }
  }
}

}  // namespace
}  // namespace carillon::sim
