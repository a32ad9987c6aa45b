#include "shm/region_heap.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "shm/layout.h"

namespace carillon::shm {
namespace {

constexpr uint64_t kUnit = RegionHeap::kAlignment;

TEST(RegionHeapTest, AnEmptyOrTinyRegionGivesNothing) {
  for (const uint64_t size : {0, 1, 100}) {
    RegionHeap heap(4096 + 64, size);
    EXPECT_EQ(heap.free_bytes(), 0u);
    EXPECT_EQ(heap.Allocate(1), std::nullopt) << size;
  }
}

TEST(RegionHeapTest, NothingAsksForMoreThanThereIs) {
  RegionHeap heap(4096, 1024);
  EXPECT_EQ(heap.Allocate(0), std::nullopt);
  EXPECT_EQ(heap.Allocate(1025), std::nullopt);
  EXPECT_EQ(heap.Allocate(~uint64_t{0}), std::nullopt);
  EXPECT_EQ(heap.Allocate(~uint64_t{0} - 127), std::nullopt);
  EXPECT_EQ(heap.free_bytes(), 1024u);
  EXPECT_EQ(heap.Allocate(1024), 4096u);
  EXPECT_EQ(heap.free_bytes(), 0u);
  EXPECT_EQ(heap.largest_free(), 0u);
}

TEST(RegionHeapTest, OnlyWhatWasGivenIsTakenBack) {
  RegionHeap heap(4096, 1024);
  const auto given = heap.Allocate(256);
  ASSERT_TRUE(given.has_value());
  EXPECT_FALSE(heap.Free(*given + kUnit));
  EXPECT_FALSE(heap.Free(0));
  EXPECT_TRUE(heap.Free(*given));
  EXPECT_FALSE(heap.Free(*given)) << "twice";
  EXPECT_EQ(heap.free_bytes(), 1024u);
}

TEST(RegionHeapTest, ARangeIsTakenWhereItWasOnlyIfItIsFree) {
  RegionHeap heap(4096, 1024);
  EXPECT_FALSE(heap.AllocateAt(4096 + 64, 128)) << "between two units";
  EXPECT_FALSE(heap.AllocateAt(4096 - kUnit, 128)) << "before the heap";
  EXPECT_FALSE(heap.AllocateAt(4096 + 1024, 128)) << "behind it";
  EXPECT_FALSE(heap.AllocateAt(4096 + 896, 129)) << "beyond its end";
  EXPECT_FALSE(heap.AllocateAt(4096, ~uint64_t{0} - 127));
  EXPECT_FALSE(heap.AllocateAt(4096, 0));
  EXPECT_TRUE(heap.AllocateAt(4096 + 256, 200));
  EXPECT_FALSE(heap.AllocateAt(4096 + 256, 128)) << "taken";
  EXPECT_FALSE(heap.AllocateAt(4096 + 128, 256)) << "runs into what is taken";
  EXPECT_TRUE(heap.AllocateAt(4096 + 512, 512));
  EXPECT_EQ(heap.free_bytes(), 256u);
  EXPECT_EQ(heap.Allocate(256), 4096u);
  EXPECT_TRUE(heap.Free(4096 + 256));
  EXPECT_TRUE(heap.Free(4096 + 512));
  EXPECT_TRUE(heap.Free(4096));
  EXPECT_EQ(heap.largest_free(), 1024u);
}

// Against a model that knows of every unit whether it is taken.
RC_GTEST_PROP(RegionHeapTest, RangesAreDisjointFirstFitAndComeBackWhole,
              (const std::vector<std::pair<uint16_t, uint16_t>>& script)) {
  constexpr uint64_t kUnits = 64;
  const uint64_t base = *rc::gen::inRange<uint64_t>(0, 1 << 20);
  const uint64_t first = AlignUp(base, kUnit);
  RegionHeap heap(base, kUnits * kUnit + (first - base));
  std::vector<bool> taken(kUnits, false);
  std::map<uint64_t, uint64_t> given;  // offset -> units
  for (const auto& [choice, amount] : script) {
    if (choice % 3 == 0 && !given.empty()) {
      const auto victim = std::next(given.begin(), amount % given.size());
      RC_ASSERT(heap.Free(victim->first));
      for (uint64_t i = 0; i < victim->second; ++i) {
        taken[(victim->first - first) / kUnit + i] = false;
      }
      given.erase(victim);
    } else {
      const uint64_t bytes = amount % (12 * kUnit) + 1;
      const uint64_t units = AlignUp(bytes, kUnit) / kUnit;
      const std::vector<bool> hole(units, false);
      const auto fit =
          std::search(taken.begin(), taken.end(), hole.begin(), hole.end());
      const auto offset = heap.Allocate(bytes);
      RC_ASSERT(offset.has_value() == (fit != taken.end()));
      if (offset.has_value()) {
        RC_ASSERT(*offset == first + (fit - taken.begin()) * kUnit);
        std::fill(fit, fit + static_cast<ptrdiff_t>(units), true);
        given[*offset] = units;
      }
    }
    uint64_t free = 0;
    uint64_t run = 0;
    uint64_t longest = 0;
    for (const bool unit : taken) {
      run = unit ? 0 : run + 1;
      free += !unit;
      longest = std::max(longest, run);
    }
    RC_ASSERT(heap.free_bytes() == free * kUnit);
    RC_ASSERT(heap.largest_free() == longest * kUnit);
  }
  for (const auto& [offset, units] : given) RC_ASSERT(heap.Free(offset));
  RC_ASSERT(heap.largest_free() == kUnits * kUnit);
}

}  // namespace
}  // namespace carillon::shm
