// Pagoda's API with a GPU that does what the test says.
#include "devices/sdk/pagoda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "devices/sdk/edge.h"
#include "devices/sdk/fake_gpud.h"
#include "shm/gpu_ring.h"

namespace carillon::pagoda {
namespace {

using absl::StatusCode;
using edge::EventState;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr milliseconds kSoon{5};

class PagodaTest : public ::testing::Test {
 protected:
  PagodaTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "pagoda-XXXXXX");
    directory_ = mkdtemp(pattern.data());
    gpud_ = std::make_unique<edge::FakeGpud>(directory_);
    edge::AttachOptions options;
    options.testbed_directory = directory_;
    options.name = "host0";
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    tasks_ = std::make_unique<Tasks>(device_.get(),
                                     Tasks::Options{.longest_full = kSoon});
  }
  ~PagodaTest() override {
    tasks_.reset();
    device_.reset();
    gpud_.reset();
    std::filesystem::remove_all(directory_);
  }

  Function Add(uint32_t max_in_flight = 4) {
    const auto function = tasks_->AddFunction(
        {.kernel = "f",
         .max_in_flight = max_in_flight,
         .parameters = {edge::Constant("c", 1), edge::Writable("x")}});
    EXPECT_TRUE(function.ok()) << function.status();
    return function.value_or(Function{});
  }
  TaskId Spawned(Function function, uint64_t x = 0) {
    const auto id = tasks_->taskSpawn(128, 1, 0, function, x);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(TaskId{});
  }
  // The GPU ends the n-th task of the function that was added last.
  void End(uint64_t n, EventState state = EventState::kDone,
           uint32_t status = 0) {
    gpud_->ring().Complete(shm::Sequence(n), state, status);
  }

  std::string directory_;
  std::unique_ptr<edge::FakeGpud> gpud_;
  std::unique_ptr<edge::Device> device_;
  std::unique_ptr<Tasks> tasks_;
};

TEST_F(PagodaTest, ATaskIsAnEventWithItsOwnDimensionsAndArguments) {
  const Function function = Add();
  EXPECT_EQ(gpud_->seen().registration.launch_path(), "pagoda");
  EXPECT_TRUE(gpud_->seen().registration.modifyable());
  const auto id = tasks_->taskSpawn(96, 3, 512, function, uint64_t{77});
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_GT(static_cast<uint64_t>(*id), 1u);
  const shm::GpuRing ring = gpud_->ring();
  EXPECT_EQ(ring.LoadDoorbell(), 1u);
  const std::byte* const entry =
      gpud_->submission().At(ring.layout().esq_offset) +
      ring.layout().SlotOf(shm::Sequence(1)) * ring.layout().entry_bytes;
  shm::KmdOverride kmd;
  std::memcpy(&kmd, entry + sizeof(shm::EsqEntryHeader), sizeof(kmd));
  EXPECT_EQ(kmd.grid[0], 3u);
  EXPECT_EQ(kmd.block[0], 96u);
  EXPECT_EQ(kmd.shared_bytes, 512u);
  uint64_t x;
  std::memcpy(&x, entry + ring.layout().parameter_offset, sizeof(x));
  EXPECT_EQ(x, 77u);
  End(1);
  EXPECT_TRUE(tasks_->wait(*id, seconds(10)).ok());
}

TEST_F(PagodaTest, TasksAreWaitedForInAnyOrder) {
  const Function function = Add();
  const TaskId first = Spawned(function);
  const TaskId second = Spawned(function);
  EXPECT_EQ(*tasks_->check(second), false);
  End(2);
  EXPECT_EQ(*tasks_->check(second), true);
  EXPECT_EQ(*tasks_->check(first), false);
  EXPECT_TRUE(tasks_->wait(second, seconds(10)).ok());
  End(1);
  EXPECT_TRUE(tasks_->wait(first, seconds(10)).ok());
  EXPECT_TRUE(tasks_->waitAll(seconds(10)).ok());
}

TEST_F(PagodaTest, ATaskIsWaitedForOnce) {
  const Function function = Add();
  const TaskId one = Spawned(function);
  const TaskId two = Spawned(function);
  End(1);
  End(2);
  EXPECT_TRUE(tasks_->wait(one, seconds(10)).ok());
  EXPECT_EQ(tasks_->wait(one, seconds(10)).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(tasks_->check(one).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(tasks_->waitAll(seconds(10)).ok());
  EXPECT_EQ(tasks_->wait(two, seconds(10)).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(PagodaTest, AnIdOfNoTaskIsRefused) {
  EXPECT_EQ(tasks_->wait(TaskId{0}, seconds(10)).code(), StatusCode::kNotFound);
  const Function function = Add();
  const TaskId id = Spawned(function);
  for (const uint64_t wrong :
       {uint64_t{0}, uint64_t{1}, static_cast<uint64_t>(id) + 1,
        static_cast<uint64_t>(id) + 256, ~uint64_t{0}}) {
    EXPECT_EQ(tasks_->wait(TaskId{wrong}, seconds(10)).code(),
              StatusCode::kNotFound)
        << wrong;
    EXPECT_EQ(tasks_->check(TaskId{wrong}).status().code(),
              StatusCode::kNotFound);
  }
}

TEST_F(PagodaTest, AnotherThreadIsRefusedAndSpawnsNothing) {
  const Function function = Add();
  const TaskId id = Spawned(function);
  std::thread([&] {
    EXPECT_EQ(
        tasks_->taskSpawn(32, 1, 0, function, uint64_t{0}).status().code(),
        StatusCode::kFailedPrecondition);
    EXPECT_EQ(tasks_->wait(id, seconds(10)).code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ(tasks_->check(id).status().code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ(tasks_->waitAll(seconds(10)).code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ(tasks_->AddFunction({.kernel = "g"}).status().code(),
              StatusCode::kFailedPrecondition);
  }).join();
  EXPECT_EQ(gpud_->ring().LoadDoorbell(), 1u);
}

TEST_F(PagodaTest, ARingThatIsFullForEverEndsTheSpawnNotTheThread) {
  const Function function = Add(2);
  Spawned(function);
  const TaskId second = Spawned(function);
  // The second has ended, but its slot is behind the first one's.
  End(2);
  const auto refused = tasks_->taskSpawn(32, 1, 0, function, uint64_t{0});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("all 2 tasks of 'f'"));
  EXPECT_TRUE(tasks_->wait(second, seconds(10)).ok());
  End(1);
  Spawned(function);
}

TEST_F(PagodaTest, ATaskThatNeverEndsMayBeWaitedForAgain) {
  const Function function = Add();
  const TaskId id = Spawned(function);
  const absl::Status one = tasks_->wait(id, kSoon);
  EXPECT_EQ(one.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(one.message()),
              HasSubstr("nothing stops a task alone"));
  const absl::Status all = tasks_->waitAll(kSoon);
  EXPECT_EQ(all.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(all.message()),
              AllOf(HasSubstr("1 tasks"), HasSubstr("nothing stops a task "
                                                    "alone")));
  End(1);
  EXPECT_TRUE(tasks_->wait(id, seconds(10)).ok());
}

TEST_F(PagodaTest, HowATaskHasEndedIsSaidOnce) {
  const Function function = Add();
  const TaskId failed = Spawned(function);
  const TaskId aborted = Spawned(function);
  const TaskId third = Spawned(function);
  End(1, EventState::kFailed, 1234);
  End(2, EventState::kAborted, 5);
  End(3, EventState::kFailed, 1235);
  const absl::Status status = tasks_->wait(failed, seconds(10));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the kernel failed with code 234"));
  EXPECT_EQ(tasks_->wait(aborted, seconds(10)).code(), StatusCode::kAborted);
  EXPECT_EQ(tasks_->waitAll(seconds(10)).code(), StatusCode::kInternal);
  EXPECT_EQ(tasks_->wait(third, seconds(10)).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(PagodaTest, WhatNoTaskCanBeIsRefusedBeforeItIsRung) {
  const Function function = Add();
  const uint64_t x = 0;
  const auto code = [&](const auto& spawned) {
    return spawned.status().code();
  };
  EXPECT_EQ(code(tasks_->taskSpawn(0, 1, 0, function, x)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(1025, 1, 0, function, x)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(32, 0, 0, function, x)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(32, 1, 0, function)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(32, 1, 0, function, x, x)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(32, 1, 0, function, shm::BufferRef{0, 8})),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(tasks_->taskSpawn(32, 1, 0, Function{1}, x)),
            StatusCode::kNotFound);
  EXPECT_EQ(gpud_->ring().LoadDoorbell(), 0u);
  edge::Buffer buffer;
  buffer.id = 1;
  EXPECT_EQ(
      tasks_
          ->AddFunction({.kernel = "f",
                         .parameters = {edge::Fixed(
                             "b", buffer, {.length = 8, .slot_stride = 8})}})
          .status()
          .code(),
      StatusCode::kInvalidArgument);
}

TEST_F(PagodaTest, AnArgumentOfAnotherSizeIsRefusedByItsParametersName) {
  const Function function = Add();
  const auto refused = tasks_->taskSpawn(32, 1, 0, function, uint32_t{1});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("parameter 'x', must be a number of 8 bytes"));
  EXPECT_EQ(gpud_->ring().LoadDoorbell(), 0u);
}

TEST_F(PagodaTest, WhoseGpudIsGoneIsToldByWhateverItCalls) {
  const Function function = Add();
  const TaskId ended = Spawned(function);
  const TaskId open = Spawned(function);
  End(1);
  gpud_->Close(shm::CloseReason::kShutdown);
  EXPECT_EQ(tasks_->wait(open, seconds(60)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(tasks_->check(open).status().code(), StatusCode::kUnavailable);
  const auto ends = tasks_->check(ended);
  EXPECT_TRUE(ends.ok() && *ends) << ends.status();
  EXPECT_EQ(tasks_->taskSpawn(32, 1, 0, function, uint64_t{0}).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(gpud_->ring().LoadDoorbell(), 2u);
}

TEST_F(PagodaTest, ATaskWhoseGpudIsGoneIsNotWaitedForForEver) {
  const Function function = Add();
  const TaskId id = Spawned(function);
  gpud_->Close(shm::CloseReason::kShutdown);
  EXPECT_EQ(tasks_->wait(id, seconds(60)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(tasks_->waitAll(seconds(60)).code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace carillon::pagoda
