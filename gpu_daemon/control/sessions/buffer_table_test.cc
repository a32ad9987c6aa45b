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
    table_ = std::make_unique<BufferTable>("nic0");
  }

  static v1::AllocateBufferRequest Resumed(uint32_t id) {
    v1::AllocateBufferRequest request;
    request.mutable_resumed()->set_buffer_id(id);
    return request;
  }
  std::shared_ptr<Buffer> MakeBuffer() {
    return *space_->AllocateBuffer(v1::OUTPUT, 1024);
  }
  // Adds one, and returns its id.
  uint32_t Add() {
    const uint32_t id = *table_->NextId({});
    table_->Add(id, MakeBuffer());
    return id;
  }

  CpuMemory memory_;
  MemoryBudget budget_{4 << 20};
  std::shared_ptr<DeviceSpace> space_;
  std::unique_ptr<BufferTable> table_;
};

TEST_F(BufferTableTest, FindsABufferUntilItIsRemoved) {
  const uint32_t id = *table_->NextId({});
  const auto buffer = MakeBuffer();
  table_->Add(id, buffer);
  EXPECT_EQ(*table_->Find(id), buffer);
  EXPECT_EQ(table_->finder()(id), buffer);
  table_->Remove(id);
  EXPECT_EQ(DetailOf(table_->Find(id).status()).reason(),
            reason::kUnknownBuffer);
  EXPECT_EQ(table_->finder()(id), nullptr);
}

TEST_F(BufferTableTest, ResumesABufferUnderItsId) {
  const auto resumed = table_->NextId(Resumed(7));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(*resumed, 7u);
  table_->Add(*resumed, MakeBuffer());
  EXPECT_EQ(Add(), 8u);
}

TEST_F(BufferTableTest, RefusesToResumeAnIdThatIsInUseOrOutOfRange) {
  for (const uint32_t id : {0u, Add(), (1u << 31) + 1}) {
    EXPECT_EQ(DetailOf(table_->NextId(Resumed(id)).status()).reason(),
              reason::kUnknownBuffer)
        << id;
  }
}

TEST_F(BufferTableTest, AnIdThatNoBufferGotIsUsedForTheNext) {
  const uint32_t id = Add();
  ASSERT_TRUE(table_->NextId({}).ok());
  EXPECT_EQ(Add(), id + 1);
}

TEST_F(BufferTableTest, RefusesMoreBuffersThanADeviceMayHave) {
  const auto buffer = MakeBuffer();
  for (uint32_t id = 1; id <= 4096; ++id) table_->Add(id, buffer);
  EXPECT_EQ(DetailOf(table_->NextId({}).status()).reason(), reason::kTooMany);
}

}  // namespace
}  // namespace carillon::gpud
