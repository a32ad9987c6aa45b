#include "mesh/session/memory_changes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace carillon::mesh {
namespace {

using shm::Aperture;
using shm::RegionKind;

constexpr uint64_t kHeap = uint64_t{4} << 20;

Aperture Make(RegionKind kind) {
  auto aperture = Aperture::Create(
      {.kind = kind, .growth_bytes = kHeap, .generation = shm::Generation(7)});
  EXPECT_TRUE(aperture.ok()) << aperture.status();
  return *std::move(aperture);
}

std::vector<v1::ChangedMemory> Collect(MemoryChanges& changes) {
  std::vector<v1::ChangedMemory> all;
  changes.Collect(3, [&](v1::ChangedMemory changed) {
    EXPECT_EQ(changed.session(), 3u);
    all.push_back(std::move(changed));
  });
  return all;
}

class MemoryChangesTest : public ::testing::TestWithParam<RegionKind> {
 protected:
  uint64_t First() const {
    return GetParam() == RegionKind::kSubmission ? shm::kTelemetryOffset
                                                 : shm::kCompletionHeapOffset;
  }
  const Aperture here_ = Make(GetParam());
  const Aperture there_ = Make(GetParam());
  MemoryChanges changes_{&here_};
};
INSTANTIATE_TEST_SUITE_P(Both, MemoryChangesTest,
                         ::testing::Values(RegionKind::kSubmission,
                                           RegionKind::kCompletion));

TEST_P(MemoryChangesTest, WhatIsStoredIsTheSameMemory) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 20; ++i) {
      const uint64_t at =
          First() + random() % (here_.size() - First() - sizeof(uint32_t));
      const auto value = static_cast<uint32_t>(random());
      std::memcpy(here_.At(at), &value, sizeof(value));
    }
    for (const v1::ChangedMemory& changed : Collect(changes_)) {
      ASSERT_TRUE(StoreChanges(changed, there_));
    }
    ASSERT_EQ(std::memcmp(here_.At(First()), there_.At(First()),
                          here_.size() - First()),
              0);
    EXPECT_TRUE(Collect(changes_).empty()) << "all of it has been told";
  }
}

TEST_P(MemoryChangesTest, LargeChangesAreToldInPieces) {
  std::memset(here_.At(here_.heap_offset()), 1, kHeap / 2);
  const auto all = Collect(changes_);
  EXPECT_GE(all.size(), 4u);
  for (const v1::ChangedMemory& changed : all) {
    EXPECT_LT(changed.ByteSizeLong(), 2 * kMaxChangedBytes);
  }
}

TEST_P(MemoryChangesTest, HeadersAndControlWordsAreEachEndsOwn) {
  std::memset(here_.At(0), 1, First());
  EXPECT_TRUE(Collect(changes_).empty());
}

TEST_P(MemoryChangesTest, WhatLiesElsewhereIsNotStored) {
  for (const uint64_t offset :
       {uint64_t{0}, First() - 64, here_.size() - 8, ~uint64_t{7}}) {
    v1::ChangedMemory changed;
    v1::ChangedRange* const range = changed.add_ranges();
    range->set_offset(offset);
    range->set_bytes(std::string(64, 'x'));
    EXPECT_FALSE(StoreChanges(changed, there_)) << offset;
    range->set_offset(First() + 4);
    EXPECT_FALSE(StoreChanges(changed, there_));
  }
}

// The device rings while the relay looks: whoever sees the doorbell sees the
// entry.
TEST(MemoryChanges, ADoorbellIsToldAfterWhatItWasRungFor) {
  const Aperture here = Make(RegionKind::kSubmission);
  const Aperture there = Make(RegionKind::kSubmission);
  MemoryChanges changes(&here);
  auto* const entry = reinterpret_cast<uint64_t*>(here.At(here.heap_offset()));
  std::atomic<bool> stop{false};
  std::thread device([&] {
    for (uint32_t i = 1; !stop; ++i) {
      std::atomic_ref<uint64_t>(*entry).store(i, std::memory_order_relaxed);
      std::atomic_ref<uint32_t>(here.doorbells()[0])
          .store(i, std::memory_order_release);
    }
  });
  const auto* const told =
      reinterpret_cast<const uint64_t*>(there.At(there.heap_offset()));
  for (int round = 0; round < 2000; ++round) {
    for (const v1::ChangedMemory& changed : Collect(changes)) {
      for (const v1::ChangedRange& range : changed.ranges()) {
        v1::ChangedMemory one;
        *one.add_ranges() = range;
        ASSERT_TRUE(StoreChanges(one, there));
        ASSERT_LE(there.doorbells()[0], *told);
      }
    }
  }
  stop = true;
  device.join();
  EXPECT_GT(there.doorbells()[0], 0u);
}

}  // namespace
}  // namespace carillon::mesh
