// A gpud's GPU in simulated time, with devices in the test's own process: what
// each may do when, and that the same story has the same times.
#include "gpu_daemon/backends/sim/timed_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing/eventually.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/registry.h"
#include "gpu_daemon/backends/sim/timed_test.h"
#include "gpu_daemon/backends/sim/turn_device.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::kNoTime;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

uint32_t Number(EventStatus status) { return static_cast<uint32_t>(status); }

class TimedBackendTest : public TimedTest {
 protected:
  ~TimedBackendTest() override { Stop(); }  // which may still call it

  void Start(uint32_t devices) {
    auto backend = TimedBackend::Create(
        {.timing = "tiny",
         .first_devices = devices,
         .event_log = log_,
         .on_violation = [this](const std::shared_ptr<DeviceMemory>& memory,
                                std::string reason) {
           violations_.emplace(memory->name(), std::move(reason));
           violated_ = true;
         }});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  // Host memory that the simulated GPU may read, and memory of its own.
  struct CopyPlaces {
    std::vector<std::byte> bytes;
    std::unique_ptr<HostMapping> host;
    std::unique_ptr<GpuMemory> gpu;
  };
  CopyPlaces Places(uint64_t bytes) {
    CopyPlaces places;
    for (uint64_t i = 0; i < bytes; ++i) {
      places.bytes.push_back(std::byte(i * 5 + i / 256));
    }
    places.host = *backend_->memory().MapHost(places.bytes);
    places.gpu = *backend_->memory().Allocate(bytes);
    return places;
  }
  std::future<LaunchResult> Copy(TurnDevice& device, CopyPlaces& places,
                                 CopyDirection direction,
                                 uint32_t priority = 0) {
    auto copy = std::make_unique<MemoryCopy>();
    copy->direction = direction;
    const bool in = direction == CopyDirection::kIn;
    copy->from = in ? places.host->data() : places.gpu->data();
    copy->to = in ? places.gpu->data() : places.host->data();
    copy->bytes = places.bytes.size();
    copy->priority = priority;
    copy->memory = device.memory;
    auto ended = std::make_shared<std::promise<LaunchResult>>();
    copy->on_end = [ended](const LaunchResult& result) {
      ended->set_value(result);
    };
    backend_->Submit(std::move(copy));
    return ended->get_future();
  }

  std::map<std::string, std::string> violations_;
  std::atomic<bool> violated_{false};  // writer: the back-end; after the map
};

TEST_F(TimedBackendTest, AnEventHasTheSimulatedGpusTimes) {
  Start(1);
  const auto device = Attach("fpga0");
  auto event = Register(*device);
  ASSERT_EQ(device->time.now(), 0u);
  device->RingDoorbell(event, 0);
  device->RingDoorbell(event, 7);
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  const Nanoseconds first = device->time.now();
  EXPECT_GT(first, 100u);
  const shm::EventLife life = event.ring->life();
  EXPECT_EQ(device->Take(event).state, EventState::kDone);
  EXPECT_EQ(life.rung_ns, 0u);
  EXPECT_GT(life.dispatched_ns, 0u);
  EXPECT_GT(life.finished_ns, life.dispatched_ns);
  EXPECT_LE(life.finished_ns, first);
  if (!event.ring->Poll()) {
    device->time.Answer(kNoTime);
    ASSERT_TRUE(device->WaitForTurn());
  }
  const auto second = device->Take(event);
  EXPECT_EQ(second.state, EventState::kFailed);
  EXPECT_EQ(second.status, Number(EventStatus::kKernelStatusBase) + 7);
}

TEST_F(TimedBackendTest, TimeStandsUntilEverybodyHasAnswered) {
  Start(2);
  const auto a = Attach("a");
  auto event = Register(*a);
  a->RingDoorbell(event, 0);
  a->time.Answer(kNoTime);
  EXPECT_FALSE(a->WaitForTurn(milliseconds(50))) << "there is no second device";
  EXPECT_THAT(backend_->description(), HasSubstr("waits for 1 of 2 devices"));
  const auto b = Attach("b");
  EXPECT_FALSE(a->WaitForTurn(milliseconds(50))) << "b has not answered";
  EXPECT_THAT(backend_->description(), HasSubstr("waits for b"));
  EXPECT_THAT(backend_->description(), HasSubstr("now 0.000000 ms"));
  b->time.Answer(100);
  // Before the event can end.
  ASSERT_TRUE(b->WaitForTurn());
  EXPECT_EQ(b->time.now(), 100u);
  EXPECT_FALSE(a->WaitForTurn(milliseconds(50)));
  b->time.Answer(kNoTime);
  ASSERT_TRUE(a->WaitForTurn());
  EXPECT_GT(a->time.now(), 100u);
  EXPECT_EQ(a->Take(event).state, EventState::kDone);
  EXPECT_FALSE(b->WaitForTurn(milliseconds(50))) << "nothing of its own ended";
}

TEST_F(TimedBackendTest, ADeviceThatIsGoneHoldsNobodyUp) {
  Start(2);
  const auto a = Attach("a");
  const auto b = Attach("b");
  a->time.Answer(1000);
  EXPECT_FALSE(a->WaitForTurn(milliseconds(50)));
  backend_->paths().RemoveDevice(b->memory.get());
  ASSERT_TRUE(a->WaitForTurn());
  EXPECT_EQ(a->time.now(), 1000u);
}

TEST_F(TimedBackendTest, ATurnComesWhenItWasAskedForHoweverLongNothingHappens) {
  Start(1);
  const auto device = Attach("a");
  constexpr Nanoseconds kLong = uint64_t{100 * 24 * 3600} * 1'000'000'000;
  for (const Nanoseconds at : {Nanoseconds{1}, Nanoseconds{2}, kLong}) {
    device->time.Answer(at);
    ASSERT_TRUE(device->WaitForTurn());
    EXPECT_EQ(device->time.now(), at);
  }
}

TEST_F(TimedBackendTest, ARingOfTheFutureWaitsForItsTime) {
  Start(1);
  const auto device = Attach("a");
  auto event = Register(*device);
  device->RingAt(event, 0, 50'000);
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  EXPECT_GT(device->time.now(), 50'000u);
  EXPECT_EQ(event.ring->life().rung_ns, 50'000u);
  EXPECT_GE(event.ring->life().dispatched_ns, 50'000u);
}

TEST_F(TimedBackendTest, ARingOfThePastEndsTheSession) {
  Start(1);
  const auto device = Attach("a");
  auto event = Register(*device);
  device->time.Answer(1000);
  ASSERT_TRUE(device->WaitForTurn());
  device->RingAt(event, 0, 999);
  device->time.Answer(kNoTime);
  // Whoever hears of the violation ends it in the end; here, the event does.
  EXPECT_EQ(device->Wait(*event.ring).status, Number(EventStatus::kDeviceGone));
  ASSERT_TRUE(violated_);
  EXPECT_EQ(violations_["a"],
            "event 1 of 'fail_if' was rung at 999 ns, and it was 1000 ns");
}

TEST_F(TimedBackendTest, ATurnOfThePastEndsTheSession) {
  Start(1);
  const auto bad = Attach("bad");
  const auto good = Attach("good");
  good->time.Answer(1000);
  bad->time.Answer(1000);
  ASSERT_TRUE(bad->WaitForTurn());
  ASSERT_TRUE(good->WaitForTurn());
  bad->time.Answer(1000);
  good->time.Answer(2000);
  ASSERT_TRUE(good->WaitForTurn()) << "the others go on";
  EXPECT_EQ(violations_["bad"],
            "at 1000 ns it asked for its next turn at 1000 ns");
}

TEST_F(TimedBackendTest, ARefusedEntryHasItsTurnToo) {
  Start(1);
  const auto device = Attach("a");
  auto event = Register(*device);
  event.ring->Commit(nullptr, 0);
  const uint64_t other = 99;
  std::memcpy(event.ring->last_entry().data(), &other, sizeof(other));
  event.ring->RingDoorbell();
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  EXPECT_EQ(device->Take(event).status, Number(EventStatus::kBadSequence));
}

TEST_F(TimedBackendTest, ABackgroundKernelHoldsItsDevicesTurnUntilItEnds) {
  Start(2);
  const auto host = Attach("host");
  const auto other = Attach("other");
  other->time.Answer(10);
  host->time.Answer(5);
  ASSERT_TRUE(host->WaitForTurn());
  std::promise<LaunchResult> ended;
  backend_->Submit(Background(host->memory, &ended));
  ASSERT_TRUE(other->WaitForTurn());
  EXPECT_EQ(other->time.now(), 10u);
  other->time.Answer(kNoTime);
  const LaunchResult result = ended.get_future().get();
  EXPECT_EQ(result.state, EventState::kDone);
  EXPECT_EQ(result.queued_ns, 5u);
  EXPECT_GE(result.dispatched_ns, 5u);
  EXPECT_GT(result.finished_ns, result.dispatched_ns);
  ASSERT_TRUE(host->WaitForTurn());
  EXPECT_GE(host->time.now(), result.finished_ns);
}

TEST_F(TimedBackendTest, ACancelledKernelEndsWhereItIs) {
  Start(2);
  const auto host = Attach("host");
  const auto other = Attach("other");
  auto event = Register(*host);
  std::promise<LaunchResult> ended;
  host->RingDoorbell(event, 0);
  backend_->Submit(Background(host->memory, &ended));
  other->time.Answer(1000);
  ASSERT_TRUE(other->WaitForTurn());
  backend_->Cancel(LaunchFilter::OfToken(1), EventStatus::kUnregistered);
  EXPECT_EQ(ended.get_future().get().state, EventState::kAborted);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  other->time.Answer(kNoTime);
  ASSERT_TRUE(host->WaitForTurn());
  EXPECT_EQ(host->time.now(), 1000u);
  EXPECT_NE(host->Take(event).state, EventState::kNone);
  EXPECT_TRUE(backend_->idle());
}

// As another device's memory goes when that device does.
TEST_F(TimedBackendTest, AUsersKernelOverMemoryThatGoesFailsAlone) {
  // data[1] = 1, and stores for ever where data[0] says.
  static constexpr std::string_view kPtx = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry over(.param .u64 data)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.global.u64 %rd2, [%rd1];
  mov.u64 %rd3, 1;
again:
  st.global.u64 [%rd2], %rd3;
  st.global.u64 [%rd1+8], %rd3;
  bra again;
}
)";
  Start(1);
  const auto device = Attach("a");
  const auto kernels = backend_->LoadKernels(
      {.image = std::as_bytes(std::span(kPtx)),
       .file = "over.ptx",
       .kernels = {
           {.symbol = "over",
            .name = "over",
            .parameters = {{"data", simt::ParamKind::kWriteBuffer, 8}}}}});
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  constexpr size_t kBytes = 4096;
  void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto others =
      *backend_->memory().MapHost({static_cast<std::byte*>(page), kBytes});
  std::vector<uint64_t> data(2);
  data[0] = reinterpret_cast<uint64_t>(others->data());
  const auto mapping =
      *backend_->memory().MapHost(std::as_writable_bytes(std::span(data)));
  auto event = device->Register(
      {.kernel = kernels->at(0),
       .bindings = {{.buffer = {mapping->data(), data.size() * 8}}}});
  ASSERT_TRUE(backend_->paths().Find("edge")->path->Add(event.kernel).ok());
  event.ring->Commit(nullptr, 0);
  event.ring->RingDoorbell();
  device->time.Answer(kNoTime);
  while (std::atomic_ref<uint64_t>(data[1]) == 0) std::this_thread::yield();
  others.reset();
  munmap(page, kBytes);
  ASSERT_TRUE(device->WaitForTurn());
  const shm::Completion end = device->Take(event);
  EXPECT_EQ(end.state, EventState::kFailed);
  EXPECT_EQ(end.status, Number(EventStatus::kKernelFault));
  auto own = Register(*device);
  device->RingDoorbell(own, 0);
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  EXPECT_EQ(device->Take(own).state, EventState::kDone);
}

// `tiny` copies a byte in a nanosecond, and a chunk takes 100 ns besides.
TEST_F(TimedBackendTest, ACopyTakesTheTimeOfItsBytesAndItsChunks) {
  Start(1);
  const auto device = Attach("host");
  constexpr uint64_t kBytes = (9 << 20) + 5;
  {
    CopyPlaces places = Places(kBytes);
    LaunchResult result = Copy(*device, places, CopyDirection::kIn).get();
    EXPECT_EQ(result.state, EventState::kDone);
    EXPECT_EQ(result.dispatched_ns, result.queued_ns);
    EXPECT_EQ(result.finished_ns - result.queued_ns, kBytes + 3 * 100);
    ASSERT_TRUE(device->WaitForTurn());
    EXPECT_EQ(device->time.now(), result.finished_ns);
    const std::vector<std::byte> written = places.bytes;
    std::ranges::fill(places.bytes, std::byte{0});
    result = Copy(*device, places, CopyDirection::kOut).get();
    EXPECT_EQ(result.finished_ns - result.queued_ns, kBytes + 19 * 100);
    EXPECT_TRUE(places.bytes == written);
  }
  EXPECT_THAT(Log(), HasSubstr(fmt::format("host,,,copy_in,done,0,0,0,{},,,0\n",
                                           kBytes + 300)));
}

TEST_F(TimedBackendTest, AMoreUrgentCopyWaitsForTheChunkAndNoLonger) {
  Start(2);
  const auto slow = Attach("a");
  const auto urgent = Attach("b");
  constexpr uint64_t kChunk = 4 << 20;
  CopyPlaces large = Places(3 * kChunk);
  CopyPlaces small = Places(1000);
  urgent->time.Answer(500);
  auto large_end = Copy(*slow, large, CopyDirection::kIn, 1);
  ASSERT_TRUE(urgent->WaitForTurn());
  ASSERT_EQ(urgent->time.now(), 500u);
  const auto copies = backend_->copies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].device, "a");
  EXPECT_EQ(copies[0].bytes, 3 * kChunk);
  EXPECT_EQ(copies[0].copied, 0u);
  EXPECT_EQ(copies[0].age_ns, 500u);
  const LaunchResult result = Copy(*urgent, small, CopyDirection::kIn, 2).get();
  EXPECT_EQ(result.queued_ns, 500u);
  EXPECT_EQ(result.dispatched_ns, kChunk + 100);
  EXPECT_EQ(result.finished_ns, kChunk + 100 + 1100);
  ASSERT_TRUE(urgent->WaitForTurn());
  urgent->time.Answer(kNoTime);
  EXPECT_EQ(large_end.get().finished_ns, 3 * (kChunk + 100) + 1100);
}

TEST_F(TimedBackendTest, NoCopyIsOvertakenForEver) {
  Start(2);
  const auto slow = Attach("a");
  const auto urgent = Attach("b");
  constexpr uint64_t kChunk = 4 << 20;
  CopyPlaces low = Places(2 * kChunk);
  CopyPlaces flood = Places(2 * CopyTurns::kMostOvertakings * kChunk);
  urgent->time.Answer(500);
  auto low_end = Copy(*slow, low, CopyDirection::kIn, 1);
  ASSERT_TRUE(urgent->WaitForTurn());
  auto flood_end = Copy(*urgent, flood, CopyDirection::kIn, 2);
  EXPECT_EQ(low_end.get().finished_ns,
            (CopyTurns::kMostOvertakings + 2) * (kChunk + 100));
  ASSERT_TRUE(slow->WaitForTurn());
  slow->time.Answer(kNoTime);
  EXPECT_EQ(flood_end.get().state, EventState::kDone);
}

TEST_F(TimedBackendTest, ADevicesEndLosesItsCopiesAndFreesTheLink) {
  Start(2);
  const auto gone = Attach("a");
  const auto other = Attach("b");
  CopyPlaces large = Places(8 << 20);
  CopyPlaces small = Places(1000);
  auto end = Copy(*gone, large, CopyDirection::kIn, 1);
  other->time.Answer(500);
  ASSERT_TRUE(other->WaitForTurn());
  backend_->Cancel(LaunchFilter::Of(*gone->memory), EventStatus::kDeviceGone);
  const LaunchResult lost = end.get();
  EXPECT_EQ(lost.state, EventState::kAborted);
  EXPECT_EQ(lost.status, Number(EventStatus::kDeviceGone));
  backend_->paths().RemoveDevice(gone->memory.get());
  EXPECT_EQ(Copy(*other, small, CopyDirection::kIn).get().finished_ns, 1600u);
}

// edgeReleaseBarrier.
class ReleaseBarrierTest : public TimedBackendTest {
 protected:
  TestDevice::Event RegisterWaiting(TurnDevice& device) {
    static constexpr std::string_view kPtx = R"(
.version 7.0
.target sm_75
.address_size 64
.extern .func __wait_threads;
.visible .entry wait()
{
  call.uni __wait_threads;
  ret;
}
)";
    const auto kernels =
        backend_->LoadKernels({.image = std::as_bytes(std::span(kPtx)),
                               .file = "wait.ptx",
                               .kernels = {{.symbol = "wait",
                                            .name = "wait",
                                            .summary = "",
                                            .parameters = {}}}});
    EXPECT_TRUE(kernels.ok()) << kernels.status();
    auto event = device.Register({.kernel = kernels->at(0), .bindings = {}});
    const auto status = backend_->paths().Find("edge")->path->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
};

TEST_F(ReleaseBarrierTest, AnEventWaitsUntilItsDeviceReleasesIt) {
  Start(1);
  const auto device = Attach("a");
  auto event = RegisterWaiting(*device);
  event.ring->Commit(nullptr, 0);
  event.ring->RingDoorbell();
  device->time.Answer(1'000'000);
  ASSERT_TRUE(device->WaitForTurn());
  ASSERT_EQ(device->time.now(), 1'000'000u);
  EXPECT_EQ(device->Take(event).state, EventState::kNone);
  EXPECT_TRUE(backend_->ReleaseBarrier(*device->memory).ok());
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  EXPECT_GT(device->time.now(), 1'000'000u);
  EXPECT_LT(device->time.now(), 1'100'000u);
  EXPECT_EQ(device->Take(event).state, EventState::kDone);
}

TEST_F(ReleaseBarrierTest, AReleaseThatComesBeforeTheWaitIsNotLost) {
  Start(1);
  const auto device = Attach("a");
  auto event = RegisterWaiting(*device);
  EXPECT_TRUE(backend_->ReleaseBarrier(*device->memory).ok());
  event.ring->Commit(nullptr, 0);
  event.ring->RingDoorbell();
  device->time.Answer(kNoTime);
  ASSERT_TRUE(device->WaitForTurn());
  EXPECT_EQ(device->Take(event).state, EventState::kDone);
}

TEST_F(TimedBackendTest, WhatWaitsIsAbortedWhenItStops) {
  Start(2);
  const auto device = Attach("a");
  auto event = Register(*device);
  device->RingDoorbell(event, 0);
  device->time.Answer(kNoTime);
  while (backend_->idle()) std::this_thread::yield();
  Stop();
  const auto completion = device->Take(event);
  EXPECT_EQ(completion.state, EventState::kAborted);
  EXPECT_EQ(completion.status, Number(EventStatus::kShutdown));
}

// Two devices whose threads run as the machine lets them, and the same log.
TEST_F(TimedBackendTest, TheSameStoryHasTheSameTimes) {
  std::string first;
  for (int run = 0; run < 3; ++run) {
    Start(2);
    const auto live = [&](TurnDevice& device, TestDevice::Event& event,
                          Nanoseconds period) {
      Nanoseconds due = period;
      uint32_t rung = 0;
      uint32_t taken = 0;
      while (taken < 30) {
        while (device.Take(event).state != EventState::kNone) ++taken;
        if (device.time.now() == due) {
          if (event.ring->free_slots() > 0 && rung < 30) {
            device.RingDoorbell(event, rung++ % 3);
          }
          due += period;
        }
        if (taken == 30) break;
        device.time.Answer(due);
        ASSERT_TRUE(device.WaitForTurn());
      }
      // It must not hold the other one up.
      device.time.Answer(kNoTime);
    };
    const auto a = Attach("a");
    const auto b = Attach("b");
    auto of_a = Register(*a);
    auto of_b = Register(*b, 3);
    std::thread other([&] { live(*b, of_b, 240); });
    live(*a, of_a, 160);
    other.join();
    const std::string log = Log();
    if (run == 0) first = log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 61);
    EXPECT_EQ(log, first);
  }
}

// Devices that store what they like, one after the other, and one that keeps to
// the protocol.
TEST_F(TimedBackendTest, AHostileDeviceCostsNobodyButItself) {
  Start(1);
  const auto good = Attach("good");
  auto event = Register(*good);
  std::atomic<bool> enough{false};  // writer: the hostile side's end
  std::thread neighbour([&] {
    uint32_t rung = 0;
    for (uint32_t taken = 0; !enough || taken < rung;) {
      while (good->Take(event).state != EventState::kNone) ++taken;
      if (!enough && event.ring->free_slots() > 0) {
        good->RingDoorbell(event, 0);
        ++rung;
      }
      good->time.Answer(good->time.now() + 100);
      ASSERT_TRUE(good->WaitForTurn());
    }
    good->time.Answer(kNoTime);
  });
  std::mt19937_64 random(1);
  const auto any = [&](uint64_t below) { return random() % below; };
  for (int life = 0; life < 40; ++life) {
    const auto bad = Attach("bad");
    auto own = Register(*bad, static_cast<uint32_t>(any(8)));
    auto* const answer = reinterpret_cast<shm::TimeAnswer*>(
        bad->memory->submission().At(shm::kSimulatedTimeOffset));
    for (int step = 0; step < 100; ++step) {
      const Nanoseconds now = bad->time.now();
      switch (any(5)) {
        case 0:
          std::atomic_ref(answer->turn).store(any(8));
          break;
        case 1:
          bad->time.Answer(any(2) == 0 ? any(2 * now + 9) : random());
          break;
        case 2:
          if (own.ring->free_slots() > 0) {
            bad->RingAt(own, static_cast<uint32_t>(any(3)),
                        any(4) == 0 ? any(2 * now + 9) : now + any(1000));
          }
          break;
        case 3:
          bad->Take(own);
          break;
        default:
          bad->time.Answer(now + 1 + any(500));
          // So that what it stored is looked at.
          bad->WaitForTurn(milliseconds(1));
      }
    }
    backend_->paths().RemoveDevice(bad->memory.get());
    backend_->Cancel(LaunchFilter::Of(*bad->memory), EventStatus::kDeviceGone);
    own.kernel->AbortUnfinished(EventStatus::kDeviceGone);
    EXPECT_EQ(own.kernel->in_flight(), 0u) << "life " << life;
  }
  enough = true;
  neighbour.join();
  Stop();
  EXPECT_EQ(event.kernel->in_flight(), 0u);
  EXPECT_TRUE(violations_.contains("bad"));
  EXPECT_FALSE(violations_.contains("good")) << violations_["good"];
}

TEST_F(TimedBackendTest, NoEventIsLostOrDoubledWhileThePolicyChanges) {
  // Two SMs at least, for the reservations.
  auto backend =
      TimedBackend::Create({.timing = "edge_table2", .event_log = log_});
  ASSERT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  EXPECT_EQ(backend_->policy(), "configured");
  const auto device = Attach("a");
  std::vector<TestDevice::Event> events;
  for (const uint32_t priority : {0, 3, 7}) {
    events.push_back(Register(*device, priority));
  }
  const auto policies = backend_->policies();
  std::mt19937 random(3);
  uint32_t rung = 0;
  std::map<const EventKernel*, uint32_t> of_each;
  for (int step = 0; step < 60; ++step) {
    for (auto& event : events) {
      while (event.ring->free_slots() > 0) {
        device->RingDoorbell(event, rung % 5 == 0 ? 3 : 0);
        ++rung;
        ++of_each[event.kernel.get()];
      }
    }
    const auto* policy = policies[random() % policies.size()];
    ASSERT_TRUE(backend_->SetPolicy(policy->name).ok()) << policy->name;
    ASSERT_EQ(backend_->policy(), policy->name);
    device->time.Answer(kNoTime);
    ASSERT_TRUE(device->WaitForTurn());
    for (auto& event : events) {
      while (device->Take(event).state != EventState::kNone) {
      }
    }
  }
  EXPECT_EQ(backend_->SetPolicy("fair").code(), absl::StatusCode::kNotFound);
  for (auto& event : events) {
    while (event.kernel->in_flight() != 0) {
      device->time.Answer(kNoTime);
      ASSERT_TRUE(device->WaitForTurn());
    }
    const auto counts = event.kernel->counts();
    EXPECT_EQ(counts.rung, of_each[event.kernel.get()]);
    EXPECT_EQ(counts.done + counts.failed, counts.rung);
  }
}

TEST_F(TimedBackendTest, TimeBeginsWhenTheNamedDevicesHaveAttached) {
  auto backend = TimedBackend::Create(
      {.timing = "tiny", .device_order = "b,a", .event_log = log_});
  ASSERT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  const auto a = Attach("a");
  auto event = Register(*a);
  a->RingDoorbell(event, 0);
  a->time.Answer(kNoTime);
  // As many as are named, but not those.
  const auto other = Attach("other");
  other->time.Answer(kNoTime);
  EXPECT_TRUE(Eventually([&] {
    return backend_->description().ends_with("now 0.000000 ms; waits for b");
  })) << backend_->description();
  EXPECT_FALSE(a->WaitForTurn(milliseconds(50)));
  const auto b = Attach("b");
  b->time.Answer(kNoTime);
  EXPECT_TRUE(a->WaitForTurn());
  EXPECT_EQ(a->Take(event).state, EventState::kDone);
}

TEST_F(TimedBackendTest, AnOrderThatIsNoneIsRefusedByName) {
  const auto refusal = [](const std::string& timing, const std::string& order) {
    return std::string(
        TimedBackend::Create({.timing = timing, .device_order = order})
            .status()
            .message());
  };
  EXPECT_EQ(refusal("tiny", "a,b,a"),
            "--device-order: 'a,b,a': each name once, like fpga0,host0");
  EXPECT_EQ(refusal("tiny", "a,"),
            "--device-order: 'a,': each name once, like fpga0,host0");
  EXPECT_EQ(refusal("", "a"),
            "--device-order: it goes with --timing (timing): in wall time, "
            "devices come when they come");
  std::string many = "d0";
  for (int i = 1; i < 256; ++i) many += ",d" + std::to_string(i);
  EXPECT_EQ(refusal("tiny", many), "--device-order: 256 devices; allowed: 255");
}

TEST_F(TimedBackendTest, BackgroundLaunchesShowTheirBlocksAndSlices) {
  auto backend = TimedBackend::Create(
      {.policy = "gpes", .timing = "edge_table2", .event_log = log_});
  ASSERT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  EXPECT_EQ(backend_->policy(), "gpes");
  const auto device = Attach("a");
  EXPECT_TRUE(backend_->launches().empty());
  std::promise<LaunchResult> ended;
  device->time.Answer(1);
  ASSERT_TRUE(device->WaitForTurn());
  backend_->Submit(Background(device->memory, &ended));
  const auto launches = backend_->launches();
  if (!launches.empty()) {
    EXPECT_EQ(launches[0].kernel, "busy");
    EXPECT_EQ(launches[0].device, "a");
    EXPECT_EQ(launches[0].blocks, 4u);
  }
  EXPECT_EQ(ended.get_future().get().state, EventState::kDone);
}

TEST(TimedBackend, RefusesWhatItsConfigurationSays) {
  EXPECT_EQ(TimedBackend::Create({.timing = "huge"}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(TimedBackend::Create({.policy = "fair", .timing = "tiny"})
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(TimedBackend::Create({.reserved_sms = 1, .timing = "tiny"})
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(TimedBackend::Create({.policy = "reservation", .timing = "tiny"})
                .status()
                .message(),
            "sharing policy 'reservation': 0 of 1 SMs for events: each side "
            "needs one");
  const auto unwritable = TimedBackend::Create(
      {.timing = "tiny", .event_log = "/nowhere/events.csv"});
  EXPECT_EQ(unwritable.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unwritable.status().message()),
              HasSubstr("/nowhere/events.csv"));
  EXPECT_EQ(MakeBackend("cpu", {.timing = "tiny"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeBackend("sim", {.event_log = "x"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace carillon::gpud
