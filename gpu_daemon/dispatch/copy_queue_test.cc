#include "gpu_daemon/dispatch/copy_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

// Copies when it is let, and notes what.
class GatedMemory final : public KernelMemory {
 public:
  struct Chunk {
    std::byte* to;
    uint64_t bytes;
  };

  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte>) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t) override {
    return absl::UnimplementedError("");
  }
  absl::Status Copy(CopyDirection, std::byte* to, const std::byte* from,
                    uint64_t bytes) override {
    MutexLock lock(mutex_);
    ++waiting_;
    begun_.push_back(to);
    changed_.NotifyAll();
    while (allowed_ == 0) changed_.Wait(mutex_);
    --allowed_;
    --waiting_;
    chunks_.push_back({to, bytes});
    if (fails_) return absl::UnavailableError("the GPU is lost");
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  uint64_t losses() const override { return losses_; }

  void LoseBytes() { ++losses_; }
  void LetPass(uint32_t chunks) {
    MutexLock lock(mutex_);
    allowed_ += chunks;
    changed_.NotifyAll();
  }
  // Until so many chunks are under way, of those that were not let pass.
  void AwaitChunks(uint32_t chunks) {
    MutexLock lock(mutex_);
    while (waiting_ != chunks || allowed_ != 0) changed_.Wait(mutex_);
  }
  void Fail() {
    MutexLock lock(mutex_);
    fails_ = true;
  }
  // Those that have ended.
  std::vector<Chunk> chunks() {
    MutexLock lock(mutex_);
    return chunks_;
  }
  // Where the n-th that begins is copied to.
  std::byte* AwaitBegun(size_t n) {
    MutexLock lock(mutex_);
    while (begun_.size() <= n) changed_.Wait(mutex_);
    return begun_[n];
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint32_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool fails_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte*> begun_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> losses_{3};
};

class CopyQueueTest : public testing::Test {
 protected:
  struct Copying {
    std::vector<std::byte> from;
    std::vector<std::byte> to;
    std::future<LaunchResult> result;

    bool whole() const { return from == to; }
  };

  ~CopyQueueTest() override { memory_.LetPass(1000); }

  Copying Submit(uint64_t bytes, uint32_t priority = 0, uint64_t token = 0,
                 CopyDirection direction = CopyDirection::kIn) {
    Copying made;
    for (uint64_t i = 0; i < bytes; ++i) {
      made.from.push_back(std::byte(i * 7 + 1));
    }
    made.to.resize(bytes);
    auto copy = std::make_unique<MemoryCopy>();
    copy->direction = direction;
    copy->from = made.from.data();
    copy->to = made.to.data();
    copy->bytes = bytes;
    copy->priority = priority;
    copy->memory = device_.memory;
    copy->token = token;
    auto ended = std::make_shared<std::promise<LaunchResult>>();
    made.result = ended->get_future();
    copy->on_end = [ended](const LaunchResult& result) {
      ended->set_value(result);
    };
    queue_->Submit(std::move(copy));
    return made;
  }
  static constexpr CopyChunks kChunks{.in = 100, .out = 30};

  TestDevice device_;
  GatedMemory memory_;
  std::optional<CopyQueue> queue_{std::in_place, &memory_, kChunks};
};

TEST_F(CopyQueueTest, ShowsWhatHasNotEndedTheMostUrgentFirst) {
  EXPECT_TRUE(queue_->copies().empty());
  Copying large = Submit(250);
  memory_.LetPass(1);
  memory_.AwaitChunks(2);
  Copying urgent = Submit(30, 5, 0, CopyDirection::kOut);
  const auto copies = queue_->copies();
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].priority, 5u);
  EXPECT_EQ(copies[0].direction, CopyDirection::kOut);
  EXPECT_EQ(copies[0].copied, 0u);
  EXPECT_EQ(copies[1].device, device_.memory->name());
  EXPECT_EQ(copies[1].bytes, 250u);
  EXPECT_EQ(copies[1].copied, 100u);
  memory_.LetPass(1000);
  large.result.get();
  urgent.result.get();
}

TEST_F(CopyQueueTest, CopiesAllOfItInChunksOfItsDirection) {
  memory_.LetPass(1000);
  Copying in = Submit(250);
  EXPECT_EQ(in.result.get().state, EventState::kDone);
  EXPECT_TRUE(in.whole());
  EXPECT_EQ(memory_.chunks().size(), 3u);
  EXPECT_EQ(memory_.chunks()[2].bytes, 50u);
  Copying out = Submit(250, 0, 0, CopyDirection::kOut);
  const LaunchResult result = out.result.get();
  EXPECT_EQ(result.state, EventState::kDone);
  EXPECT_GE(result.finished_ns, result.dispatched_ns);
  EXPECT_GT(result.dispatched_ns, 0u);
  EXPECT_TRUE(out.whole());
  EXPECT_EQ(memory_.chunks().size(), 3u + 9);
}

// Two chunks are under way, so that none waits for the CPU when one ends.
TEST_F(CopyQueueTest, AMoreUrgentOneGoesFirstWhenOneOfTwoChunksEnds) {
  Copying low = Submit(250, 1);
  memory_.AwaitChunks(2);
  Copying high = Submit(150, 2);
  Copying alike = Submit(10, 2);
  std::byte* const order[] = {high.to.data(), high.to.data() + 100,
                              alike.to.data(), low.to.data() + 200};
  for (size_t i = 0; i < std::size(order); ++i) {
    EXPECT_EQ(memory_.chunks().size(), i);
    memory_.LetPass(1);
    EXPECT_EQ(memory_.AwaitBegun(2 + i), order[i]) << i;
    memory_.AwaitChunks(2);
  }
  EXPECT_FALSE(queue_->idle());
  memory_.LetPass(2);
  for (Copying* copy : {&low, &high, &alike}) {
    EXPECT_EQ(copy->result.get().state, EventState::kDone);
    EXPECT_TRUE(copy->whole());
  }
}

TEST_F(CopyQueueTest, NobodyIsOvertakenForEver) {
  constexpr uint32_t kMost = CopyTurns::kMostOvertakings;
  const Copying low = Submit(300, /*priority=*/1);
  memory_.AwaitChunks(2);  // of its three
  const Copying urgent = Submit(2 * kMost * kChunks.in, /*priority=*/7);
  memory_.LetPass(2 * kMost + 3);
  // Two lanes begin their chunks in either order.
  std::vector<std::byte*> begun;
  for (uint32_t i = 0; i < kMost + 4; ++i) {
    begun.push_back(memory_.AwaitBegun(i));
  }
  EXPECT_THAT(begun, testing::Contains(low.to.data() + 2 * kChunks.in));
  low.result.wait();
  urgent.result.wait();
  EXPECT_TRUE(low.whole() && urgent.whole());
}

TEST_F(CopyQueueTest, OneThatIsCancelledEndsBehindItsChunks) {
  Copying first = Submit(250, 0, 5);
  memory_.AwaitChunks(2);
  Copying second = Submit(250, 3, 6);
  queue_->Cancel(LaunchFilter::OfToken(5), EventStatus::kUnregistered);
  memory_.LetPass(5);
  const LaunchResult result = first.result.get();
  EXPECT_EQ(result.state, EventState::kAborted);
  EXPECT_EQ(result.status, static_cast<uint32_t>(EventStatus::kUnregistered));
  EXPECT_EQ(second.result.get().state, EventState::kDone);
  EXPECT_EQ(memory_.chunks().size(), 5u);
}

TEST_F(CopyQueueTest, ADevicesEndTakesAllThatIsItsOwn) {
  TestDevice other("other");
  Copying one = Submit(250);
  Copying two = Submit(250, 7);
  queue_->Cancel(LaunchFilter::Of(*other.memory), EventStatus::kDeviceGone);
  memory_.AwaitChunks(2);
  queue_->Cancel(LaunchFilter::Of(*device_.memory), EventStatus::kDeviceGone);
  memory_.LetPass(2);
  for (Copying* copy : {&one, &two}) {
    EXPECT_EQ(copy->result.get().status,
              static_cast<uint32_t>(EventStatus::kDeviceGone));
  }
  EXPECT_EQ(memory_.chunks().size(), 2u);
}

TEST_F(CopyQueueTest, StopEndsThemAndTakesNoMore) {
  Copying under_way = Submit(250);
  memory_.AwaitChunks(2);
  queue_->Stop();
  Copying late = Submit(10);
  EXPECT_EQ(late.result.get().status,
            static_cast<uint32_t>(EventStatus::kShutdown));
  memory_.LetPass(2);
  EXPECT_EQ(under_way.result.get().state, EventState::kAborted);
  queue_.reset();
  EXPECT_EQ(memory_.chunks().size(), 2u);
}

TEST_F(CopyQueueTest, OneThatTheGpuLosesFailsAloneAndAtOnce) {
  memory_.Fail();
  Copying lost = Submit(250);
  memory_.AwaitChunks(2);
  memory_.LetPass(2);
  const LaunchResult result = lost.result.get();
  EXPECT_EQ(result.state, EventState::kFailed);
  EXPECT_NE(result.status, 0u);
  EXPECT_EQ(memory_.chunks().size(), 2u);
  EXPECT_TRUE(queue_->idle());
}

// The later chunks arrive, and the first one has gone with the context.
TEST_F(CopyQueueTest, OneWhoseFirstChunksAreLostBehindItsBackFails) {
  Copying copying = Submit(250);
  memory_.AwaitChunks(2);
  memory_.LetPass(1);
  memory_.AwaitChunks(2);
  memory_.LoseBytes();
  memory_.LetPass(2);
  EXPECT_EQ(copying.result.get().state, EventState::kFailed);
  memory_.LetPass(3);
  EXPECT_EQ(Submit(250).result.get().state, EventState::kDone);
}

}  // namespace
}  // namespace carillon::gpud
