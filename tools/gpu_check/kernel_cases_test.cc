#include "tools/gpu_check/kernel_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "kernels/forwarding/wire.h"
#include "kernels/ipsec/wire.h"
#include "kernels/memcached/gnom_wire.h"
#include "kernels/registry.h"

namespace carillon::gpu_check {
namespace {

using ::testing::IsEmpty;

struct Memory {
  explicit Memory(uint64_t size)
      : bytes(new (std::align_val_t(256)) std::byte[size]()), size(size) {}
  ~Memory() { ::operator delete[](bytes, std::align_val_t(256)); }
  std::span<std::byte> span() const { return {bytes, size}; }
  std::byte* bytes;
  uint64_t size;
};

TEST(KernelCases, CoverEveryKernel) {
  std::vector<std::string> missing;
  MakeCases(1, &missing);
  EXPECT_THAT(missing, IsEmpty());
}

TEST(KernelCases, GiveTheSameTwiceAndOtherThingsWithAnotherSeed) {
  std::vector<std::string> missing;
  const auto one = MakeCases(7, &missing);
  const auto same = MakeCases(7, &missing);
  const auto other = MakeCases(8, &missing);
  ASSERT_EQ(one.size(), same.size());
  bool differs = false;
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, same[i].name);
    for (size_t k = 0; k < one[i].buffers.size(); ++k) {
      EXPECT_EQ(one[i].buffers[k].initial, same[i].buffers[k].initial);
    }
    differs = differs || one[i].name != other[i].name;
  }
  EXPECT_TRUE(differs);
}

// The comparison would be worth nothing if the kernels refused their arguments,
// or if a case did not change what it compares.
TEST(KernelCases, DoSomethingThatIsCompared) {
  std::set<std::string_view> good;
  std::set<uint32_t> statuses;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<std::string> missing;
    for (const Case& one : MakeCases(seed, &missing)) {
      Memory memory(Arena::BytesFor(one));
      Memory untouched(Arena::BytesFor(one));
      const Arena arena(one, memory.span());
      const Arena before(one, untouched.span());
      bool failed = false;
      for (const CaseLaunch& launch : one.launches) {
        arena.Feed(launch);
        before.Feed(launch);
        const uint32_t status = RunOnCpu(launch, arena.Args(launch));
        statuses.insert(status);
        failed = failed || status != 0;
      }
      EXPECT_TRUE(CompareArenas(one, arena, arena).ok());
      const bool compares = std::ranges::any_of(
          one.buffers,
          [](const Buffer& b) { return b.compare != Compare::kNot; });
      if (failed || !compares) continue;
      good.insert(one.launches[0].kmd.kernel->name);
      if (one.name.starts_with("reduce of 0 ")) continue;
      EXPECT_FALSE(CompareArenas(one, before, arena).ok()) << one.name;
    }
  }
  // All but null_event, busy, fail_if, memc_get and memc_gnom_get, which come
  // behind memc_set, the forwarders, which come behind fib_write, and ESP's, of
  // which one launch is refused.
  EXPECT_EQ(good.size(), 45u);
  EXPECT_TRUE(statuses.contains(1));
  EXPECT_TRUE(statuses.contains(2));
}

TEST(KernelCases, MemcachedStoresAndFinds) {
  std::vector<std::string> missing;
  for (const Case& one : MakeCases(3, &missing)) {
    if (!one.name.starts_with("memcached")) continue;
    Memory memory(Arena::BytesFor(one));
    const Arena arena(one, memory.span());
    const auto first_reply = [&](size_t launch) {
      arena.Feed(one.launches[launch]);
      EXPECT_EQ(
          RunOnCpu(one.launches[launch], arena.Args(one.launches[launch])), 0u);
      return std::string(reinterpret_cast<const char*>(arena.buffer(2).data()),
                         8);
    };
    EXPECT_EQ(first_reply(0), "STORED\r\n");
    EXPECT_EQ(first_reply(1), "STORED\r\n");  // memc_recover answers nobody
    EXPECT_EQ(first_reply(2).substr(0, 6), "VALUE ");
    EXPECT_EQ(first_reply(3).substr(0, 6), "VALUE ");
    return;
  }
  FAIL() << "no such case";
}

TEST(KernelCases, GnomAnswersMostFramesAndJudgesTheOthers) {
  std::vector<std::string> missing;
  for (const Case& one : MakeCases(3, &missing)) {
    if (!one.name.starts_with("GNoM")) continue;
    Memory memory(Arena::BytesFor(one));
    const Arena arena(one, memory.span());
    for (const CaseLaunch& launch : one.launches) {
      arena.Feed(launch);
      EXPECT_EQ(RunOnCpu(launch, arena.Args(launch)), 0u);
    }
    std::map<memcached::GnomVerdict, int> verdicts;
    const auto results = arena.buffer(9);
    for (size_t i = 0; i < results.size(); i += sizeof(memcached::GnomResult)) {
      memcached::GnomResult result;
      std::memcpy(&result, &results[i], sizeof(result));
      ++verdicts[result.verdict];
    }
    EXPECT_GT(verdicts[memcached::GnomVerdict::kAnswered], 200);
    EXPECT_GE(verdicts.size(), 4u);
    return;
  }
  FAIL() << "no such case";
}

TEST(KernelCases, ForwardersForwardMostPacketsAndJudgeTheOthers) {
  std::vector<std::string> missing;
  int cases = 0;
  for (const Case& one : MakeCases(3, &missing)) {
    if (one.name.find("forwarding by") == one.name.npos) continue;
    ++cases;
    Memory memory(Arena::BytesFor(one));
    const Arena arena(one, memory.span());
    for (const CaseLaunch& launch : one.launches) {
      arena.Feed(launch);
      EXPECT_EQ(RunOnCpu(launch, arena.Args(launch)), 0u);
    }
    std::map<forwarding::Verdict, int> verdicts;
    const auto results = arena.buffer(6);
    for (size_t i = 0; i < results.size(); i += sizeof(forwarding::Result)) {
      forwarding::Result result;
      std::memcpy(&result, &results[i], sizeof(result));
      ++verdicts[result.verdict];
    }
    EXPECT_GT(verdicts[forwarding::Verdict::kForward], 90) << one.name;
    EXPECT_GE(verdicts.size(), 5u) << one.name;
  }
  EXPECT_EQ(cases, 2);
}

TEST(KernelCases, EspDecryptsMostOfWhatItEncryptsAndJudgesTheOthers) {
  std::vector<std::string> missing;
  for (const Case& one : MakeCases(3, &missing)) {
    if (!one.name.starts_with("ESP")) continue;
    Memory memory(Arena::BytesFor(one));
    const Arena arena(one, memory.span());
    std::vector<std::map<ipsec::Verdict, uint64_t>> after;
    for (const CaseLaunch& launch : one.launches) {
      arena.Feed(launch);
      RunOnCpu(launch, arena.Args(launch));
      after.emplace_back();
      for (uint32_t i = 0; i < ipsec::kVerdicts; ++i) {
        std::memcpy(&after.back()[static_cast<ipsec::Verdict>(i)],
                    &arena.buffer(3)[i * sizeof(uint64_t)], sizeof(uint64_t));
      }
    }
    using ipsec::Verdict;
    EXPECT_GT(after[1][Verdict::kDone], 50u);
    EXPECT_EQ(after[1][Verdict::kExpired], 2u);
    EXPECT_GT(after[2][Verdict::kDone], 50u + after[1][Verdict::kDone] - 20);
    EXPECT_EQ(after[2][Verdict::kBadIcv], 8u);
    EXPECT_GE(after[2][Verdict::kTruncated], 2u);
    EXPECT_EQ(after[3][Verdict::kDone], after[2][Verdict::kDone]);
    EXPECT_EQ(after[3][Verdict::kReplayed],
              after[2][Verdict::kDone] - after[1][Verdict::kDone]);
    return;
  }
  FAIL() << "no such case";
}

TEST(CompareArenas, SeesOneByteAndOneFloat) {
  Case one;
  one.buffers = {{std::vector<std::byte>(40), Compare::kNot},
                 {std::vector<std::byte>(40), Compare::kBytes},
                 {std::vector<std::byte>(40), Compare::kFloats}};
  Memory a(Arena::BytesFor(one));
  Memory b(Arena::BytesFor(one));
  const Arena left(one, a.span());
  const Arena right(one, b.span());
  right.buffer(0)[0] = std::byte{1};
  EXPECT_TRUE(CompareArenas(one, left, right).ok());
  right.buffer(1)[39] = std::byte{1};
  EXPECT_FALSE(CompareArenas(one, left, right).ok());
  right.buffer(1)[39] = std::byte{0};
  for (const auto& [value, same] :
       {std::pair{5e-5f, true}, std::pair{1e-3f, false},
        std::pair{std::numeric_limits<float>::quiet_NaN(), false}}) {
    std::memcpy(&right.buffer(2)[36], &value, 4);
    EXPECT_EQ(CompareArenas(one, left, right).ok(), same) << value;
  }
}

}  // namespace
}  // namespace carillon::gpu_check
