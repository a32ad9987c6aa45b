#include "gpu_daemon/control/sessions/device_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using shm::RegionKind;

class DeviceSpaceTest : public ::testing::Test {
 protected:
  std::shared_ptr<DeviceSpace> Make(uint64_t bytes = 64 << 10) {
    auto space = DeviceSpace::Create({.name = "nic0",
                                      .device_id = 1,
                                      .generation = shm::Generation(1),
                                      .submission_bytes = bytes,
                                      .completion_bytes = bytes},
                                     &budget_, &memory_);
    EXPECT_TRUE(space.ok()) << space.status();
    return *std::move(space);
  }
  CpuMemory memory_;
  MemoryBudget budget_{4 << 20};
};

TEST_F(DeviceSpaceTest, TakesBothWholeAperturesFromTheBudget) {
  {
    const auto space = Make();
    EXPECT_EQ(budget_.used(), space->device_memory().submission().size() +
                                  space->device_memory().completion().size());
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

TEST_F(DeviceSpaceTest, AFullHeapSaysWhatIsFree) {
  const auto space = Make(4096);
  auto taken = space->AllocateRange(RegionKind::kSubmission, 4000, "a test");
  ASSERT_TRUE(taken.ok());
  const auto refused =
      space->AllocateRange(RegionKind::kSubmission, 128, "the ESQ");
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(refused.status()).reason(), reason::kNoHeapRoom);
  EXPECT_NE(std::string(refused.status().message())
                .find("the ESQ needs 128 bytes in the submission aperture of "
                      "device 'nic0'"),
            std::string::npos)
      << refused.status();
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
