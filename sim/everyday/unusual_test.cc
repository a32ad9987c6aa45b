// Kernels as a stranger may write them.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

class UnusualTest : public CudaTest {
 protected:
  void SetUp() override { Load("unusual"); }
  using Numbers = std::vector<uint32_t>;
};
CUDA_TEST(UnusualTest);

TEST_P(UnusualTest, VisitorsOfExpressionsThatDeleteThemselves) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("visitors", 1, 64, {out}), absl::OkStatus());
  const auto got = Values<uint32_t>(out, 64);
  // The value, and the depth.
  std::function<std::pair<uint32_t, int>(int, int)> build = [&](int n, int s) {
    if (n == 0) return std::pair(static_cast<uint32_t>(s % 5 + 1), 0);
    const bool add = ((s + n) & 1) != 0;
    const auto a = add ? build(n - 1, s * 3 + 1) : build((n - 1) / 2, s + 2);
    const auto b = add ? build((n - 1) / 2, s + 7) : build(n - 1, s * 2);
    return std::pair(add ? a.first + b.first : a.first * b.first,
                     1 + std::max(a.second, b.second));
  };
  for (int i = 0; i < 64; ++i) {
    const auto [value, depth] = build(i % 7, i);
    EXPECT_EQ(got[i], value * 100 + static_cast<uint32_t>(depth)) << i;
  }
  EXPECT_EQ(memory_.heap().used(), 0u);
}

TEST_P(UnusualTest, AStackWithoutLocks) {
  const DeviceAddress out = Zeroes(2);
  const DeviceAddress pool = Zeroes(2 * 256);
  const DeviceAddress head = Zeroes(2);
  ASSERT_EQ(Run("lock_free_stack", 4, 64, {out, pool, head}), absl::OkStatus());
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 256; ++i) sum += i * 3 + 1;
  EXPECT_THAT(Values<uint32_t>(out, 2), testing::ElementsAre(sum, 256));
  EXPECT_THAT(Values<uint32_t>(head, 2), testing::ElementsAre(0, 512));
}

TEST_P(UnusualTest, AMapOfListsWithALockEach) {
  const DeviceAddress out = Zeroes(50);
  const DeviceAddress table = Zeroes(16);
  ASSERT_EQ(Run("hash_map", 4, 96, {table, Zeroes(8)}), absl::OkStatus());
  ASSERT_EQ(Run("read_map", 1, 1, {out, table}), absl::OkStatus());
  std::map<int, uint32_t> counts;
  for (int i = 0; i < 384; ++i) ++counts[i * 37 % 50];
  const auto got = Values<uint32_t>(out, 50);
  for (int key = 0; key < 50; ++key) EXPECT_EQ(got[key], counts[key]) << key;
  EXPECT_EQ(memory_.heap().used(), 0u);
}

TEST_P(UnusualTest, PhilosophersDine) {
  const DeviceAddress out = Zeroes(48);
  ASSERT_EQ(Run("philosophers", 1, 48, {out, Zeroes(48)}), absl::OkStatus());
  EXPECT_THAT(Values(out, 48), testing::Each(6));
}

TEST_P(UnusualTest, AScanThatLooksBack) {
  const DeviceAddress out = Zeroes(40 * 64);
  ASSERT_EQ(Run("look_back", 40, 64, {out, Zeroes(40), Zeroes(40), Zeroes(40)}),
            absl::OkStatus());
  const auto got = Values<uint32_t>(out, 40 * 64);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 40 * 64; ++i) {
    sum += i % 7;
    ASSERT_EQ(got[i], sum) << i;
  }
}

TEST_P(UnusualTest, EachBlockWaitsForTheNextOne) {
  const DeviceAddress out = Zeroes(60);
  ASSERT_EQ(Run("look_ahead", 60, 32, {out, Zeroes(60)}), absl::OkStatus());
  const auto got = Values<uint32_t>(out, 60);
  uint32_t sum = 0;
  for (uint32_t b = 60; b-- > 0;) EXPECT_EQ(got[b], sum += b) << b;
}

TEST_P(UnusualTest, AGridThatMeetsAfterDividedWork) {
  constexpr uint32_t kThreads = 24 * 96;
  const DeviceAddress out = Zeroes(kThreads);
  ASSERT_EQ(Run("divided_grid", 24, 96, {out, Zeroes(kThreads)}, true),
            absl::OkStatus());
  Numbers first(kThreads), second(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) {
    first[i] = i;
    for (uint32_t k = 0; i % 3 != 0 && k < i % 17; ++k) {
      first[i] = first[i] * 5 + k;
    }
  }
  for (uint32_t i = 0; i < kThreads; ++i) {
    second[i] = first[(i * 7 + 1) % kThreads] ^ 5;
  }
  std::reverse(second.begin(), second.end());
  EXPECT_EQ(Values<uint32_t>(out, kThreads), second);
}

TEST_P(UnusualTest, AMachineOfStatesThatAreFunctions) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("state_machine", 1, 64, {out}), absl::OkStatus());
  const auto got = Values<int>(out, 64);
  for (int i = 0; i < 64; ++i) {
    int x = i, s = i % 3, n = 0;
    while (s >= 0 && n < 200) {
      if (s == 0) {
        x += 3;
        s = x % 2 != 0 ? 1 : 2;
      } else if (s == 1) {
        x *= 2;
        s = x > 300 ? -1 : 0;
      } else {
        x -= 1;
        s = x > 300 ? -1 : x % 3 != 0 ? 0 : 1;
      }
      ++n;
    }
    EXPECT_EQ(got[i], x * 1000 + n) << i;
  }
}

TEST_P(UnusualTest, ALambdaThatCallsItself) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("fibonacci", 1, 64, {out}), absl::OkStatus());
  const int numbers[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  const auto got = Values(out, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], numbers[i % 12]) << i;
}

TEST_P(UnusualTest, ObjectsOfTwoBaseClasses) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("two_bases", 1, 64, {out}), absl::OkStatus());
  const auto got = Values(out, 64);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], i % 2 != 0 ? i * (i + 1) * 1000 + 2 * i + 1
                                 : i * 10 * 1000 + 2 * i)
        << i;
  }
  EXPECT_EQ(memory_.heap().used(), 0u);
}

TEST_P(UnusualTest, AQueueFilledByGroups) {
  const DeviceAddress out = Zeroes(256);
  const DeviceAddress count = Zeroes(1);
  ASSERT_EQ(Run("group_queue", 2, 128, {out, count}), absl::OkStatus());
  Numbers wanted;
  for (uint32_t i = 0; i < 256; ++i) {
    if (i % 5 == 2 || i % 7 == 1) wanted.push_back(i);
  }
  auto got = Values<uint32_t>(out, Values(count, 1)[0]);
  std::ranges::sort(got);
  EXPECT_EQ(got, wanted);
}

TEST_P(UnusualTest, AMergeSortOnTheStack) {
  const DeviceAddress out = Zeroes(40 * 50);
  ASSERT_EQ(Run("merge_sort", 1, 40, {out}), absl::OkStatus());
  Numbers wanted(40 * 50);
  for (uint32_t t = 0; t < 40; ++t) {
    const auto begin = wanted.begin() + t * 50;
    for (uint32_t i = 0; i < 50; ++i)
      begin[i] = (i * 7919u + t * 104729u) % 1000;
    std::sort(begin, begin + 30 + t % 21);
  }
  EXPECT_EQ(Values<uint32_t>(out, 40 * 50), wanted);
}

TEST_P(UnusualTest, ReadersAndWriters) {
  const DeviceAddress out = Zeroes(2);
  const DeviceAddress data = Zeroes(2);
  ASSERT_EQ(Run("readers", 3, 64, {out, Zeroes(1), data}), absl::OkStatus());
  EXPECT_THAT(Values(out, 2), testing::ElementsAre(0, 192 - 22));
  EXPECT_THAT(Values(data, 2), testing::ElementsAre(22, 44));
}

TEST_P(UnusualTest, ABarrierOfBlocksMadeByHand) {
  constexpr uint32_t kBlocks = 30;
  const DeviceAddress out = Zeroes(kBlocks * 32);
  ASSERT_EQ(Run("own_barrier", kBlocks, 32, {out, Zeroes(2)}),
            absl::OkStatus());
  Numbers values(kBlocks);
  for (uint32_t r = 0; r < 3; ++r) {
    const Numbers before = values;
    for (uint32_t b = 0; b < kBlocks; ++b) {
      values[b] += before[(b + r + 1) % kBlocks] + 1;
    }
  }
  const auto got = Values<uint32_t>(out, kBlocks * 32);
  for (uint32_t i = 0; i < kBlocks * 32; ++i) {
    ASSERT_EQ(got[i], values[i / 32]) << i;
  }
}

TEST_P(UnusualTest, ASpinOfPlainLoadsWithAFence) {
  const DeviceAddress out = Zeroes(101);
  ASSERT_EQ(Run("plain_spin", 1, 64, {out, Zeroes(1)}), absl::OkStatus());
  EXPECT_EQ(Values(out, 101)[100], 63 * 64 / 2 - 5);
}

TEST_P(UnusualTest, SomeLanesPrintFromTheHeap) {
  ASSERT_EQ(Run("prints", 1, 32, {Zeroes(1)}), absl::OkStatus());
  EXPECT_EQ(printed_.Take(), "dz 3\noz 14\nzz 25\n");
}

TEST_P(UnusualTest, ShufflesInATailRecursion) {
  const DeviceAddress out = Zeroes(32);
  ASSERT_EQ(Run("tail_shuffles", 1, 32, {out}), absl::OkStatus());
  Numbers values(32);
  for (uint32_t i = 0; i < 32; ++i) values[i] = i;
  std::vector<uint32_t> left(32);
  for (uint32_t i = 0; i < 32; ++i) left[i] = 9;
  for (uint32_t n = 9; n > 0; --n) {
    const Numbers before = values;
    for (uint32_t i = 0; i < 32; ++i) values[i] += before[i ^ n];
  }
  EXPECT_EQ(Values<uint32_t>(out, 32), values);
}

TEST_P(UnusualTest, AMaskThatShrinks) {
  const DeviceAddress out = Zeroes(32);
  ASSERT_EQ(Run("shrinking_mask", 1, 32, {out}), absl::OkStatus());
  Numbers s(32);
  for (uint32_t i = 0; i < 32; ++i) s[i] = i;
  for (uint32_t k = 0; k < 32; ++k) {
    const Numbers before = s;
    for (uint32_t i = k; i < 32; ++i) {
      s[i] += before[(i + 1) % 32 >= k ? (i + 1) % 32 : i];
    }
  }
  EXPECT_EQ(Values<uint32_t>(out, 32), s);
}

}  // namespace
}  // namespace carillon::sim
