// Launch paths stream_wait, persistent, pagoda_ring and pagoda on a driver made of CPU
// threads: what cuda_backend_test.cc does not ask of every path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;
using ::testing::Not;

class RingPathsTest : public CudaBackendFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void Open(std::chrono::milliseconds longest_kernel =
                std::chrono::milliseconds(10'000)) {
    OpenPath(GetParam(), longest_kernel);
  }
};

INSTANTIATE_TEST_SUITE_P(All, RingPathsTest,
                         ::testing::Values("stream_wait", "persistent",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

// A CPU thread may poll the doorbells: something of it stays on the GPU.
class StayingPathsTest : public RingPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, StayingPathsTest,
                         ::testing::Values("stream_wait", "persistent",
                                           "pagoda_ring", "pagoda"),
                         [](const auto& info) { return info.param; });

TEST_P(StayingPathsTest, RemovingAWaitingRingRunsNothingThatWasNotRung) {
  Open();
  auto event = AddFailIf(*device_, 8);
  for (uint32_t i = 1; i <= 5; ++i) {
    ASSERT_EQ(RingAndWait(*device_, event, i).status, KernelCode(i));
  }
  // Written, and not rung.
  Commit(event, 7);
  Commit(event, 7);
  const uint32_t doorbell = device_->doorbell(event).load();
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(device_->doorbell(event).load(), doorbell);
  // Not what the device sees, which has not rung for it.
  EXPECT_LT(event.kernel->ring().LoadCompletedSequence(6), 6u);
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.rung, 5u);
  EXPECT_EQ(counts.failed, 5u);
  EXPECT_EQ(counts.refused, 0u);
}

TEST_P(StayingPathsTest, ADoorbellServesAnotherRingAfterIt) {
  Open();
  for (int i = 0; i < 3; ++i) {
    device_->next_doorbell = 0;
    auto event = AddFailIf(*device_);
    for (uint32_t n = 1; n <= 6; ++n) {
      const Completion completion = RingAndWait(*device_, event, n);
      ASSERT_EQ(completion.sequence.value(), n);
      ASSERT_EQ(completion.status, KernelCode(n));
    }
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

TEST_P(StayingPathsTest, RingsThatNobodyTookAreAborted) {
  Open();
  auto event = AddFailIf(*device_, 8);
  backend_->Stop();
  for (int i = 0; i < 3; ++i) Commit(event, 0);
  event.ring->RingDoorbell();
  EXPECT_EQ(TakeAway(event), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kAborted);
  }
}

// Every change of a device's memory has the path stand still.
TEST_P(StayingPathsTest, NoRingIsLostOrRunTwiceWhileMemoryComesAndGoes) {
  Open();
  auto event = AddFailIf(*device_, 16);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> seen{0};
  std::thread changes([&] {
    for (int i = 0; !stop.load(); ++i) {
      // Standing still all the time, it would do nothing else.
      const uint64_t before = seen.load();
      { MappedDevice other(*backend_, "other" + std::to_string(i)); }
      while (!stop.load() && seen.load() == before) std::this_thread::yield();
    }
  });
  constexpr uint64_t kEvents = 600;
  for (uint64_t rung = 0, ended = 0; ended < kEvents; ++ended) {
    while (rung < kEvents && event.ring->free_slots() > 0) {
      Commit(event, ++rung % 3 == 0 ? static_cast<uint32_t>(rung) : 0);
      event.ring->RingDoorbell();
    }
    const Completion completion = device_->Wait(*event.ring);
    EXPECT_EQ(completion.sequence.value(), ended + 1);
    if (completion.sequence.value() != ended + 1) break;
    seen.store(ended + 1);
    EXPECT_EQ(completion.status,
              (ended + 1) % 3 == 0
                  ? KernelCode(static_cast<uint32_t>(ended + 1))
                  : 0u);
  }
  stop.store(true);
  changes.join();
  EXPECT_EQ(TakeAway(event), 0u);
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.rung, kEvents);
  EXPECT_EQ(counts.failed, kEvents / 3);
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 0u) << "replayed";
}

TEST_P(StayingPathsTest, ABadEntryIsRefusedAndTheNextOneRuns) {
  Open();
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  Commit(event, 0);
  auto* header =
      reinterpret_cast<shm::EsqEntryHeader*>(device_->memory->submission().At(
          event.kernel->ring().layout().esq_offset +
          2 * event.kernel->ring().layout().entry_bytes));
  header->generation += 1;
  event.ring->RingDoorbell();
  const Completion completion = device_->Wait(*event.ring);
  EXPECT_EQ(completion.state, EventState::kFailed);
  EXPECT_EQ(completion.status,
            static_cast<uint32_t>(EventStatus::kStaleGeneration));
  EXPECT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  EXPECT_TRUE(Until([&] {
    return event.kernel->in_flight() == 0 && event.kernel->counts().done == 1;
  }));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().refused, 1u);
  EXPECT_EQ(event.kernel->counts().failed, 2u);
}

TEST_P(RingPathsTest, ADoorbellBeyondTheRingIsAViolationOfThatDeviceOnly) {
  Open();
  for (const uint32_t jump : {1'000u, 1u << 30, 3u << 30, 0u - 100}) {
    auto hostile = std::make_unique<MappedDevice>(*backend_, "hostile");
    auto bad = AddFailIf(*hostile);
    auto good = AddFailIf(*device_);
    ASSERT_EQ(RingAndWait(*hostile, bad).state, EventState::kDone);
    const size_t before = violations();
    hostile->doorbell(bad).fetch_add(jump);
    ASSERT_TRUE(Until([&] { return violations() > before; }));
    EXPECT_EQ(RingAndWait(*device_, good, 9).status, KernelCode(9));
    {
      std::lock_guard lock(mutex_);
      EXPECT_EQ(violations_.back().first, hostile->memory);
      EXPECT_THAT(violations_.back().second, HasSubstr("doorbell of event"));
    }
    const auto removed = path_->RemoveDevice(hostile->memory.get());
    ASSERT_EQ(removed.size(), 1u);
    EXPECT_EQ(removed[0], bad.kernel);
    bad.kernel->AbortUnfinished(EventStatus::kDeviceGone);
    EXPECT_EQ(TakeAway(good), 0u);
    EXPECT_EQ(good.kernel->counts().rung, 1u);
  }
}

class PolledRingsTest : public RingPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, PolledRingsTest,
                         ::testing::Values("edge", "stream_wait", "persistent",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

// It would hide from those who look for kernels that do not end.
TEST_P(PolledRingsTest, WhoTakesItsDoorbellBackBehindWhatRunsIsEvicted) {
  Open();
  auto event = AddFailIf(*device_, 8);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  std::atomic<bool> runs{false};
  std::atomic<bool> may_end{false};
  fake_.HangOn("fail_if", [&](const KernelCall& call) {
    if (call.args().empty()) return false;
    runs.store(true);
    Until([&] { return may_end.load(); });
    return false;
  });
  Commit(event, 0);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return runs.load(); }));
  device_->doorbell(event).fetch_sub(1);
  EXPECT_TRUE(Until([&] { return violations() == 1; }));
  may_end.store(true);
  {
    std::lock_guard lock(mutex_);
    ASSERT_EQ(violations_.size(), 1u);
    EXPECT_THAT(violations_.front().second, HasSubstr("went back"));
  }
  device_->doorbell(event).fetch_add(1);
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  TakeAway(event);
}

class UnorderedRingsTest : public RingPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, UnorderedRingsTest,
                         ::testing::Values("edge", "pagoda_ring"),
                         [](const auto& info) { return info.param; });

// Else a ring of many slots would hide it for as long as its device likes.
TEST_P(UnorderedRingsTest, OneThatDoesNotEndIsStoppedThoughOthersOfItsRingEnd) {
  constexpr std::chrono::milliseconds kLongest(200);
  Open(kLongest);
  auto event = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                  .bindings = {{.writable = true}},
                                  .grid = {3, 1, 1},
                                  .entries = 128});
  ASSERT_TRUE(path_->Add(event.kernel).ok());
  std::atomic<int> ended{0};
  fake_.HangOn("fail_if", [&](const KernelCall& call) {
    uint32_t code = 0;
    if (call.args().empty()) return false;
    std::memcpy(&code, call.args().data(), sizeof(code));
    if (code != 13) ++ended;
    return code == 13;
  });
  Commit(event, 13);
  event.ring->RingDoorbell();
  std::optional<Completion> first;
  int rung = 0;
  while (!first && rung < 120) {
    Commit(event, 0);
    event.ring->RingDoorbell();
    ++rung;
    ASSERT_TRUE(Until([&] { return ended.load() >= rung; }));
    std::this_thread::sleep_for(kLongest / 4);
    first = event.ring->Poll();
  }
  ASSERT_TRUE(first) << "others have put it off";
  EXPECT_EQ(first->status, static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(StayingPathsTest, AKernelThatDoesNotEndDoesNotKeepItsRing) {
  Open(std::chrono::milliseconds(50));
  auto event = AddFailIf(*device_, 8);
  auto other = AddFailIf(*device_, 8);
  std::atomic<bool> hangs{false};
  fake_.HangOn("fail_if", [&hangs](const KernelCall& call) {
    uint32_t code = 0;
    if (call.args().empty()) return false;
    std::memcpy(&code, call.args().data(), sizeof(code));
    if (code == 13) hangs.store(true);
    return code == 13;
  });
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  Commit(event, 13);
  Commit(event, 4);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return hangs.load(); }));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(device_->Wait(*event.ring).status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(4));
  EXPECT_EQ(RingAndWait(*device_, other, 5).status, KernelCode(5));
  EXPECT_EQ(TakeAway(other), 0u);
}

TEST_P(RingPathsTest, RefusesWhatItCannotServe) {
  Open();
  auto event = device_->Register({.kernel = simt::FindKernel("null_event"),
                                  .bindings = {{}},
                                  .modifyable = true});
  const auto status = path_->Add(event.kernel);
  if (GetParam() == "pagoda_ring") {
    EXPECT_TRUE(status.ok()) << status;
    return;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("modifyable"));
}

TEST_P(RingPathsTest, HasRoomForSoManyRings) {
  Open();
  // A stream each, or a lane.
  const size_t most = GetParam() == "pagoda_ring" ? 32 : 18;
  std::vector<TestDevice::Event> events;
  while (events.size() < most) events.push_back(AddFailIf(*device_));
  auto one_more = device_->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {{}}});
  EXPECT_EQ(path_->Add(one_more.kernel).code(),
            absl::StatusCode::kResourceExhausted);
  for (auto& event : events) {
    EXPECT_EQ(RingAndWait(*device_, event, 2).status, KernelCode(2));
  }
  EXPECT_EQ(path_->RemoveDevice(device_->memory.get()).size(), most);
}

TEST_P(StayingPathsTest, LivesAreStampedWhileTracingAndThenCleared) {
  Open();
  auto event = AddFailIf(*device_, 2);
  const auto life_of = [&](uint32_t code) {
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit(nullptr, NowNs());
    event.ring->RingDoorbell();
    EXPECT_TRUE(Until([&] { return event.ring->Poll().has_value(); }));
    const shm::EventLife life = event.ring->life();
    event.ring->Consume();
    return life;
  };
  EXPECT_EQ(life_of(0).finished_ns, 0u);
  // A path looks at its commands now and then.
  const auto trace = [&](bool on) {
    path_->SetTracing(on);
    EXPECT_TRUE(Until([&] { return (life_of(0).finished_ns != 0) == on; }));
  };
  trace(true);
  // Between the CPU's clock and the GPU's, as gpud has measured it.
  constexpr Nanoseconds kClockError = 50'000'000;
  const auto expect_stamps = [&](uint32_t code) {
    const Nanoseconds before = NowNs();
    const shm::EventLife life = life_of(code);
    EXPECT_GE(life.rung_ns, before);
    EXPECT_GE(life.seen_ns + kClockError, life.rung_ns);
    EXPECT_GE(life.queued_ns, life.seen_ns);
    EXPECT_GE(life.dispatched_ns, life.queued_ns);
    EXPECT_GE(life.finished_ns, life.dispatched_ns);
    EXPECT_LE(life.finished_ns, NowNs() + kClockError);
  };
  for (int i = 0; i < 6; ++i) expect_stamps(0);
  // In a new context, too: what is under way then has none.
  fake_.FaultOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    if (call.args().empty()) return false;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  EXPECT_EQ(life_of(13).seen_ns, 0u);
  for (int i = 0; i < 6; ++i) expect_stamps(0);
  trace(false);
  for (int i = 0; i < 3; ++i) {
    const shm::EventLife life = life_of(0);
    EXPECT_EQ(life.seen_ns, 0u);
    EXPECT_EQ(life.finished_ns, 0u);
  }
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(StayingPathsTest, WhoStartsWhileGpudTracesStampsTheFirstEvent) {
  tracing_ = true;
  Open();
  auto event = AddFailIf(*device_);
  Commit(event, 0);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return event.ring->Poll().has_value(); }));
  EXPECT_NE(event.ring->life().seen_ns, 0u);
  EXPECT_NE(event.ring->life().finished_ns, 0u);
  EXPECT_EQ(TakeAway(event), 0u);
}

// Both work, and neither keeps the other one's memory from being freed.
TEST_P(StayingPathsTest, OtherPathsComeAndGoBesideIt) {
  Open();
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  const auto graph = backend_->paths().Find("graph");
  ASSERT_TRUE(graph.ok());
  for (int i = 0; i < 3; ++i) {
    device_->next_doorbell = 5;
    auto other = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                    .bindings = {{.writable = true}}});
    ASSERT_TRUE(graph->path->Add(other.kernel).ok());
    EXPECT_EQ(RingAndWait(*device_, other, 6).status, KernelCode(6));
    EXPECT_EQ(RingAndWait(*device_, event, 7).status, KernelCode(7));
    graph->path->Remove(other.kernel);
    backend_->Cancel(LaunchFilter::Of(*other.kernel),
                     EventStatus::kUnregistered);
  }
  EXPECT_EQ(TakeAway(event), 0u);
}

class StreamWaitPathTest : public RingPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, StreamWaitPathTest,
                         ::testing::Values("stream_wait"),
                         [](const auto& info) { return info.param; });

TEST_P(StreamWaitPathTest, NeedsStreamsThatWaitForMemory) {
  fake_.ChangeSettings(
      [](FakeSettings& s) { s.stream_memory_operations = false; });
  auto backend =
      CudaBackend::CreateOn(fake_.driver(), {}, {.image = FakeGpu::Image()});
  ASSERT_TRUE(backend.ok());
  const auto found = (*backend)->paths().Find("stream_wait");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("cuStreamWaitValue32"));
}

TEST_P(StreamWaitPathTest, ALaunchThatIsRefusedIsTriedAgain) {
  Open();
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  constexpr std::array kCalls = {"cuLaunchKernel", "cuStreamWaitValue32",
                                 "cuStreamWriteValue32"};
  for (uint32_t i = 1; i < 30; ++i) {
    fake_.FailNext(kCalls[i % kCalls.size()],
                   CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, i % 4);
    ASSERT_EQ(RingAndWait(*device_, event, i).status, KernelCode(i));
  }
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().failed, 29u);
}

// The moved doorbell is written over, again and again.
TEST_P(StreamWaitPathTest, ADeviceThatRingsWhileItIsRemovedHasTheLastWord) {
  Open();
  auto event = AddFailIf(*device_, 64);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> rung{0};
  std::thread ringing([&] {
    while (!stop.load() && event.ring->free_slots() > 0) {
      event.ring->Commit();
      event.ring->RingDoorbell();
      rung.fetch_add(1);
      std::this_thread::yield();
    }
  });
  ASSERT_TRUE(Until([&] { return rung.load() > 5; }));
  const uint64_t aborted = TakeAway(event);
  const uint64_t taken = event.kernel->counts().rung;
  stop.store(true);
  ringing.join();
  EXPECT_EQ(
      device_->doorbell(event).load() - event.kernel->cursor().first_ring(),
      1 + rung.load());
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.rung, taken);
  EXPECT_EQ(counts.done + aborted, taken);
}

// Others fill the GPU, one after another; the wait itself needs no room. The
// kernel's time begins when it runs.
TEST_P(StreamWaitPathTest, NobodyIsEvictedWhoseStagingHasNoRoom) {
  constexpr std::chrono::milliseconds kLongest(1'000);
  Open(kLongest);
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  std::atomic<bool> full{true};
  std::atomic<bool> waits{false};
  fake_.HangOn("carillon_stage_entry", [&](const KernelCall&) {
    waits.store(true);
    while (full.load()) std::this_thread::yield();
    return false;
  });
  fake_.HangOn("fail_if", [&, first = FakeGpu::Nth(1)](const KernelCall& call) {
    if (first(call)) std::this_thread::sleep_for(kLongest / 4);
    return false;
  });
  Commit(event, 5);
  event.ring->RingDoorbell();
  EXPECT_TRUE(Until([&] { return waits.load(); }));
  std::this_thread::sleep_for(3 * kLongest);
  EXPECT_EQ(violations(), 0u);
  full.store(false);
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(5));
  EXPECT_EQ(RingAndWait(*device_, event, 6).status, KernelCode(6));
  EXPECT_EQ(violations(), 0u);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
}

// Beside it another device comes, for which the path has to stand still.
TEST_P(StreamWaitPathTest, NobodyIsEvictedWhileABackgroundKernelFillsTheGpu) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 1; });
  constexpr std::chrono::milliseconds kLongest(12'000);
  Open(kLongest);
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  std::atomic<bool> full{true};
  std::atomic<bool> fills{false};
  fake_.HangOn("carillon_call_fail_if", [&](const KernelCall&) {
    fills.store(true);
    while (full.load()) std::this_thread::yield();
    return false;
  });
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                 .grid = {64, 1, 1},
                 .block = {64, 1, 1}};
  launch->args = std::make_unique<std::byte[]>(sizeof(uint32_t));
  launch->memory = device_->memory;
  launch->from_host = true;
  std::atomic<bool> background_ended{false};
  launch->on_end = [&](const LaunchResult& result) {
    EXPECT_EQ(result.state, EventState::kDone);
    background_ended.store(true);
  };
  backend_->Submit(std::move(launch));
  EXPECT_TRUE(Until([&] { return fills.load(); }));
  Commit(event, 5);
  event.ring->RingDoorbell();
  std::thread other([&] { OtherDevice(); });
  std::this_thread::sleep_for(kLongest * 2 / 5);
  full.store(false);
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(5));
  other.join();
  EXPECT_EQ(RingAndWait(*device_, event, 6).status, KernelCode(6));
  EXPECT_EQ(violations(), 0u);
  EXPECT_TRUE(Until([&] { return background_ended.load(); }));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
}

class PersistentPathTest : public RingPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, PersistentPathTest,
                         ::testing::Values("persistent"),
                         [](const auto& info) { return info.param; });

TEST_P(PersistentPathTest, RefusesKernelsThatAResidentBlockCannotRun) {
  Open();
  const auto refusal = [&](const simt::KernelInfo& kernel, size_t parameters) {
    auto event = device_->Register(
        {.kernel = &kernel,
         .bindings = std::vector<ParameterBinding>(parameters)});
    const auto status = path_->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const simt::KernelInfo& busy = *simt::FindKernel("busy");
  EXPECT_THAT(refusal(busy, busy.params.size()), HasSubstr("as long as"));
  simt::KernelInfo leaves_apart = *simt::FindKernel("fail_if");
  leaves_apart.uses_barriers = true;
  EXPECT_THAT(refusal(leaves_apart, 1), HasSubstr("leave together"));
}

TEST_P(PersistentPathTest, EveryBarrierKernelThatIsMarkedIsTaken) {
  Open();
  for (const char* name : {"reduce", "conv5x5", "matmul"}) {
    const simt::KernelInfo* kernel = simt::FindKernel(name);
    EXPECT_TRUE(kernel->uses_barriers) << name;
    // Buffers, wherever they are: no event comes.
    const ParameterBinding any = {
        .buffer = {device_->memory->completion().At(0), 64}};
    auto event = device_->Register({.kernel = kernel,
                                    .bindings = std::vector<ParameterBinding>(
                                        kernel->params.size(), any)});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

TEST_P(PersistentPathTest, AGridLargerThanWhatIsResidentRunsWhole) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 2; });
  Open();
  // An element a thread: a block that is left out shows.
  constexpr uint32_t kElements = 6 * 64;
  constexpr uint64_t kBytes = kElements * sizeof(float);
  const auto floats = [](const shm::Aperture& aperture, shm::RegionHeap& heap) {
    return reinterpret_cast<float*>(aperture.At(*heap.Allocate(kBytes)));
  };
  float* const in =
      floats(device_->memory->submission(), *device_->submission_heap);
  float* const sums =
      floats(device_->memory->completion(), *device_->completion_heap);
  for (uint32_t i = 0; i < kElements; ++i) in[i] = static_cast<float>(i);
  const auto buffer = [](float* at) {
    return ParameterBinding{
        .buffer = {reinterpret_cast<std::byte*>(at), kBytes}};
  };
  auto event =
      device_->Register({.kernel = simt::FindKernel("vector_add"),
                         .bindings = {buffer(in), buffer(in), buffer(sums)},
                         .grid = {6, 1, 1},
                         .block = {64, 1, 1}});
  const auto status = path_->Add(event.kernel);
  ASSERT_TRUE(status.ok()) << status;
  for (int n = 0; n < 20; ++n) {
    std::fill_n(sums, kElements, -1.0f);
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    for (uint32_t i = 0; i < kElements; ++i) ASSERT_EQ(sums[i], 2 * in[i]);
  }
  EXPECT_EQ(fake_.launches("carillon_persistent_vector_add"), 1u);
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(PersistentPathTest, RoomIsGivenOutOnceAndComesBack) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 1; });
  Open();
  // Half an SM has room for one block of 1024 threads.
  const TestDevice::Spec large = {.kernel = simt::FindKernel("null_event"),
                                  .bindings = {{}},
                                  .grid = {2, 1, 1},
                                  .block = {1024, 1, 1}};
  auto first = device_->Register(large);
  ASSERT_TRUE(path_->Add(first.kernel).ok());
  auto second = device_->Register(large);
  const auto status = path_->Add(second.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1024 threads"));
  EXPECT_EQ(TakeAway(first), 0u);
  EXPECT_TRUE(path_->Add(second.kernel).ok());
  second.ring->Commit();
  second.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*second.ring).state, EventState::kDone);
  EXPECT_EQ(TakeAway(second), 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
