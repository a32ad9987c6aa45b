#include "gpu_daemon/control/sessions/buffer_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

class BufferTableTest : public ::testing::Test {
 protected:
  BufferTableTest() {
    auto space = DeviceSpace::Create({.name = "nic0",
                                      .device_id = 1,
                                      .generation = shm::Generation(1),
                                      .submission_bytes = 64 << 10,
                                      .completion_bytes = 64 << 10},
                                     &budget_, &memory_);
    EXPECT_TRUE(space.ok()) << space.status();
    space_ = *std::move(space);
    table_ = std::make_unique<BufferTable>("nic0", space_.get());
  }

  static v1::AllocateBufferRequest Request(uint64_t bytes) {
    v1::AllocateBufferRequest request;
    request.set_place(v1::OUTPUT);
    request.set_bytes(bytes);
    return request;
  }
  static v1::AllocateBufferRequest Resumed(uint32_t id, uint64_t offset) {
    auto request = Request(1024);
    request.mutable_resumed()->set_buffer_id(id);
    request.mutable_resumed()->set_offset(offset);
    return request;
  }

  CpuMemory memory_;
  MemoryBudget budget_{4 << 20};
  std::shared_ptr<DeviceSpace> space_;
  std::unique_ptr<BufferTable> table_;
};

TEST_F(BufferTableTest, FindsABufferUntilItIsRemoved) {
  const auto made = table_->Allocate(Request(1024));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto found = table_->Find(made->buffer_id());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->offset(), made->offset());
  EXPECT_EQ(table_->finder()(made->buffer_id()), *found);
  table_->Remove(made->buffer_id());
  EXPECT_EQ(DetailOf(table_->Find(made->buffer_id()).status()).reason(),
            reason::kUnknownBuffer);
  EXPECT_EQ(table_->finder()(made->buffer_id()), nullptr);
}

TEST_F(BufferTableTest, ResumesABufferUnderItsIdAndOffset) {
  const uint64_t offset = table_->Allocate(Request(1024))->offset();
  table_->TakeAll();
  const auto resumed = table_->Allocate(Resumed(7, offset));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->buffer_id(), 7u);
  EXPECT_EQ(resumed->offset(), offset);
  EXPECT_EQ(table_->Allocate(Request(1024))->buffer_id(), 8u);
}

TEST_F(BufferTableTest, RefusesToResumeAnIdThatIsInUseOrOutOfRange) {
  const auto made = table_->Allocate(Request(1024));
  ASSERT_TRUE(made.ok());
  for (const uint32_t id : {0u, made->buffer_id(), (1u << 31) + 1}) {
    EXPECT_EQ(DetailOf(table_->Allocate(Resumed(id, made->offset())).status())
                  .reason(),
              reason::kUnknownBuffer)
        << id;
  }
}

TEST_F(BufferTableTest, AFailedAllocationUsesUpNoId) {
  const uint32_t id = table_->Allocate(Request(1024))->buffer_id();
  ASSERT_FALSE(table_->Allocate(Request(1 << 30)).ok());
  EXPECT_EQ(table_->Allocate(Request(1024))->buffer_id(), id + 1);
}

}  // namespace
}  // namespace carillon::gpud
