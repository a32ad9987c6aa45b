#include "mesh/session/memory_changes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "mesh/session/step_link.h"

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

// Each other piece, which takes the most bytes beside its own.
TEST_P(MemoryChangesTest, NoStepIsTooLargeForALink) {
  for (uint64_t at = here_.heap_offset(); at < here_.size(); at += 128) {
    *here_.At(at) = std::byte{1};
  }
  const auto all = Collect(changes_);
  EXPECT_GT(all.size(), 2u);
  for (const v1::ChangedMemory& changed : all) {
    v1::SessionStep step;
    *step.mutable_changed() = changed;
    EXPECT_LE(step.ByteSizeLong(), kMaxStepBytes);
  }
}

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

// The device writes and rings while the relay looks, behind where it looks:
// whoever is told of the doorbell has been told of the entry.
TEST(MemoryChanges, ADoorbellIsToldAfterWhatItWasRungFor) {
  const Aperture here = Make(RegionKind::kSubmission);
  const Aperture there = Make(RegionKind::kSubmission);
  MemoryChanges changes(&here);
  std::byte* const entry = here.At(here.heap_offset());
  const std::byte* const told = there.At(there.heap_offset());
  std::memset(entry, 1, 3 * kMaxChangedBytes);
  here.doorbells()[0] = 1;
  bool rung = false;
  const auto store = [&](v1::ChangedMemory changed) {
    EXPECT_TRUE(StoreChanges(changed, there));
    EXPECT_LE(there.doorbells()[0], static_cast<uint32_t>(*told));
    if (std::exchange(rung, true)) return;
    *entry = std::byte{2};
    here.doorbells()[0] = 2;
  };
  changes.Collect(3, store);
  EXPECT_TRUE(rung);
  EXPECT_EQ(there.doorbells()[0], 1u);
  changes.Collect(3, store);
  EXPECT_EQ(there.doorbells()[0], 2u);
}

}  // namespace
}  // namespace carillon::mesh
