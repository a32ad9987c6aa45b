#include "gpu_daemon/control/sessions/device_space.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using shm::RegionKind;

// Refuses what `refuse` says.
class RefusingMemory final : public CpuMemory {
 public:
  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override {
    if (refuse) return absl::ResourceExhaustedError("a test's");
    return CpuMemory::MapHost(memory);
  }
  bool refuse = false;
};

class DeviceSpaceTest : public ::testing::Test {
 protected:
  std::shared_ptr<DeviceSpace> Make(uint64_t bytes = 64 << 10) {
    return Make(bytes, &budget_);
  }
  std::shared_ptr<DeviceSpace> Make(uint64_t bytes, MemoryBudget* budget) {
    auto space = DeviceSpace::Create({.name = "nic0",
                                      .device_id = 1,
                                      .generation = shm::Generation(1),
                                      .submission_bytes = bytes,
                                      .completion_bytes = bytes},
                                     budget, &memory_);
    EXPECT_TRUE(space.ok()) << space.status();
    return *std::move(space);
  }
  static const shm::Aperture& ApertureOf(const DeviceSpace& space,
                                         RegionKind kind) {
    return kind == RegionKind::kSubmission ? space.device_memory().submission()
                                           : space.device_memory().completion();
  }
  static uint64_t TakenBytes(const DeviceSpace& space) {
    return space.device_memory().submission().TakenBytes() +
           space.device_memory().completion().TakenBytes();
  }

  // Where the machine gives nothing.
  static void FailToGrow(DeviceSpace& space, RegionKind kind, uint64_t bytes) {
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before =
        std::exchange(limit.rlim_cur, space.reserved_bytes(kind));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const absl::Status status =
        space.AllocateRange(kind, bytes, "a test").status();
    limit.rlim_cur = before;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_NE(std::string(status.message()).find("file size limit"),
              std::string::npos)
        << status;
  }

  RefusingMemory memory_;
  MemoryBudget budget_{4 << 20};
};

TEST_F(DeviceSpaceTest, TakesBothWholeAperturesFromTheBudget) {
  {
    const auto space = Make();
    EXPECT_EQ(budget_.used(),
              space->reserved_bytes(RegionKind::kSubmission) +
                  space->reserved_bytes(RegionKind::kCompletion));
    EXPECT_EQ(budget_.used(), shm::kSubmissionHeapOffset +
                                  shm::kCompletionHeapOffset + 2 * (64 << 10));
  }
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(DeviceSpaceTest, RangesAreGivenBackOnce) {
  const auto space = Make();
  const uint64_t free = space->free_bytes(RegionKind::kCompletion);
  {
    auto range = space->AllocateRange(RegionKind::kCompletion, 1000, "a test");
    ASSERT_TRUE(range.ok());
    EXPECT_TRUE(
        space->device_memory().completion().Contains(range->offset(), 1000));
    EXPECT_EQ(range->data(),
              space->device_memory().completion().At(range->offset()));
    HeapRange moved = *std::move(range);
    HeapRange assigned;
    assigned = std::move(moved);
    EXPECT_EQ(space->free_bytes(RegionKind::kCompletion), free - 1024);
    EXPECT_EQ(space->free_bytes(RegionKind::kSubmission), free);
  }
  EXPECT_EQ(space->free_bytes(RegionKind::kCompletion), free);
}

TEST_F(DeviceSpaceTest, AnApertureGrowsForWhatDoesNotFitAndStaysSo) {
  const auto space = Make(4096);
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    const shm::Aperture& aperture = ApertureOf(*space, kind);
    const uint64_t reserved = space->reserved_bytes(kind);
    EXPECT_EQ(aperture.TakenBytes(), reserved);
    const uint64_t used = budget_.used();
    auto first = space->AllocateRange(kind, 4000, "a test");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(space->reserved_bytes(kind), reserved);
    {
      auto second = space->AllocateRange(kind, 128, "a test");
      ASSERT_TRUE(second.ok()) << second.status();
      EXPECT_EQ(second->offset(), reserved);
      EXPECT_EQ(second->data(), aperture.At(reserved));
      EXPECT_EQ(second->kernel_data(), second->data());
      // Larger than a step.
      auto third =
          space->AllocateRange(kind, DeviceSpace::kGrowthStep + 1, "a test");
      ASSERT_TRUE(third.ok()) << third.status();
      third->data()[DeviceSpace::kGrowthStep] = std::byte{1};
    }
    const uint64_t grown = 2 * DeviceSpace::kGrowthStep + shm::kPageSize;
    EXPECT_EQ(space->reserved_bytes(kind), reserved + grown);
    EXPECT_EQ(aperture.TakenBytes(), reserved + grown);
    EXPECT_EQ(budget_.used(), used + grown);
    // What was given back is used before it grows further.
    for (const uint64_t bytes : {uint64_t{128}, DeviceSpace::kGrowthStep}) {
      ASSERT_TRUE(space->AllocateRange(kind, bytes, "a test").ok());
    }
    EXPECT_EQ(budget_.used(), used + grown);
    EXPECT_TRUE(space->CheckTouched().ok());
  }
}

TEST_F(DeviceSpaceTest, GrowthIsRefusedWhereTheBudgetOrTheApertureEnds) {
  const auto space = Make(4096);
  const uint64_t used = budget_.used();
  const auto refused =
      space->AllocateRange(RegionKind::kSubmission, 4 << 20, "the ESQ");
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(refused.status()).reason(), reason::kMemoryBudget);
  EXPECT_NE(std::string(refused.status().message())
                .find("the ESQ, for which the submission aperture of device "
                      "'nic0' would grow, needs 4194304 bytes"),
            std::string::npos)
      << refused.status();
  const auto never = space->AllocateRange(
      RegionKind::kCompletion, DeviceSpace::kMaxGrownBytes, "the ECQ");
  ASSERT_EQ(never.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(never.status()).reason(), reason::kNoHeapRoom);
  EXPECT_NE(std::string(never.status().message())
                .find("the ECQ needs 268435456 bytes in the completion "
                      "aperture of device 'nic0', which has 12288 bytes and "
                      "may grow by 268431360; attach with a larger "
                      "completion_bytes"),
            std::string::npos)
      << never.status();
  EXPECT_EQ(budget_.used(), used);
}

TEST_F(DeviceSpaceTest, GrowthTakesNoMoreThanItNeedsOfTheLastOfTheBudget) {
  const auto space = Make(4096);
  const uint64_t left = budget_.total() - budget_.used();
  const auto most =
      space->AllocateRange(RegionKind::kSubmission, left - 8192, "the ESQ");
  ASSERT_TRUE(most.ok()) << most.status();
  const auto last =
      space->AllocateRange(RegionKind::kCompletion, 8192, "the ECQ");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(budget_.used(), budget_.total());
  const auto none =
      space->AllocateRange(RegionKind::kCompletion, 8192, "the ECQ");
  EXPECT_EQ(DetailOf(none.status()).reason(), reason::kMemoryBudget);
}

TEST_F(DeviceSpaceTest, WhatAFailedGrowthHasTakenStaysChargedForTheNext) {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    const auto space = Make(4096);
    const uint64_t reserved = space->reserved_bytes(kind);
    const uint64_t used = budget_.used();
    memory_.refuse = true;
    for (const uint64_t bytes : {1 << 20, 2 << 20, 1 << 20}) {
      EXPECT_EQ(space->AllocateRange(kind, bytes, "a test").status().message(),
                "a test's");
      EXPECT_EQ(budget_.used(), TakenBytes(*space));
    }
    EXPECT_EQ(budget_.used(), used + (2 << 20));
    EXPECT_EQ(space->reserved_bytes(kind), reserved);
    memory_.refuse = false;
    ASSERT_TRUE(space->AllocateRange(kind, 8192, "a test").ok());
    EXPECT_EQ(space->reserved_bytes(kind), reserved + (2 << 20));
    EXPECT_EQ(budget_.used(), TakenBytes(*space));
    // And no longer than the device has it.
    ASSERT_TRUE(space->AllocateRange(kind, (2 << 20) - 8192, "a test").ok());
    EXPECT_EQ(budget_.used(), used + (2 << 20));
  }
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(DeviceSpaceTest, AGrowthThatStopsHalfWayIsChargedForThatHalf) {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    const auto space = Make(4096);
    const uint64_t reserved = space->reserved_bytes(kind);
    const uint64_t used = budget_.used();
    const shm::Aperture& aperture = ApertureOf(*space, kind);
    FailToGrow(*space, kind, 1 << 20);
    EXPECT_EQ(budget_.used(), used) << "nothing of it was taken";
    // As a machine that runs out of memory leaves it.
    ASSERT_TRUE(aperture.Reserve(reserved, reserved + (512 << 10)).ok());
    FailToGrow(*space, kind, 1 << 20);
    EXPECT_EQ(budget_.used(), used + (512 << 10));
    ASSERT_TRUE(space->AllocateRange(kind, 8192, "a test").ok());
    EXPECT_EQ(budget_.used(), used + (512 << 10));
    EXPECT_EQ(budget_.used(), TakenBytes(*space));
  }
}

TEST_F(DeviceSpaceTest, AFailedGrowthGivesTheDeviceNoMoreThanItIsChargedFor) {
  MemoryBudget budget(64 << 20);
  const auto space = Make(4096, &budget);
  const RegionKind kind = RegionKind::kSubmission;
  const uint64_t reserved = space->reserved_bytes(kind);
  FailToGrow(*space, kind, 32 << 20);
  EXPECT_TRUE(space->CheckTouched().ok());
  std::memset(space->device_memory().submission().At(reserved), 1, 16 << 20);
  EXPECT_FALSE(space->CheckTouched().ok());
}

TEST_F(DeviceSpaceTest, AResumedRangeLiesWhereThereIsMemory) {
  const auto space = Make(4096);
  const uint64_t end = space->reserved_bytes(RegionKind::kSubmission);
  const auto refused =
      space->AllocateRange(RegionKind::kSubmission, 128, "the ESQ", end);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(space->reserved_bytes(RegionKind::kSubmission), end);
  auto grown = space->AllocateRange(RegionKind::kSubmission, 8192, "the ESQ");
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(grown->offset(), end);
  const auto again =
      space->AllocateRange(RegionKind::kSubmission, 128, "it", end + 8192);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(DeviceSpaceTest, MemoryThatNobodyGaveTheDeviceIsNoticed) {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    const auto space = Make();
    EXPECT_TRUE(space->CheckTouched().ok());
    const shm::Aperture& aperture = ApertureOf(*space, kind);
    std::memset(aperture.At(aperture.size() - (8 << 20)), 1, 8 << 20);
    EXPECT_FALSE(space->CheckTouched().ok());
  }
}

TEST_F(DeviceSpaceTest, GpuMemoryIsZeroWritableAndCounted) {
  const auto space = Make();
  const uint64_t before = budget_.used();
  {
    auto buffer = space->AllocateBuffer(v1::GPU_MEMORY, 1 << 20);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    std::byte* const data = (*buffer)->data();
    EXPECT_TRUE(std::all_of(data, data + (1 << 20),
                            [](std::byte b) { return b == std::byte{0}; }));
    data[0] = data[(1 << 20) - 1] = std::byte{1};
    EXPECT_EQ(budget_.used(), before + (1 << 20));
    EXPECT_EQ((*buffer)->offset(), 0u);
  }
  EXPECT_EQ(budget_.used(), before);
}

TEST_F(DeviceSpaceTest, BuffersAreOfAKnownPlaceAndSize) {
  const auto space = Make();
  for (const auto& [place, bytes] :
       {std::pair{v1::INPUT, uint64_t{0}},
        std::pair{v1::GPU_MEMORY, ~uint64_t{0}},
        std::pair{v1::BUFFER_PLACE_UNSPECIFIED, uint64_t{64}},
        std::pair{static_cast<v1::BufferPlace>(17), uint64_t{64}}}) {
    EXPECT_EQ(space->AllocateBuffer(place, bytes).status().code(),
              absl::StatusCode::kInvalidArgument)
        << place << " " << bytes;
  }
  const auto input = space->AllocateBuffer(v1::INPUT, 64);
  ASSERT_TRUE(input.ok());
  EXPECT_EQ((*input)->data(),
            space->device_memory().submission().At((*input)->offset()));
  const auto output = space->AllocateBuffer(v1::OUTPUT, 64);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ((*output)->data(),
            space->device_memory().completion().At((*output)->offset()));
}

TEST_F(DeviceSpaceTest, MemoryOutlivesItsSessionAsLongAsAKernelUsesIt) {
  std::optional<HeapRange> range;
  std::shared_ptr<DeviceMemory> memory;
  {
    const auto space = Make();
    range = *space->AllocateRange(RegionKind::kCompletion, 64, "a test");
    memory = space->memory();
  }
  *range->data() = std::byte{1};
  range.reset();
  EXPECT_GT(budget_.used(), 0u);
  *memory->completion().At(memory->completion().heap_offset()) = std::byte{1};
  memory.reset();
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(DeviceSpaceTest, TooMuchForTheBudgetIsRefusedWhole) {
  auto refused = DeviceSpace::Create({.name = "nic0",
                                      .device_id = 1,
                                      .generation = shm::Generation(1),
                                      .submission_bytes = 3 << 20,
                                      .completion_bytes = 3 << 20},
                                     &budget_, &memory_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.status().message())
                .find("attaching device 'nic0' needs"),
            std::string::npos);
  EXPECT_EQ(budget_.used(), 0u);
}

}  // namespace
}  // namespace carillon::gpud
