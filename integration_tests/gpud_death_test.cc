// gpud dies and another one takes its place: what devices keep, and that no
// event is lost or ends twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "devices/sdk/edge.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using edge::Constant;
using edge::EventState;
using edge::Fixed;
using edge::Place;
using edge::Writable;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Testbed;

constexpr uint32_t kSlots = 32;
constexpr uint32_t kBytes = 64;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class GpudDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start(flags_);
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
  }
  std::unique_ptr<edge::Device> Attach(const std::string& name = "device0") {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    options.counter_names = {"turns"};
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }
  void RestartGpud() {
    const auto status = testbed_->RestartGpud(flags_);
    ASSERT_TRUE(status.ok()) << Message(status);
  }
  void KillGpudAndGoOn(edge::Device& device) {
    testbed_->gpud().Kill();
    ASSERT_TRUE(IsDead(device));
    ASSERT_NO_FATAL_FAILURE(RestartGpud());
    const auto resumed = device.Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << Message(resumed);
    ASSERT_TRUE(device.status().ok());
  }
  static bool IsDead(edge::Device& device) {
    return absl::IsUnavailable(device.WaitForEnd(kBound));
  }

  std::vector<std::string> flags_ = {"--workers", "1", "--backend", "cpu"};
  std::unique_ptr<Testbed> testbed_;
};

// Echoes kBytes of input, which identify their event.
class Echoes {
 public:
  Echoes(edge::Device& device, const std::string& launch_path = "")
      : device_(device),
        in_(*device.AllocateBuffer(Place::kInput, kSlots * kBytes)),
        out_(*device.AllocateBuffer(Place::kOutput, kSlots * kBytes)) {
    auto queue = edge::edgeRegisterEvent(
        device,
        {.kernel = "echo",
         .max_in_flight = kSlots,
         .launch_path = launch_path,
         .parameters = {
             Fixed("in", in_, {.length = kBytes, .slot_stride = kBytes}),
             Fixed("out", out_, {.length = kBytes, .slot_stride = kBytes})}});
    EXPECT_TRUE(queue.ok()) << Message(queue.status());
    queue_ = queue.ok() ? *queue : nullptr;
  }

  edge::EventQueue& queue() { return *queue_; }
  const edge::Buffer& in() const { return in_; }
  const edge::Buffer& out() const { return out_; }

  void Commit() {
    const uint32_t slot = queue_->next_slot();
    const uint64_t sequence = queue_->Commit().value();
    std::memcpy(in_.bytes.data() + slot * kBytes, &sequence, sizeof(sequence));
  }
  void RingAll() {
    while (queue_->free_slots() > 0) Commit();
    queue_->RingCommitted();
  }
  // Takes what has ended: each event once, in order, with its own output.
  void TakeAll() {
    while (const auto done = queue_->Poll()) {
      ASSERT_EQ(done->sequence.value(), ++taken_);
      ASSERT_EQ(done->state, EventState::kDone) << done->status;
      uint64_t echoed = 0;
      std::memcpy(&echoed,
                  out_.bytes.data() + queue_->SlotOf(done->sequence) * kBytes,
                  sizeof(echoed));
      ASSERT_EQ(echoed, taken_);
      queue_->Free();
    }
  }
  uint64_t taken() const { return taken_; }

 private:
  edge::Device& device_;
  const edge::Buffer in_;
  const edge::Buffer out_;
  edge::EventQueue* queue_ = nullptr;
  uint64_t taken_ = 0;
};

struct Served {
  const char* backend;
  const char* launch_path;
};

class GpudDeathUnderLoadTest : public GpudDeathTest,
                               public ::testing::WithParamInterface<Served> {
 protected:
  void SetUp() override {
    if (GetParam().backend == std::string("cuda")) {
      const std::string library =
          testing::Program("gpu_daemon/backends/cuda/fake/libcuda.so.1");
      setenv("LD_LIBRARY_PATH", library.substr(0, library.rfind('/')).c_str(),
             1);
    }
    flags_.back() = GetParam().backend;
    GpudDeathTest::SetUp();
  }
  void TearDown() override { unsetenv("LD_LIBRARY_PATH"); }
  // One gpud after the other, by these signals.
  void EndGpudsAmidEvents(const std::vector<int>& signals);
};

std::string NameOf(const ::testing::TestParamInfo<Served>& info) {
  return info.param.launch_path;
}
INSTANTIATE_TEST_SUITE_P(Cpu, GpudDeathUnderLoadTest,
                         ::testing::Values(Served{"cpu", "edge"},
                                           Served{"cpu", "baseline"},
                                           Served{"cpu", "baseline_flag"},
                                           Served{"cpu", "persistent"},
                                           Served{"cpu", "pagoda"},
                                           Served{"cpu", "pagoda_ring"}),
                         &NameOf);
#ifdef CARILLON_HAVE_CUDA
INSTANTIATE_TEST_SUITE_P(CudaOnTheFakeDriver, GpudDeathUnderLoadTest,
                         ::testing::Values(Served{"cuda", "edge"},
                                           Served{"cuda", "baseline"},
                                           Served{"cuda", "baseline_flag"},
                                           Served{"cuda", "graph"},
                                           Served{"cuda", "stream_wait"},
                                           Served{"cuda", "persistent"},
                                           Served{"cuda", "pagoda_ring"},
                                           Served{"cuda", "pagoda"}),
                         &NameOf);
#else
TEST(GpudDeathOnCuda, IsNotTestedHere) {
  GTEST_SKIP() << "built without the CUDA toolkit";
}
#endif

TEST_P(GpudDeathUnderLoadTest, EveryEventEndsOnceWhoeverServesIt) {
  EndGpudsAmidEvents({SIGKILL, SIGKILL, SIGKILL, SIGKILL, SIGKILL, SIGKILL});
}

TEST_P(GpudDeathUnderLoadTest, EveryEventEndsOnceWhenGpudRestarts) {
  EndGpudsAmidEvents({SIGUSR1, SIGUSR1, SIGKILL, SIGUSR1, SIGUSR1, SIGUSR1});
}

void GpudDeathUnderLoadTest::EndGpudsAmidEvents(
    const std::vector<int>& signals) {
  auto device = Attach();
  Echoes echoes(*device, GetParam().launch_path);
  std::mt19937 random(7);
  for (const int signal : signals) {
    // gpud ends at some moment during a stream of events.
    std::thread killer([&, wait = random() % 20'000] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      kill(testbed_->gpud().pid(), signal);
    });
    while (device->status().ok()) {
      echoes.RingAll();
      ASSERT_NO_FATAL_FAILURE(echoes.TakeAll());
      std::this_thread::yield();
    }
    killer.join();
    ASSERT_TRUE(testbed_->gpud().Wait().has_value());
    ASSERT_NO_FATAL_FAILURE(echoes.TakeAll());
    ASSERT_NO_FATAL_FAILURE(RestartGpud());
    const auto resumed = device->Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << Message(resumed);
    const uint64_t before = echoes.taken();
    EXPECT_TRUE(Eventually([&] {
      echoes.TakeAll();
      return HasFailure() ||
             (echoes.queue().in_flight() == 0 && echoes.taken() >= before);
    })) << "what was rung does not end";
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(echoes.taken(), 0u);
  // If a kernel stores its end itself, gpud counts it afterwards.
  v1::ListEktResponse ekt;
  EXPECT_TRUE(Eventually([&] {
    ekt = testbed_->Ekt();
    return HasFailure() || ekt.entries_size() != 1 ||
           ekt.entries(0).counts().rung() == ekt.entries(0).counts().done();
  })) << ekt.DebugString();
  ASSERT_EQ(ekt.entries_size(), 1);
  EXPECT_EQ(ekt.entries(0).launch_path(), GetParam().launch_path);
  // This is the last gpud's own ledger, without its predecessors' events.
  EXPECT_LE(ekt.entries(0).counts().rung(), kSlots);
}

TEST_F(GpudDeathTest, BuffersQueuesAndFiguresStayWhereTheyWere) {
  auto device = Attach();
  // Later allocations fill this hole in both heaps, before and after gpud's
  // death.
  const auto gap_in = *device->AllocateBuffer(Place::kInput, 4096);
  const auto gap_out = *device->AllocateBuffer(Place::kOutput, 4096);
  const auto memory = *device->AllocateBuffer(Place::kGpuMemory, 4096);
  Echoes first(*device);
  Echoes second(*device);
  ASSERT_TRUE(device->FreeBuffer(gap_in).ok());
  ASSERT_TRUE(device->FreeBuffer(gap_out).ok());
  ASSERT_TRUE(edge::edgeUnregisterEvent(*device, &first.queue()).ok());
  device->SetCounter(0, 17);
  ASSERT_TRUE(device->ReportReady("here").ok());
  std::memset(first.in().bytes.data(), 0x5a, first.in().bytes.size());
  const int completion_fd = device->completion_fd();
  const int connection_fd = device->connection_fd();
  const auto generation = device->generation();
  const uint32_t event_id = second.queue().event_id();

  ASSERT_NO_FATAL_FAILURE(KillGpudAndGoOn(*device));
  EXPECT_EQ(device->completion_fd(), completion_fd);
  EXPECT_EQ(device->connection_fd(), connection_fd);
  EXPECT_GT(device->generation(), generation) << "a stale one would be taken";
  EXPECT_EQ(second.queue().event_id(), event_id);
  for (const std::byte byte : first.in().bytes)
    ASSERT_EQ(byte, std::byte{0x5a});
  for (const std::byte byte : first.out().bytes) ASSERT_EQ(byte, std::byte{0});
  const auto devices = testbed_->Devices();
  ASSERT_EQ(devices.devices_size(), 1);
  EXPECT_EQ(devices.devices(0).note(), "here");
  EXPECT_EQ(devices.devices(0).state(), "ready");
  EXPECT_EQ(testbed_->Counter("device0", "turns"), 17u);

  // The hole is free again, but nothing else is.
  const auto again = device->AllocateBuffer(Place::kInput, 4096);
  ASSERT_TRUE(again.ok()) << Message(again.status());
  EXPECT_EQ(again->bytes.data(), gap_in.bytes.data());
  EXPECT_NE(again->id, second.in().id);
  EXPECT_TRUE(device->FreeBuffer(memory).ok());
  EXPECT_FALSE(device->FreeBuffer(second.in()).ok()) << "in use";
  Echoes third(*device);
  for (Echoes* echoes : {&second, &third}) {
    echoes->RingAll();
    ASSERT_TRUE(Eventually([&] {
      echoes->TakeAll();
      return echoes->taken() == kSlots;
    }));
  }
}

TEST_F(GpudDeathTest, DurableBuffersComeBackBeforeTheFirstEventRuns) {
  constexpr uint64_t kLarge = (64 << 10) * 3 + 100;
  auto device = Attach();
  const auto in = *device->AllocateBuffer(Place::kInput, kLarge);
  const auto lost = *device->AllocateBuffer(Place::kOutput, kLarge);
  const auto small = *device->AllocateBuffer(Place::kDurable, 100);
  const auto large = *device->AllocateBuffer(Place::kDurable, kLarge);
  const auto copied = *device->AllocateBuffer(Place::kOutput, kLarge);
  std::mt19937 random(7);
  for (std::byte& byte : in.bytes) byte = std::byte(random());
  const auto copy = [&](const edge::Buffer& from, const edge::Buffer& to,
                        uint64_t bytes) {
    const auto times = device->LaunchKernel(
        {.kernel = "echo",
         .block = {32, 1, 1},
         .parameters = {Fixed("in", from, {.length = bytes}),
                        Fixed("out", to, {.length = bytes})}});
    ASSERT_TRUE(times.ok()) << Message(times.status());
  };
  copy(in, lost, kLarge);
  copy(in, small, 100);
  copy(in, large, kLarge);
  // What a kernel finds there; it is rung while no gpud is.
  auto* queue = *edge::edgeRegisterEvent(
      *device, {.kernel = "echo",
                .max_in_flight = 4,
                .parameters = {Fixed("in", large), Fixed("out", copied)}});
  const auto same = [&](const edge::Buffer& buffer) {
    return std::memcmp(buffer.bytes.data(), in.bytes.data(),
                       buffer.bytes.size()) == 0;
  };
  for (int death = 0; death < 3; ++death) {
    testbed_->gpud().Kill();
    ASSERT_TRUE(IsDead(*device));
    queue->RingDoorbell();
    ASSERT_NO_FATAL_FAILURE(RestartGpud());
    const auto resumed = device->Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << Message(resumed);
    EXPECT_TRUE(same(small));
    EXPECT_TRUE(same(large));
    for (const std::byte byte : lost.bytes) ASSERT_EQ(byte, std::byte{0});
    const auto done = queue->Wait(kBound);
    ASSERT_TRUE(done.ok()) << Message(done.status());
    EXPECT_EQ(done->state, EventState::kDone);
    EXPECT_TRUE(same(copied)) << "the event ran on what was not there yet";
    queue->Free();
  }
}

TEST_F(GpudDeathTest, WhatResumeIsToPrepareIsDoneBeforeAnEventRuns) {
  constexpr uint64_t kBytes = 4096;
  auto device = Attach();
  const auto in = *device->AllocateBuffer(Place::kInput, kBytes);
  const auto prepared = *device->AllocateBuffer(Place::kGpuMemory, kBytes);
  const auto seen = *device->AllocateBuffer(Place::kOutput, kBytes);
  std::mt19937 random(9);
  for (std::byte& byte : in.bytes) byte = std::byte(random());
  auto* queue = *edge::edgeRegisterEvent(
      *device, {.kernel = "echo",
                .max_in_flight = 4,
                .parameters = {Fixed("in", prepared), Fixed("out", seen)}});
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  queue->RingDoorbell();
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  const auto resumed = device->Resume(kBound, [&] {
    return device
        ->LaunchKernel(
            {.kernel = "echo",
             .block = {32, 1, 1},
             .parameters = {Fixed("in", in), Fixed("out", prepared)}})
        .status();
  });
  ASSERT_TRUE(resumed.ok()) << Message(resumed);
  const auto done = queue->Wait(kBound);
  ASSERT_TRUE(done.ok()) << Message(done.status());
  EXPECT_EQ(std::memcmp(seen.bytes.data(), in.bytes.data(), kBytes), 0)
      << "the event ran on what was not there yet";
  queue->Free();

  // What cannot be prepared ends the attempt, and the session.
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  const auto refused =
      device->Resume(kBound, [] { return absl::InternalError("it is torn"); });
  EXPECT_EQ(Message(refused), "it is torn");
}

TEST_F(GpudDeathTest, WhatALiveGpudCannotDoYetIsTriedAgainWithAll) {
  auto device = Attach();
  Echoes echoes(*device);
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  echoes.RingAll();
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  const auto later = [] { return absl::UnavailableError("not yet"); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(device->Resume(milliseconds(0), later).code(),
              absl::StatusCode::kUnavailable);
  }
  const auto resumed = device->Resume(kBound, [] { return absl::OkStatus(); });
  ASSERT_TRUE(resumed.ok()) << Message(resumed);
  EXPECT_TRUE(Eventually([&] {
    echoes.TakeAll();
    return echoes.taken() == kSlots;
  }));
}

TEST_F(GpudDeathTest, ABufferThatHasLostItsBytesSaysSo) {
  auto device = Attach();
  const auto in = *device->AllocateBuffer(Place::kInput, 64);
  const auto out = *device->AllocateBuffer(Place::kOutput, 64);
  const auto gpu = *device->AllocateBuffer(Place::kGpuMemory, 4096);
  const auto durable = *device->AllocateBuffer(Place::kDurable, 64);
  for (const edge::Buffer& each : {in, out, gpu, durable}) {
    EXPECT_TRUE(device->status(each).ok()) << Message(device->status(each));
  }
  for (int death = 0; death < 2; ++death) {
    ASSERT_NO_FATAL_FAILURE(KillGpudAndGoOn(*device));
    EXPECT_TRUE(device->status(in).ok());
    EXPECT_TRUE(device->status(durable).ok());
    EXPECT_TRUE(absl::IsDataLoss(device->status(out)));
    EXPECT_TRUE(absl::IsDataLoss(device->status(gpu)));
    EXPECT_EQ(Message(device->status(gpu)),
              "buffer " + std::to_string(gpu.id) +
                  " (4096 bytes of GPU memory) has begun anew as zeros: what "
                  "kernels had written to it went with the gpud before; "
                  "allocate it as durable to keep it");
  }
  ASSERT_TRUE(device->FreeBuffer(gpu).ok());
  EXPECT_TRUE(absl::IsNotFound(device->status(gpu)));
  const auto next = *device->AllocateBuffer(Place::kGpuMemory, 4096);
  EXPECT_TRUE(device->status(next).ok());
}

TEST_F(GpudDeathTest, WhatAperturesHaveGrownToStaysWhereItWas) {
  auto device = Attach();
  constexpr uint64_t kLarge = 3 << 20;  // more than the apertures begin with
  const edge::Buffer in = *device->AllocateBuffer(Place::kInput, kLarge);
  ASSERT_TRUE(device->AllocateBuffer(Place::kOutput, kLarge).ok());
  Echoes echoes(*device);
  std::minstd_rand random(3);
  for (std::byte& one : in.bytes) one = static_cast<std::byte>(random());
  const std::vector<std::byte> before(in.bytes.begin(), in.bytes.end());
  for (int death = 0; death < 2; ++death) {
    echoes.RingAll();
    testbed_->gpud().Kill();
    ASSERT_TRUE(IsDead(*device));
    ASSERT_NO_FATAL_FAILURE(echoes.TakeAll());
    ASSERT_NO_FATAL_FAILURE(RestartGpud());
    const auto resumed = device->Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << Message(resumed);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), in.bytes.begin()));
    ASSERT_TRUE(Eventually([&] {
      echoes.TakeAll();
      return HasFailure() || echoes.queue().in_flight() == 0;
    }));
    ASSERT_FALSE(HasFailure());
    // It grows further, and the next gpud takes that over, too.
    const auto more = device->AllocateBuffer(Place::kInput, kLarge);
    ASSERT_TRUE(more.ok()) << Message(more.status());
  }
}

TEST_F(GpudDeathTest, WhatIsOnlyCommittedIsRungByItsDeviceAlone) {
  auto device = Attach();
  Echoes echoes(*device);
  echoes.RingAll();
  ASSERT_TRUE(Eventually([&] {
    echoes.TakeAll();
    return echoes.taken() == kSlots;
  }));
  for (int i = 0; i < 5; ++i) echoes.Commit();
  ASSERT_NO_FATAL_FAILURE(KillGpudAndGoOn(*device));
  EXPECT_EQ(testbed_->Rings().rings(0).launched(), kSlots);
  EXPECT_EQ(echoes.queue().in_flight(), 0u);
  echoes.queue().RingCommitted();
  EXPECT_TRUE(Eventually([&] {
    echoes.TakeAll();
    return echoes.taken() == kSlots + 5;
  }));
}

TEST_F(GpudDeathTest, CompletionsHaveToBeTakenFirst) {
  auto device = Attach();
  Echoes echoes(*device);
  echoes.Commit();
  echoes.queue().RingCommitted();
  ASSERT_TRUE(echoes.queue().Wait(kBound).ok());
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  const auto refused = device->Resume(milliseconds(0));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused), HasSubstr("('echo') has completions"));
  echoes.TakeAll();
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  EXPECT_TRUE(device->Resume(kBound).ok());
}

TEST_F(GpudDeathTest, WhileThereIsNoGpudItMayBeTriedAgain) {
  auto device = Attach();
  Echoes echoes(*device);
  EXPECT_TRUE(device->Resume(milliseconds(0)).ok()) << "nothing has happened";
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  const auto nobody = device->Resume(milliseconds(30));
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(nobody), AllOf(HasSubstr("PEER_DEAD"),
                                     HasSubstr("no other gpud within 30 ms")));
  echoes.RingAll();  // into the void, for the next one
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  ASSERT_TRUE(device->Resume(kBound).ok());
  EXPECT_TRUE(Eventually([&] {
    echoes.TakeAll();
    return echoes.taken() == kSlots;
  }));
}

TEST_F(GpudDeathTest, AnOrderlyEndIsNoDeath) {
  auto device = Attach();
  testbed_->gpud().Signal(SIGTERM);
  ASSERT_TRUE(IsDead(*device));
  ASSERT_TRUE(testbed_->gpud().Wait().has_value());
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  const auto refused = device->Resume(kBound);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(refused), HasSubstr("SHUTDOWN"));
}

TEST_F(GpudDeathTest, AGpudThatRestartsSaysSo) {
  auto device = Attach();
  Echoes echoes(*device);
  testbed_->gpud().Signal(SIGUSR1);
  ASSERT_TRUE(IsDead(*device));
  EXPECT_THAT(Message(device->status()),
              HasSubstr("makes way for another one; last completed"));
  EXPECT_THAT(Message(device->status()), HasSubstr("RESTARTING: gpud (pid "));
  EXPECT_TRUE(device->may_resume());
  EXPECT_TRUE(device->gpud_restarts());
  EXPECT_EQ(testbed_->gpud().Wait(), 0);
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  const auto before = device->generation();
  ASSERT_TRUE(device->Resume(kBound).ok());
  EXPECT_GT(device->generation(), before) << "a stale one would be taken";
  EXPECT_TRUE(device->status().ok());
  EXPECT_FALSE(device->may_resume());
}

// The restart is what ended the call, whatever the call met on its way.
TEST_F(GpudDeathTest, ACallThatARestartCutsShortSaysSo) {
  auto device = Attach();
  std::thread restarter([&] {
    std::this_thread::sleep_for(milliseconds(20));
    testbed_->gpud().Signal(SIGUSR1);
  });
  absl::Status status;
  while (status.ok()) {
    status =
        device
            ->LaunchKernel({.kernel = "busy",
                            .grid = {64, 1, 1},
                            .parameters = {Constant("iterations", 10'000)}})
            .status();
  }
  restarter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << Message(status);
  EXPECT_THAT(Message(status), HasSubstr("RESTARTING"));
}

TEST_F(GpudDeathTest, WhatTheNextGpudRefusesEndsTheSession) {
  auto device = Attach();
  Echoes echoes(*device);
  testbed_->gpud().Kill();
  ASSERT_TRUE(IsDead(*device));
  ASSERT_NO_FATAL_FAILURE(RestartGpud());
  auto other = Attach("other");  // has the table's only place
  testbed_->gpud().Kill();
  ASSERT_TRUE(testbed_->RestartGpud({"--ekt-entries", "1"}).ok());
  ASSERT_TRUE(other->Resume(kBound).ok());
  Echoes first(*other);
  const auto refused = device->Resume(kBound);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted)
      << Message(refused);
  EXPECT_THAT(Message(device->status()), HasSubstr("DETACHED"));
  EXPECT_EQ(testbed_->Devices().devices_size(), 1);
}

}  // namespace
}  // namespace carillon
