#include "gpu_daemon/dispatch/chain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/cpu_workers.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/front_end.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/event/gate_kernel.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;

constexpr uint32_t kBytes = 64;
constexpr uint32_t kEntries = 8;

// A source and a follower that copy: what the source's device writes comes out
// of the follower's.
class ChainTest : public testing::Test {
 protected:
  ChainTest()
      : kmu_(GpuModel{}, *MakePolicy("first_come")),
        chain_(std::make_shared<Chain>(
            [this](auto launch) { kmu_.Submit(std::move(launch)); })) {
    workers_.emplace(1, &kmu_, &runner_);
    front_end_.emplace(FrontEnd::Options{},
                       std::make_unique<EdgeLauncher>(
                           &kmu_, &runner_, [](auto&, Nanoseconds) {}));
    in_ = camera_.memory->submission().At(
        *camera_.submission_heap->Allocate(kEntries * kBytes));
    middle_ = camera_.memory->completion().At(
        *camera_.completion_heap->Allocate(kEntries * kBytes));
    out_ = host_.memory->completion().At(
        *host_.completion_heap->Allocate(kEntries * kBytes));
  }
  ~ChainTest() override {
    gate_.LetPass(1000);
    front_end_->Stop();
    kmu_.Stop();
    workers_.reset();
    // A chain and its events have each other until they leave it.
    for (const TestDevice::Event* event : {&source_event_, &follower_event_}) {
      if (event->kernel) chain_->Leave(*event->kernel, /*stays=*/false);
    }
  }

  TestDevice::Event Source(const simt::KernelInfo* kernel = nullptr,
                           std::vector<ParameterBinding> bindings = {}) {
    if (kernel == nullptr) {
      kernel = simt::FindKernel("echo");
      bindings = {{.buffer = {in_, kBytes}, .slot_stride = kBytes},
                  {.buffer = {middle_, kBytes}, .slot_stride = kBytes}};
    }
    return camera_.Register({.kernel = kernel,
                             .bindings = std::move(bindings),
                             .entries = kEntries,
                             .hands_to = chain_});
  }
  TestDevice::Event Follower(std::string from = "out") {
    return host_.Register(
        {.kernel = simt::FindKernel("echo"),
         .bindings = {{.taken = std::move(from)},
                      {.buffer = {out_, kBytes}, .slot_stride = kBytes}},
         .entries = kEntries,
         .takes_from = chain_});
  }
  // A source and a follower that are polled.
  void Connect() { Connect(Source(), Follower()); }
  void ConnectToGate(TestDevice::Event source) {
    Connect(
        std::move(source),
        host_.Register(
            {.kernel = &kGateKernel,
             .bindings = {{.constant_bits = reinterpret_cast<uint64_t>(&gate_)},
                          {.constant_bits = 7}},
             .entries = kEntries,
             .takes_from = chain_}));
  }
  void Connect(TestDevice::Event source, TestDevice::Event follower) {
    source_event_ = std::move(source);
    follower_event_ = std::move(follower);
    ASSERT_TRUE(chain_->AddSource(source_event_.kernel).ok());
    ASSERT_TRUE(chain_->AddFollower(follower_event_.kernel).ok());
    ASSERT_TRUE(front_end_->Add(source_event_.kernel).ok());
    ASSERT_TRUE(front_end_->Add(follower_event_.kernel).ok());
  }
  void RingSource(uint8_t value) {
    shm::DeviceRing& ring = *source_event_.ring;
    std::memset(in_ + ring.next_slot() * kBytes, value, kBytes);
    ring.Commit();
    ring.RingDoorbell();
  }
  void RingFollower() {
    follower_event_.ring->Commit();
    follower_event_.ring->RingDoorbell();
  }
  // Until the front-end has taken all rings of the follower's.
  void AwaitPosted(uint64_t rings) {
    while (follower_event_.kernel->launched() < rings) sched_yield();
  }
  uint8_t Out(const Completion& completion) {
    const auto slot =
        follower_event_.ring->layout().SlotOf(completion.sequence);
    return static_cast<uint8_t>(out_[slot * kBytes + kBytes - 1]);
  }

  Gate gate_;
  CpuBlockRunner runner_;
  Kmu kmu_;
  std::shared_ptr<Chain> chain_;
  std::optional<CpuWorkers> workers_;
  std::optional<FrontEnd> front_end_;
  TestDevice camera_{"camera"};
  TestDevice host_{"host"};
  std::byte* in_;
  std::byte* middle_;
  std::byte* out_;
  TestDevice::Event source_event_;
  TestDevice::Event follower_event_;
};

TEST_F(ChainTest, EachEventOfTheSourceRunsOneOfTheFollowersWithItsOutput) {
  Connect();
  for (uint32_t i = 1; i <= 200; ++i) {
    RingFollower();
    AwaitPosted(i);
    RingSource(static_cast<uint8_t>(i));
    const Completion taken = host_.Wait(*follower_event_.ring);
    ASSERT_EQ(taken.state, EventState::kDone) << i;
    ASSERT_EQ(taken.sequence.value(), i);
    ASSERT_EQ(Out(taken), static_cast<uint8_t>(i));
    const Completion done = camera_.Wait(*source_event_.ring);
    ASSERT_EQ(done.state, EventState::kDone);
    ASSERT_EQ(done.status, 0u);
    ASSERT_EQ(done.sequence.value(), i);
  }
}

TEST_F(ChainTest, AFullRingOfBothLosesAndDoublesNothing) {
  Connect();
  std::vector<int> seen(256);
  uint32_t sent = 0;
  uint32_t taken = 0;
  uint32_t completed = 0;
  uint32_t posted = 0;
  while (completed < 200) {
    while (follower_event_.ring->free_slots() > 0) {
      RingFollower();
      ++posted;
    }
    AwaitPosted(posted);
    while (sent < 200 && sent - taken < kEntries &&
           source_event_.ring->free_slots() > 0) {
      RingSource(static_cast<uint8_t>(sent++));
    }
    const Completion one = host_.Wait(*follower_event_.ring);
    ASSERT_EQ(one.state, EventState::kDone);
    ++seen[Out(one)];
    ++taken;
    const Completion done = camera_.Wait(*source_event_.ring);
    ASSERT_EQ(done.state, EventState::kDone);
    ASSERT_EQ(done.status, 0u);
    ++completed;
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(seen[i], 1) << i;
}

TEST_F(ChainTest, ADoneEventThatNobodyWaitsForSaysSo) {
  Connect();
  RingSource(1);
  const Completion done = camera_.Wait(*source_event_.ring);
  EXPECT_EQ(done.state, EventState::kDone);
  EXPECT_EQ(done.status, static_cast<uint32_t>(EventStatus::kNotTaken));
  EXPECT_EQ(follower_event_.kernel->launched(), 0u);
}

TEST_F(ChainTest, AFailedEventIsNotHandedOn) {
  ConnectToGate(Source(simt::FindKernel("fail_if"), {{.constant_bits = 5}}));
  RingFollower();
  AwaitPosted(1);
  source_event_.ring->Commit();
  source_event_.ring->RingDoorbell();
  const Completion done = camera_.Wait(*source_event_.ring);
  EXPECT_EQ(done.state, EventState::kFailed);
  EXPECT_NE(done.status, static_cast<uint32_t>(EventStatus::kNotTaken));
  EXPECT_EQ(follower_event_.kernel->in_flight(), 1u);
  EXPECT_TRUE(gate_.entered().empty());
}

// The source's device must not write there while the follower reads.
TEST_F(ChainTest, TheSourceCompletesOnlyWhenTheFollowerHasEnded) {
  ConnectToGate(Source());
  RingFollower();
  AwaitPosted(1);
  RingSource(1);
  ASSERT_TRUE(gate_.WaitEntered(1));
  EXPECT_FALSE(source_event_.ring->Poll().has_value());
  EXPECT_EQ(source_event_.kernel->in_flight(), 1u);
  gate_.LetPass(1);
  EXPECT_EQ(camera_.Wait(*source_event_.ring).status, 0u);
  EXPECT_EQ(host_.Wait(*follower_event_.ring).state, EventState::kDone);
}

TEST_F(ChainTest, AFollowerThatLeavesLetsTheSourceGoOnWithoutIt) {
  Connect();
  RingFollower();
  RingFollower();
  AwaitPosted(2);
  front_end_->Remove(follower_event_.kernel);
  chain_->Leave(*follower_event_.kernel, /*stays=*/false);
  EXPECT_EQ(follower_event_.kernel->AbortUnfinished(EventStatus::kDeviceGone),
            2u);
  RingSource(1);
  EXPECT_EQ(camera_.Wait(*source_event_.ring).status,
            static_cast<uint32_t>(EventStatus::kNotTaken));
  // Another one takes its place.
  auto next = Follower();
  ASSERT_TRUE(chain_->AddFollower(next.kernel).ok());
  ASSERT_TRUE(front_end_->Add(next.kernel).ok());
  follower_event_ = std::move(next);
  RingFollower();
  AwaitPosted(1);
  RingSource(2);
  EXPECT_EQ(Out(host_.Wait(*follower_event_.ring)), 2);
}

// It is the first in the ring of its event kernel, as an event of the next one.
TEST_F(ChainTest, AStragglerOfASourceThatHasLeftEndsNoEventOfTheNextOne) {
  Gate second_gate;
  const auto gated = [&](Gate* gate) {
    return camera_.Register(
        {.kernel = &kGateKernel,
         .bindings = {{.constant_bits = reinterpret_cast<uint64_t>(gate)},
                      {.constant_bits = 7}},
         .block = {64, 1, 1},  // the worker runs it
         .entries = kEntries,
         .hands_to = chain_});
  };
  Connect(gated(&gate_), host_.Register({.kernel = simt::FindKernel("fail_if"),
                                         .bindings = {{.constant_bits = 0}},
                                         .entries = kEntries,
                                         .takes_from = chain_}));
  RingFollower();
  RingFollower();
  AwaitPosted(2);
  EXPECT_EQ(follower_event_.kernel->busy(), 0u) << "posted, not at work";
  source_event_.ring->Commit();
  source_event_.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  front_end_->Remove(source_event_.kernel);
  chain_->Leave(*source_event_.kernel, /*stays=*/false);
  EXPECT_EQ(source_event_.kernel->AbortUnfinished(EventStatus::kUnregistered),
            1u);
  auto next = gated(&second_gate);
  ASSERT_TRUE(chain_->AddSource(next.kernel).ok());
  ASSERT_TRUE(front_end_->Add(next.kernel).ok());
  next.ring->Commit();
  next.ring->RingDoorbell();
  gate_.LetPass(1);
  // The only worker has ended the straggler before.
  ASSERT_TRUE(second_gate.WaitEntered(1));
  second_gate.LetPass(1);
  EXPECT_EQ(camera_.Wait(*next.ring).status, 0u);
  EXPECT_EQ(host_.Wait(*follower_event_.ring).state, EventState::kDone);
  EXPECT_EQ(follower_event_.kernel->in_flight(), 1u) << "it took a straggler";
  front_end_->Stop();
  chain_->Leave(*next.kernel, /*stays=*/false);
}

TEST_F(ChainTest, AResultWhoseFollowerWasAbortedIsNotTaken) {
  ConnectToGate(Source());
  RingFollower();
  AwaitPosted(1);
  RingSource(1);
  ASSERT_TRUE(gate_.WaitEntered(1));
  EXPECT_EQ(follower_event_.kernel->busy(), 1u);
  chain_->Leave(*follower_event_.kernel, /*stays=*/false);
  EXPECT_EQ(follower_event_.kernel->AbortUnfinished(EventStatus::kDeviceGone),
            1u);
  gate_.LetPass(1);
  EXPECT_EQ(camera_.Wait(*source_event_.ring).status,
            static_cast<uint32_t>(EventStatus::kNotTaken));
  EXPECT_EQ(follower_event_.kernel->busy(), 0u);
}

TEST_F(ChainTest, WhenGpudGoesDownNothingIsToldOfWhatWasNotTaken) {
  Connect();
  chain_->Leave(*follower_event_.kernel, /*stays=*/true);
  RingSource(1);
  while (source_event_.kernel->launched() < 1) sched_yield();
  front_end_->Remove(source_event_.kernel);  // the front-end has run it
  EXPECT_FALSE(source_event_.ring->Poll().has_value());
  EXPECT_EQ(source_event_.kernel->in_flight(), 1u);
  EXPECT_EQ(source_event_.kernel->AbortUnfinished(EventStatus::kShutdown), 1u);
}

TEST_F(ChainTest, EndsThatDoNotFitAreRefusedByName) {
  const auto source = Source();
  const auto follower = Follower("no_such");
  ASSERT_TRUE(chain_->AddSource(source.kernel).ok());
  const absl::Status status = chain_->AddFollower(follower.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no_such"), std::string::npos) << status;
  EXPECT_EQ(chain_->AddSource(source.kernel).code(),
            absl::StatusCode::kAlreadyExists);
  // And in the other order.
  chain_->Leave(*source.kernel, /*stays=*/false);
  ASSERT_TRUE(chain_->AddFollower(follower.kernel).ok());
  EXPECT_EQ(chain_->AddSource(source.kernel).code(),
            absl::StatusCode::kFailedPrecondition);
  chain_->Leave(*follower.kernel, /*stays=*/false);
}

TEST(ChainTableTest, AChainLivesAsLongAsOneOfItsEnds) {
  ChainTable table;
  const Chain::Submit none = [](std::unique_ptr<KernelLaunch>) {};
  auto chain = table.Find("a", "b", none);
  EXPECT_EQ(table.Find("a", "b", none), chain);
  EXPECT_NE(table.Find("b", "a", none), chain);
  const std::weak_ptr<Chain> gone = chain;
  chain.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_NE(table.Find("a", "b", none), nullptr);
}

}  // namespace
}  // namespace carillon::gpud
