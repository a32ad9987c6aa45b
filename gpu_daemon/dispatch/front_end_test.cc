#include "gpu_daemon/dispatch/front_end.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/cpu_workers.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/run_clock.h"
#include "gpu_daemon/event/gate_kernel.h"
#include "gpu_daemon/event/short_path_estimate.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }
ParameterBinding WritableValue() { return {.writable = true}; }

// Notes in which thread it learned that what it had prepared was not added.
class NotedLauncher final : public EdgeLauncher {
 public:
  template <class... Args>
  explicit NotedLauncher(std::thread::id* not_added, Args... args)
      : EdgeLauncher(std::move(args)...), not_added_(not_added) {}
  void NotAdded() override { *not_added_ = std::this_thread::get_id(); }

 private:
  std::thread::id* const not_added_;
};

class FrontEndTest : public testing::Test {
 protected:
  FrontEndTest() { Restart("first_come"); }
  ~FrontEndTest() override {
    gate_.LetPass(100'000);
    Stop();
  }

  void Restart(std::string_view policy, bool tracing = false) {
    Stop();
    kmu_ = std::make_unique<Kmu>(GpuModel{}, *MakePolicy(policy));
    workers_.emplace(1, kmu_.get(), &runner_);
    front_end_.emplace(
        FrontEnd::Options{
            .tracing = tracing,
            // A lost wake-up ends only with the test's patience.
            .longest_sleep = std::chrono::hours(1),
            .on_violation =
                [this](const std::shared_ptr<DeviceMemory>& memory,
                       std::string reason) {
                  violator_.set_value(memory->name() + ": " + reason);
                }},
        std::make_unique<NotedLauncher>(
            &not_added_, kmu_.get(), &runner_,
            [this](const EventKernel&, Nanoseconds ns) {
              ++overruns_;
              overrun_ns_ = ns;
            }));
  }
  void Stop() {
    if (front_end_) front_end_->Stop();
    if (kmu_) kmu_->Stop();
    workers_.reset();
    front_end_.reset();
  }

  TestDevice::Event Add(TestDevice::Spec spec) {
    auto event = device_.Register(spec);
    EXPECT_TRUE(front_end_->Add(event.kernel).ok());
    return event;
  }
  const simt::KernelInfo* Kernel(std::string_view name) {
    return simt::FindKernel(name);
  }
  std::vector<ParameterBinding> GateBindings(uint64_t tag) {
    return {Constant(reinterpret_cast<uint64_t>(&gate_)), Constant(tag)};
  }
  static void ExpectFailed(const Completion& completion, EventStatus status) {
    EXPECT_EQ(completion.state, EventState::kFailed);
    EXPECT_EQ(completion.status, static_cast<uint32_t>(status));
  }

  Gate gate_;
  std::promise<std::string> violator_;
  std::atomic<int> overruns_{0};
  std::atomic<Nanoseconds> overrun_ns_{0};
  std::thread::id not_added_;
  CpuBlockRunner runner_;
  std::unique_ptr<Kmu> kmu_;
  std::optional<CpuWorkers> workers_;
  std::optional<FrontEnd> front_end_;
  TestDevice device_;
};

TEST_F(FrontEndTest, ARungEventRunsOnceAndCompletesWithItsSequence) {
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  for (uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    event.ring->Commit();
    event.ring->RingDoorbell();
    const Completion completion = device_.Wait(*event.ring);
    ASSERT_EQ(completion.state, EventState::kDone);
    ASSERT_EQ(completion.sequence.value(), sequence);
  }
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.rung, 1000u);
  EXPECT_EQ(counts.done, 1000u);
  EXPECT_EQ(event.kernel->in_flight(), 0u);
}

TEST_F(FrontEndTest, NoRingIsLostWhenManyAreRungAtOnce) {
  auto event = Add({.kernel = Kernel("null_event"),
                    .bindings = {Constant(0)},
                    .entries = 1024});
  uint64_t consumed = 0;
  for (uint64_t rung = 0; consumed < 20'000;) {
    while (rung < 20'000 && event.ring->free_slots() > 0) {
      event.ring->Commit();
      ++rung;
    }
    event.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
    ++consumed;
  }
  EXPECT_EQ(event.kernel->counts().done, 20'000u);
}

TEST_F(FrontEndTest,
       WritableParametersComeFromTheEntryAndFixedOnesFromTheRegistration) {
  const uint64_t input = *device_.submission_heap->Allocate(4096);
  const uint64_t output = *device_.completion_heap->Allocate(8 * 256);
  std::byte* in = device_.memory->submission().At(input);
  std::byte* out = device_.memory->completion().At(output);
  auto event = Add({.kernel = Kernel("echo"),
                    .bindings = {{.writable = true, .buffer = {in, 4096}},
                                 {.buffer = {out, 256}, .slot_stride = 256}}});
  for (int i = 0; i < 20; ++i) {
    const shm::BufferRef ref{.offset = uint64_t(i), .length = 100};
    std::memset(in + i, 'a' + i, 100);
    const uint32_t slot = event.ring->next_slot();
    std::memcpy(event.ring->parameters(), &ref, sizeof(ref));
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
    EXPECT_EQ(std::memcmp(out + slot * 256, in + i, 100), 0) << i;
  }
}

TEST_F(FrontEndTest, ABufferReferenceOutsideItsBufferFailsThatEventOnly) {
  const uint64_t input = *device_.submission_heap->Allocate(4096);
  const uint64_t output = *device_.completion_heap->Allocate(4096);
  auto event =
      Add({.kernel = Kernel("echo"),
           .bindings = {
               {.writable = true,
                .buffer = {device_.memory->submission().At(input), 4096}},
               {.buffer = {device_.memory->completion().At(output), 4096}}}});
  const auto ring = [&](shm::BufferRef ref) {
    std::memcpy(event.ring->parameters(), &ref, sizeof(ref));
    event.ring->Commit();
    event.ring->RingDoorbell();
    return device_.Wait(*event.ring);
  };
  ExpectFailed(ring({.offset = 4000, .length = 97}),
               EventStatus::kBadBufferRef);
  ExpectFailed(ring({.offset = ~uint64_t{0}, .length = 2}),
               EventStatus::kBadBufferRef);
  ExpectFailed(ring({.offset = 0, .length = ~uint64_t{0}}),
               EventStatus::kBadBufferRef);
  EXPECT_EQ(ring({.offset = 4000, .length = 96}).state, EventState::kDone);
  EXPECT_EQ(event.kernel->counts().refused, 3u);
}

TEST_F(FrontEndTest, AnEntryWithAStaleGenerationSequenceOrFlagsIsRefused) {
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  const auto ring_with = [&](auto change) {
    auto* entry = event.ring->parameters() - sizeof(shm::EsqEntryHeader);
    event.ring->Commit();
    shm::EsqEntryHeader header;
    std::memcpy(&header, entry, sizeof(header));
    change(header);
    std::memcpy(entry, &header, sizeof(header));
    event.ring->RingDoorbell();
    return device_.Wait(*event.ring);
  };
  ExpectFailed(ring_with([](auto& h) { h.generation ^= 1; }),
               EventStatus::kStaleGeneration);
  ExpectFailed(ring_with([](auto& h) { h.sequence += 8; }),
               EventStatus::kBadSequence);
  ExpectFailed(ring_with([](auto& h) { h.flags = 2; }), EventStatus::kBadFlags);
  ExpectFailed(ring_with([](auto& h) { h.flags = shm::kEsqKmdOverride; }),
               EventStatus::kBadFlags);
  EXPECT_EQ(ring_with([](auto&) {}).state, EventState::kDone);
}

TEST_F(FrontEndTest, AModifyableEventRunsWithTheDimensionsOfItsEntry) {
  auto event = Add({.kernel = &kGateKernel,
                    .bindings = GateBindings(5),
                    .modifyable = true});
  gate_.LetPass(6);
  const shm::KmdOverride six{
      .grid = {3, 2, 1}, .block = {64, 1, 1}, .shared_bytes = 0};
  event.ring->Commit(&six);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(gate_.entered().size(), 6u);

  const shm::KmdOverride huge{
      .grid = {1, 1, 1}, .block = {2048, 1, 1}, .shared_bytes = 0};
  event.ring->Commit(&huge);
  event.ring->RingDoorbell();
  ExpectFailed(device_.Wait(*event.ring), EventStatus::kBadKmd);
}

TEST_F(FrontEndTest, AFailingKernelReportsItsOwnStatus) {
  auto event =
      Add({.kernel = Kernel("fail_if"), .bindings = {WritableValue()}});
  const uint32_t code = 42;
  std::memcpy(event.ring->parameters(), &code, sizeof(code));
  event.ring->Commit();
  event.ring->RingDoorbell();
  const Completion completion = device_.Wait(*event.ring);
  EXPECT_EQ(completion.state, EventState::kFailed);
  EXPECT_EQ(completion.status,
            static_cast<uint32_t>(EventStatus::kKernelStatusBase) + 42);
}

TEST_F(FrontEndTest, EventsOfSeveralBlocksGoThroughTheKmu) {
  auto event = Add({.kernel = Kernel("null_event"),
                    .bindings = {Constant(0)},
                    .grid = {10, 3, 2},
                    .block = {128, 1, 1}});
  for (int i = 0; i < 100; ++i) {
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  }
}

TEST_F(FrontEndTest, ScheduledEventsAndRungEventsShareTheRing) {
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  uint64_t sequence = 0;
  for (int i = 0; i < 100; ++i) {
    event.ring->Commit();
    EXPECT_TRUE(event.kernel->ScheduleThrough(++sequence));
    event.ring->TakeScheduled();
    front_end_->Wake(event.kernel);
    EXPECT_EQ(device_.Wait(*event.ring).sequence.value(), sequence);
    if (i % 3 == 0) continue;
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_.Wait(*event.ring).sequence.value(), ++sequence);
  }
}

TEST_F(FrontEndTest, AScheduleWhoseAnswerWasLostLaunchesOnce) {
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    event.ring->Commit();
    // Heard, and repeated; then the doorbell says the same.
    EXPECT_TRUE(event.kernel->ScheduleThrough(sequence));
    EXPECT_TRUE(event.kernel->ScheduleThrough(sequence));
    event.ring->RingDoorbell();
    EXPECT_EQ(device_.Wait(*event.ring).sequence.value(), sequence);
    // Late.
    EXPECT_TRUE(event.kernel->ScheduleThrough(sequence - 1));
    front_end_->Wake(event.kernel);
  }
  EXPECT_EQ(event.kernel->waiting_rings(), 0u);
  EXPECT_EQ(event.kernel->counts().rung, 3u);
  EXPECT_EQ(event.kernel->counts().done, 3u);
}

TEST_F(FrontEndTest, ADoorbellThatJumpsBeyondTheFreeSlotsEvictsItsDevice) {
  auto event = Add({.kernel = Kernel("null_event"),
                    .bindings = {Constant(0)},
                    .entries = 8});
  TestDevice other("other0");
  auto innocent = other.Register(
      {.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  ASSERT_TRUE(front_end_->Add(innocent.kernel).ok());
  // What DeviceRing::RingDoorbell() does, with a count that it would never store.
  std::atomic_ref<uint32_t>(device_.memory->submission().doorbells()[0])
      .store(9);
  shm::BumpAndWake(&device_.memory->submission().submission_control().summary);
  auto violation = violator_.get_future();
  ASSERT_EQ(violation.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  EXPECT_EQ(violation.get().substr(0, 6), "test0:");
  EXPECT_EQ(event.kernel->launched(), 0u);

  innocent.ring->Commit();
  innocent.ring->RingDoorbell();
  EXPECT_EQ(other.Wait(*innocent.ring).state, EventState::kDone);
}

TEST_F(FrontEndTest,
       UnderThePriorityPolicyAHigherDoorbellOvertakesAFloodOfLowerOnes) {
  Restart("priority");
  // Both on the short path. The gate holds the front-end inside the first low
  // event while both rings fill up.
  auto low = Add(
      {.kernel = &kGateKernel, .bindings = GateBindings(1), .entries = 128});
  auto high =
      Add({.kernel = &kGateKernel, .bindings = GateBindings(2), .priority = 7});
  for (int i = 0; i < 100; ++i) low.ring->Commit();
  low.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  high.ring->Commit();
  high.ring->RingDoorbell();
  gate_.LetPass(101);
  ASSERT_EQ(device_.Wait(*high.ring).state, EventState::kDone);
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(device_.Wait(*low.ring).state, EventState::kDone);
  const auto order = gate_.entered();
  const auto place = std::find(order.begin(), order.end(), 2u) - order.begin();
  EXPECT_LE(place, 32)
      << "the higher doorbell must not wait for more than one burst";
}

// As the gate kernel; tag 2 takes long before, by its own doing, and tag 3 waits
// as long without any.
simt::KernelInfo SometimesLongKernel() {
  simt::KernelInfo kernel = kGateKernel;
  kernel.run_block = [](const simt::BlockLaunch& launch, const void* args) {
    const uint64_t tag = static_cast<const GateArgs*>(args)->tag;
    const Nanoseconds start = ThreadCpuNs();
    while (tag == 2 && ThreadCpuNs() - start < 200'000) {
    }
    if (tag == 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kGateKernel.run_block(launch, args);
  };
  return kernel;
}

TEST_F(FrontEndTest, AKernelThatOverrunsTheShortPathOnceIsNeverThereAgain) {
  const simt::KernelInfo kernel = SometimesLongKernel();
  gate_.LetPass(41);
  auto bindings = GateBindings(0);
  bindings[1] = WritableValue();
  auto sometimes = Add({.kernel = &kernel, .bindings = bindings});
  const auto ring = [&](uint64_t tag) {
    std::memcpy(sometimes.ring->parameters(), &tag, sizeof(tag));
    sometimes.ring->Commit();
    sometimes.ring->RingDoorbell();
  };
  const auto is_short = [&] {
    return sometimes.kernel->short_path().Takes(sometimes.kernel->kmd());
  };
  for (int i = 0; i < 20; ++i) {
    ring(1);
    ASSERT_EQ(device_.Wait(*sometimes.ring).state, EventState::kDone);
  }
  // Behind the call, the front-end has looked at what the run took. On a machine
  // whose host has stolen the core, one may have been long.
  front_end_->Call([] {});
  EXPECT_EQ(is_short(), overruns_ == 0);
  ring(2);
  ASSERT_EQ(device_.Wait(*sometimes.ring).state, EventState::kDone);
  front_end_->Call([] {});
  EXPECT_FALSE(is_short());
  EXPECT_EQ(overruns_, 1);
  EXPECT_GT(overrun_ns_, ShortPathEstimate::kMaxDuration);
  for (int i = 0; i < 20; ++i) {
    ring(1);
    ASSERT_EQ(device_.Wait(*sometimes.ring).state, EventState::kDone);
  }
  EXPECT_FALSE(is_short());
  EXPECT_EQ(overruns_, 1) << "told once";

  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  ring(1);
  ASSERT_TRUE(gate_.WaitEntered(42));
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(gate_.inside(), 1u);
}

TEST_F(FrontEndTest, ARunDuringWhichTheThreadHadNoCoreIsNoOverrun) {
  const simt::KernelInfo kernel = SometimesLongKernel();
  gate_.LetPass(3);
  auto waits = Add({.kernel = &kernel, .bindings = GateBindings(3)});
  const auto cpu_ns = [&] {
    Nanoseconds now = 0;
    front_end_->Call([&] { now = ThreadCpuNs(); });
    return now;
  };
  const Nanoseconds before = cpu_ns();
  for (int i = 0; i < 3; ++i) {
    waits.ring->Commit();
    waits.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*waits.ring).state, EventState::kDone);
  }
  // A loaded machine may have a run take CPU time enough for an overrun.
  EXPECT_LE(overrun_ns_, cpu_ns() - before + RunClock::kSlackNs);
  EXPECT_EQ(waits.kernel->short_path().Takes(waits.kernel->kmd()),
            overruns_ == 0);
}

TEST_F(FrontEndTest, AKernelWhoseLengthIsAnArgumentKeepsNoDoorbellWaiting) {
  simt::KernelInfo kernel = kGateKernel;
  kernel.unbounded = true;
  auto endless = Add({.kernel = &kernel, .bindings = GateBindings(1)});
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  endless.ring->Commit();
  endless.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_TRUE(Kernel("busy")->unbounded);
}

TEST_F(FrontEndTest, ADeviceBeyondWhatOneSleepCanWaitForIsRefused) {
  const TestDevice::Spec spec{.kernel = Kernel("null_event"),
                              .bindings = {Constant(0)}};
  std::vector<std::unique_ptr<TestDevice>> devices;
  for (size_t i = 0; i < DoorbellPoller::kMaxDevices; ++i) {
    devices.push_back(std::make_unique<TestDevice>("many", 1 << 16));
    ASSERT_TRUE(front_end_->Add(devices.back()->Register(spec).kernel).ok());
  }
  TestDevice one_more("one_more", 1 << 16);
  auto refused = one_more.Register(spec);
  EXPECT_EQ(not_added_, std::thread::id());
  EXPECT_EQ(front_end_->Add(refused.kernel).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(not_added_, std::this_thread::get_id());
  // Those who are in may have more; and whoever leaves makes room.
  EXPECT_TRUE(front_end_->Add(devices[0]->Register(spec).kernel).ok());
  front_end_->RemoveDevice(devices[1]->memory.get());
  EXPECT_TRUE(front_end_->Add(refused.kernel).ok());
  refused.ring->Commit();
  refused.ring->RingDoorbell();
  EXPECT_EQ(one_more.Wait(*refused.ring).state, EventState::kDone);
}

TEST_F(FrontEndTest, ACallDuringStopWaitsForTheKernelThatTheFrontEndRuns) {
  auto event = Add({.kernel = &kGateKernel, .bindings = GateBindings(1)});
  event.ring->Commit();
  event.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  std::vector<std::future<void>> stops;
  for (int i = 0; i < 2; ++i) {
    stops.push_back(
        std::async(std::launch::async, [&] { front_end_->Stop(); }));
  }
  // Several, since the first may come before Stop().
  std::vector<std::future<void>> removals;
  for (int i = 0; i < 20; ++i) {
    removals.push_back(std::async(std::launch::async, [&] {
      front_end_->RemoveDevice(device_.memory.get());
    }));
    EXPECT_EQ(removals.back().wait_for(std::chrono::milliseconds(5)),
              std::future_status::timeout);
  }
  gate_.LetPass(1);
  for (auto& stop : stops) stop.get();
  for (auto& removal : removals) removal.get();
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  // After the end of the thread, calls are carried out all the same.
  EXPECT_TRUE(front_end_->Add(event.kernel).ok());
  EXPECT_EQ(front_end_->RemoveDevice(device_.memory.get()).size(), 1u);
}

TEST_F(FrontEndTest, CallsKeepNoDoorbellWaiting) {
  Restart("first_come");
  auto event = Add(
      {.kernel = &kGateKernel, .bindings = GateBindings(1), .entries = 512});
  for (int i = 0; i < 512; ++i) event.ring->Commit();
  event.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  // While the front-end is in the first event, callers queue up.
  constexpr int kCalls = 8;
  std::vector<size_t> served_before;  // the front-end's thread only
  std::vector<std::future<void>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      front_end_->Call(
          [&] { served_before.push_back(event.kernel->launched()); });
    }));
    EXPECT_EQ(calls.back().wait_for(std::chrono::milliseconds(5)),
              std::future_status::timeout);
  }
  gate_.LetPass(512);
  for (auto& call : calls) call.get();
  ASSERT_EQ(served_before.size(), size_t{kCalls});
  for (int i = 1; i < kCalls; ++i) {
    EXPECT_GT(served_before[i], served_before[i - 1])
        << "no doorbell was looked at between two calls";
  }
  for (int i = 0; i < 512; ++i) {
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  }
}

TEST_F(FrontEndTest,
       ARemovedEventIsPolledNoMoreAndItsUnfinishedEventsCanBeAborted) {
  auto event = Add({.kernel = &kGateKernel,
                    .bindings = GateBindings(1),
                    .grid = {2, 1, 1},
                    .entries = 8});
  for (int i = 0; i < 3; ++i) event.ring->Commit();
  event.ring->RingDoorbell();
  ASSERT_TRUE(gate_.WaitEntered(1));
  front_end_->Remove(event.kernel);
  event.ring->Commit();
  event.ring->RingDoorbell();
  kmu_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  event.kernel->AbortUnfinished(EventStatus::kUnregistered);
  EXPECT_EQ(event.kernel->in_flight(), 0u);
  for (int i = 0; i < 3; ++i) {
    const Completion completion = device_.Wait(*event.ring);
    EXPECT_EQ(completion.state, EventState::kAborted);
    EXPECT_EQ(completion.status,
              static_cast<uint32_t>(EventStatus::kUnregistered));
  }
  // The block that ran on ends now: its event has ended already and must not
  // end twice.
  gate_.LetPass(10);
  Stop();
  EXPECT_EQ(event.kernel->launched(), 3u);
  EXPECT_EQ(event.kernel->counts().aborted, 3u);
  EXPECT_EQ(event.kernel->counts().done, 0u);
}

TEST_F(FrontEndTest, TracedEventsCarryTheirLifeInOrder) {
  Restart("first_come", /*tracing=*/true);
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  event.ring->Commit(nullptr, NowNs());
  event.ring->RingDoorbell();
  ASSERT_TRUE(device_.waiter->WaitUntil(
      [&] { return event.ring->Poll().has_value(); }, std::chrono::seconds(10),
      std::chrono::microseconds(5)));
  const shm::EventLife life = event.ring->life();
  EXPECT_GT(life.rung_ns, 0u);
  EXPECT_LE(life.rung_ns, life.seen_ns);
  EXPECT_LE(life.seen_ns, life.queued_ns);
  EXPECT_LE(life.queued_ns, life.dispatched_ns);
  EXPECT_LE(life.dispatched_ns, life.finished_ns);
  EXPECT_EQ(event.kernel->stages().Snapshot(Stage::kRungToFinished).count(),
            1u);
}

TEST_F(FrontEndTest, AnIdleFrontEndSleepsAndADoorbellWakesIt) {
  auto event = Add({.kernel = Kernel("null_event"), .bindings = {Constant(0)}});
  uint64_t sleeps = 0;
  for (int round = 0; round < 200; ++round) {
    const Nanoseconds start = NowNs();
    while (front_end_->sleeps() == sleeps) {
      ASSERT_LT(NowNs() - start, 10'000'000'000) << "it never sleeps";
      std::this_thread::yield();
    }
    sleeps = front_end_->sleeps();
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone) << round;
  }
}

TEST(DoorbellPoller, SleepsOverNoRingOfAnyEvent) {
  Kmu kmu(GpuModel{}, *MakePolicy("first_come"));
  CpuBlockRunner runner;
  EdgeLauncher launcher(&kmu, &runner);
  DoorbellPoller poller({}, &launcher);
  TestDevice device;
  std::vector<TestDevice::Event> events;
  for (int i = 0; i < 3; ++i) {
    events.push_back(device.Register({.kernel = simt::FindKernel("null_event"),
                                      .bindings = {{.constant_bits = 0}}}));
    ASSERT_TRUE(poller.Add(events.back().kernel).ok());
  }
  std::atomic<uint64_t> sleeps{0};
  // It has changed already: a sleep ends at once.
  const uint32_t own = 1;
  const auto sleep = [&] {
    return poller.SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps);
  };
  EXPECT_TRUE(sleep());
  EXPECT_EQ(sleeps, 1u);
  for (auto& event : events) {
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_FALSE(sleep());
    EXPECT_TRUE(poller.PollOnce());
    EXPECT_EQ(device.Wait(*event.ring).state, EventState::kDone);
  }
  EXPECT_EQ(sleeps, 1u);
}

}  // namespace
}  // namespace carillon::gpud
