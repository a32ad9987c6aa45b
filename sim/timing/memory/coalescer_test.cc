#include "sim/timing/memory/coalescer.h"

#include <gtest/gtest.h>

namespace carillon::sim::timing {
namespace {

// Lane i accesses base + i * stride.
Access Strided(uint64_t base, uint64_t stride, uint32_t bytes = 4,
               LaneMask mask = kAllLanes) {
  Access access;
  access.space = MemorySpace::kGlobal;
  access.bytes = bytes;
  access.mask = mask;
  for (uint64_t i = 0; i < kLanes; ++i) access.address[i] = base + i * stride;
  return access;
}

struct Coalesced {
  uint32_t lines = 0;
  uint32_t sectors = 0;
  bool operator==(const Coalesced&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Coalesced& c) {
  return out << c.lines << " lines, " << c.sectors << " sectors";
}
Coalesced Count(const Access& access) {
  Transactions transactions;
  Coalesced result{Coalesce(access, 128, 32, transactions), 0};
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < result.lines; ++i) {
    result.sectors +=
        static_cast<uint32_t>(std::popcount(transactions[i].sectors));
    lanes += transactions[i].lanes;
  }
  EXPECT_EQ(lanes, static_cast<uint32_t>(std::popcount(access.mask)));
  return result;
}

TEST(Coalesce, StridesTouchTheLinesThatTheySpan) {
  const uint64_t base = 1 << 20;
  EXPECT_EQ(Count(Strided(base, 0)), (Coalesced{1, 1}));
  EXPECT_EQ(Count(Strided(base, 4)), (Coalesced{1, 4}));
  EXPECT_EQ(Count(Strided(base + 64, 4)), (Coalesced{2, 4}));
  EXPECT_EQ(Count(Strided(base, 8)), (Coalesced{2, 8}));
  EXPECT_EQ(Count(Strided(base, 16)), (Coalesced{4, 16}));
  EXPECT_EQ(Count(Strided(base, 32)), (Coalesced{8, 32}));
  EXPECT_EQ(Count(Strided(base, 128)), (Coalesced{32, 32}));
  EXPECT_EQ(Count(Strided(base, 4096)), (Coalesced{32, 32}));
  EXPECT_EQ(Count(Strided(base, 1, 1)), (Coalesced{1, 1}));
  EXPECT_EQ(Count(Strided(base, 16, 16)), (Coalesced{4, 16}));
}

TEST(Coalesce, OnlyLanesOfTheMaskCount) {
  EXPECT_EQ(Count(Strided(0, 128, 4, 0x80000001)), (Coalesced{2, 2}));
  EXPECT_EQ(Count(Strided(0, 4, 4, 0x000000ff)), (Coalesced{1, 1}));
}

TEST(Coalesce, LinesComeInTheOrderOfTheirFirstLanes) {
  Access access = Strided(0, 0);
  for (uint32_t i = 0; i < kLanes; ++i) access.address[i] = (i % 3) * 1024;
  Transactions transactions;
  ASSERT_EQ(Coalesce(access, 128, 32, transactions), 3u);
  EXPECT_EQ(transactions[0].line, 0u);
  EXPECT_EQ(transactions[1].line, 1024u);
  EXPECT_EQ(transactions[2].line, 2048u);
  EXPECT_EQ(transactions[0].lanes, 11u);
}

TEST(CoalesceLocal, AWordOfAllLanesIsALine) {
  Transactions transactions;
  // All lanes access byte 8 of their own local memory.
  EXPECT_EQ(CoalesceLocal(Strided(8, 0), 0, 128, 32, transactions), 1u);
  EXPECT_EQ(transactions[0].line, 256u);
  EXPECT_EQ(transactions[0].sectors, 0xf);
  EXPECT_EQ(CoalesceLocal(Strided(16, 0, 16), 0, 128, 32, transactions), 4u);
  EXPECT_EQ(transactions[3].line, 7u * 128);
  // Each lane accesses another word, so no line is shared.
  EXPECT_EQ(CoalesceLocal(Strided(0, 4), 0, 128, 32, transactions), 32u);
}

TEST(SharedPasses, AStrideOfWordsConflictsByItsPowerOfTwo) {
  for (const uint64_t words : {1u, 3u, 5u, 31u}) {
    EXPECT_EQ(SharedPasses(Strided(0, words * 4), 32), 1u) << words;
  }
  for (uint32_t words = 2; words <= 32; words *= 2) {
    EXPECT_EQ(SharedPasses(Strided(0, words * 4), 32), words) << words;
  }
  EXPECT_EQ(SharedPasses(Strided(0, 6 * 4), 32), 2u);
  EXPECT_EQ(SharedPasses(Strided(0, 12 * 4), 32), 4u);
}

TEST(SharedPasses, OneToThirtyTwoWaysOneByOne) {
  for (uint32_t ways = 1; ways <= kLanes; ++ways) {
    Access access = Strided(0, 4);
    // The first `ways` lanes go to different rows of bank 0. The others go to
    // row 0, each to its own bank, so that only the former share bank 0.
    for (uint32_t i = 0; i < ways; ++i) access.address[i] = i * 128;
    EXPECT_EQ(SharedPasses(access, 32), ways) << ways;
  }
}

TEST(SharedPasses, LanesOnOneWordShareAPass) {
  EXPECT_EQ(SharedPasses(Strided(64, 0), 32), 1u);
  EXPECT_EQ(SharedPasses(Strided(0, 1, 1), 32), 1u);  // four bytes of a word
  Access pairs = Strided(0, 0);
  for (uint32_t i = 0; i < kLanes; ++i) pairs.address[i] = i / 2 * 128;
  EXPECT_EQ(SharedPasses(pairs, 32), 16u);
}

TEST(SharedPasses, AtomicsOnOneWordGoOneByOne) {
  Access access = Strided(64, 0);
  access.atomic = true;
  EXPECT_EQ(SharedPasses(access, 32), 32u);
  access.mask = 0x7;
  EXPECT_EQ(SharedPasses(access, 32), 3u);
}

TEST(SharedPasses, WideAccessesGoByPartsOfTheWarp) {
  EXPECT_EQ(SharedPasses(Strided(0, 8, 8), 32), 2u);
  EXPECT_EQ(SharedPasses(Strided(0, 16, 16), 32), 4u);
  EXPECT_EQ(SharedPasses(Strided(0, 16, 8), 32), 4u);
}

TEST(ConstantPasses, OneForEachDifferentWord) {
  EXPECT_EQ(ConstantPasses(Strided(0, 0)), 1u);
  EXPECT_EQ(ConstantPasses(Strided(0, 4)), 32u);
  EXPECT_EQ(ConstantPasses(Strided(0, 1, 1)), 8u);
  EXPECT_EQ(ConstantPasses(Strided(0, 4, 4, 0x3)), 2u);
}

}  // namespace
}  // namespace carillon::sim::timing
