// gpud dies and another one takes its place: what devices keep, and that no
// event is lost or ends twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices/sdk/edge.h"
#include "integration_tests/fake_driver.h"
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
  std::unique_ptr<edge::Device> Attach(const std::string& name = "device0",
                                       uint64_t bytes = 1 << 20) {
    edge::AttachOptions options;
    options.submission_bytes = options.completion_bytes = bytes;
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

// Echoes input that identifies its event: kBytes, or of several blocks so many for
// each thread.
class Echoes {
 public:
  Echoes(edge::Device& device, const std::string& launch_path = "",
         uint32_t blocks = 1, uint32_t priority = 0,
         uint32_t bytes_a_thread = 1)
      : device_(device),
        bytes_(std::max(kBytes, blocks * kThreads * bytes_a_thread)),
        in_(*device.AllocateBuffer(Place::kInput, kSlots * bytes_)),
        out_(*device.AllocateBuffer(Place::kOutput, kSlots * bytes_)) {
    auto queue = edge::edgeRegisterEvent(
        device,
        {.kernel = "echo",
         .grid = {blocks, 1, 1},
         .max_in_flight = kSlots,
         .priority = priority,
         .launch_path = launch_path,
         .parameters = {
             Fixed("in", in_, {.length = bytes_, .slot_stride = bytes_}),
             Fixed("out", out_, {.length = bytes_, .slot_stride = bytes_})}});
    EXPECT_TRUE(queue.ok()) << Message(queue.status());
    queue_ = queue.ok() ? *queue : nullptr;
  }

  edge::EventQueue& queue() { return *queue_; }
  const edge::Buffer& in() const { return in_; }
  const edge::Buffer& out() const { return out_; }

  void Commit() {
    const uint32_t slot = queue_->next_slot();
    const uint64_t sequence = queue_->Commit().value();
    for (uint32_t at = 0; at < bytes_; at += sizeof(sequence)) {
      std::memcpy(&in_.bytes[slot * bytes_ + at], &sequence, sizeof(sequence));
    }
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
      const uint32_t slot = queue_->SlotOf(done->sequence);
      for (uint32_t at = 0; at < bytes_; at += sizeof(uint64_t)) {
        uint64_t echoed = 0;
        std::memcpy(&echoed, &out_.bytes[slot * bytes_ + at], sizeof(echoed));
        ASSERT_EQ(echoed, taken_) << "at byte " << at;
      }
      queue_->Free();
    }
  }
  uint64_t taken() const { return taken_; }

 private:
  static constexpr uint32_t kThreads = 32;  // of a block, by default

  edge::Device& device_;
  const uint32_t bytes_;  // of an event
  const edge::Buffer in_;
  const edge::Buffer out_;
  edge::EventQueue* queue_ = nullptr;
  uint64_t taken_ = 0;
};

struct Served {
  const char* backend;
  const char* launch_path;
  const char* policy = nullptr;  // the back-end's default
};

class GpudDeathUnderLoadTest : public GpudDeathTest,
                               public ::testing::WithParamInterface<Served> {
 protected:
  // A device, and its events.
  struct Load {
    Load(std::unique_ptr<edge::Device> attached, uint32_t blocks,
         uint32_t priority, uint32_t bytes_a_thread = 1)
        : device(std::move(attached)),
          echoes(*device, GetParam().launch_path, blocks, priority,
                 bytes_a_thread) {}
    bool serves() const { return device->status().ok(); }

    const std::unique_ptr<edge::Device> device;
    Echoes echoes;
  };

  void SetUp() override {
    if (GetParam().backend == std::string("cuda")) {
      driver_.emplace();
    }
    flags_.back() = GetParam().backend;
    GpudDeathTest::SetUp();
  }
  // One gpud after the other, by these signals.
  void EndGpudsAmidEvents(const std::vector<int>& signals);

  std::optional<testing::FakeDriver> driver_;
  std::vector<std::unique_ptr<Load>> loads_;
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
INSTANTIATE_TEST_SUITE_P(
    CudaOnTheFakeDriver, GpudDeathUnderLoadTest,
    ::testing::Values(Served{"cuda", "edge"}, Served{"cuda", "baseline"},
                      Served{"cuda", "baseline_flag"}, Served{"cuda", "graph"},
                      Served{"cuda", "stream_wait"},
                      Served{"cuda", "persistent"},
                      Served{"cuda", "pagoda_ring"}, Served{"cuda", "pagoda"}),
    &NameOf);
#else
TEST(GpudDeathOnCuda, IsNotTestedHere) {
  GTEST_SKIP() << "built without the CUDA toolkit";
}
#endif

TEST_P(GpudDeathUnderLoadTest, EveryEventEndsOnceWhoeverServesIt) {
  loads_.push_back(std::make_unique<Load>(Attach(), 1, 0));
  EndGpudsAmidEvents({SIGKILL, SIGKILL, SIGKILL, SIGKILL, SIGKILL, SIGKILL});
}

TEST_P(GpudDeathUnderLoadTest, EveryEventEndsOnceWhenGpudRestarts) {
  loads_.push_back(std::make_unique<Load>(Attach(), 1, 0));
  EndGpudsAmidEvents({SIGUSR1, SIGUSR1, SIGKILL, SIGUSR1, SIGUSR1, SIGUSR1});
}

void GpudDeathUnderLoadTest::EndGpudsAmidEvents(
    const std::vector<int>& signals) {
  std::mt19937 random(7);
  for (const int signal : signals) {
    // gpud ends at some moment during a stream of events.
    std::thread killer([&, wait = random() % 20'000] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      kill(testbed_->gpud().pid(), signal);
    });
    while (std::ranges::any_of(loads_, &Load::serves)) {
      for (const auto& load : loads_) {
        if (load->serves()) load->echoes.RingAll();
        ASSERT_NO_FATAL_FAILURE(load->echoes.TakeAll());
      }
      std::this_thread::yield();
    }
    killer.join();
    ASSERT_TRUE(testbed_->gpud().Wait().has_value());
    for (const auto& load : loads_) {
      ASSERT_NO_FATAL_FAILURE(load->echoes.TakeAll());
    }
    ASSERT_NO_FATAL_FAILURE(RestartGpud());
    for (const auto& load : loads_) {
      const auto resumed = load->device->Resume(kBound);
      ASSERT_TRUE(resumed.ok()) << Message(resumed);
    }
    EXPECT_TRUE(Eventually([&] {
      bool all = true;
      for (const auto& load : loads_) {
        load->echoes.TakeAll();
        all &= load->echoes.queue().in_flight() == 0;
      }
      return HasFailure() || all;
    })) << "what was rung does not end";
    ASSERT_FALSE(HasFailure());
  }
  for (const auto& load : loads_) EXPECT_GT(load->echoes.taken(), 0u);
  // If a kernel stores its end itself, gpud counts it afterwards.
  v1::ListEktResponse ekt;
  const auto counted = [&] {
    return std::ranges::all_of(ekt.entries(), [](const v1::EktEntry& entry) {
      return entry.counts().rung() == entry.counts().done();
    });
  };
  EXPECT_TRUE(Eventually([&] {
    ekt = testbed_->Ekt();
    return HasFailure() || counted();
  })) << ekt.DebugString();
  ASSERT_EQ(static_cast<size_t>(ekt.entries_size()), loads_.size());
  for (const v1::EktEntry& entry : ekt.entries()) {
    EXPECT_EQ(entry.launch_path(), GetParam().launch_path);
    // This is the last gpud's own ledger, without its predecessors' events.
    EXPECT_LE(entry.counts().rung(), kSlots);
  }
}

// On a GPU that holds few blocks. One device has events of several waves, the
// other ones that are more urgent: so the former run in slices under gpes, and as
// persistent blocks, which may be stopped, under ptb.
class GpudDeathUnderAPolicyTest : public GpudDeathUnderLoadTest {
 protected:
  static constexpr uint32_t kBlocks = 100;
  // A block takes some ten microseconds, so that stops fall in mid-kernel.
  static constexpr uint32_t kBytesAThread = 128;
  static constexpr uint64_t kApertureBytes = 16 << 20;
  static constexpr uint64_t kStops = 10;

  void SetUp() override {
    // 32 blocks an SM, and an SM; the smallest part of a GPU has eight.
    const bool parts = GetParam().policy == std::string("reservation");
    setenv("CARILLON_FAKE_CUDA", parts ? "sms=16" : "sms=1", 1);
    if (GetParam().backend == std::string("cpu")) {
      flags_.insert(flags_.begin(), {"--sms", parts ? "2" : "1"});
    }
    flags_.insert(flags_.begin(), {"--policy", GetParam().policy});
    GpudDeathUnderLoadTest::SetUp();
  }
  void TearDown() override { unsetenv("CARILLON_FAKE_CUDA"); }
};

std::string PolicyOf(const ::testing::TestParamInfo<Served>& info) {
  return info.param.policy;
}
INSTANTIATE_TEST_SUITE_P(Cpu, GpudDeathUnderAPolicyTest,
                         ::testing::Values(Served{"cpu", "edge", "gpes"},
                                           Served{"cpu", "edge", "p2"},
                                           Served{"cpu", "edge", "reservation"},
                                           Served{"cpu", "edge", "exclusive"}),
                         &PolicyOf);
#ifdef CARILLON_HAVE_CUDA
INSTANTIATE_TEST_SUITE_P(
    CudaOnTheFakeDriver, GpudDeathUnderAPolicyTest,
    ::testing::Values(Served{"cuda", "baseline_flag", "gpes"},
                      Served{"cuda", "baseline_flag", "ptb"},
                      Served{"cuda", "baseline_flag", "reservation"},
                      Served{"cuda", "baseline_flag", "exclusive"}),
    &PolicyOf);
#endif

TEST_P(GpudDeathUnderAPolicyTest, UnderEachPolicyEveryEventEndsOnce) {
  loads_.push_back(std::make_unique<Load>(Attach("device0", kApertureBytes),
                                          kBlocks, 0, kBytesAThread));
  loads_.push_back(std::make_unique<Load>(Attach("device1"), 1, 1));
  EndGpudsAmidEvents({SIGKILL, SIGUSR1, SIGKILL});
  // The last gpud, too, had what this is about: under ptb, launches that were
  // stopped in the middle.
  v1::GetStatusResponse status;
  ASSERT_TRUE(Eventually([&] {
    for (const auto& load : loads_) load->echoes.RingAll();
    EXPECT_TRUE(Eventually([&] {
      for (const auto& load : loads_) load->echoes.TakeAll();
      return HasFailure() || std::ranges::all_of(loads_, [](const auto& load) {
               return load->echoes.queue().in_flight() == 0;
             });
    }));
    status = testbed_->Status();
    return HasFailure() || status.policy() != "ptb" ||
           status.ptb().stops() >= kStops;
  }));
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(status.policy(), GetParam().policy);
  if (GetParam().backend == std::string("cpu")) return;
  const bool slices = status.policy() == "gpes";
  EXPECT_EQ(status.slices().slices(), 4 * status.slices().launches());
  EXPECT_EQ(status.slices().launches() > 0, slices);
  EXPECT_EQ(status.ptb().launches() > 0, status.policy() == "ptb");
}

#ifdef CARILLON_HAVE_CUDA
class DeathAmidSlicesTest : public GpudDeathTest {
 protected:
  // 256 blocks, of which this GPU holds 32.
  const std::vector<std::string> kernel_ = {"--kernel", "matmul", "--size",
                                            "256"};

  void SetUp() override {
    setenv("CARILLON_FAKE_CUDA", "sms=1", 1);
    flags_ = {"--policy", "gpes", "--workers", "1", "--backend", "cuda"};
    GpudDeathTest::SetUp();
  }
  void TearDown() override { unsetenv("CARILLON_FAKE_CUDA"); }
  // Those of "host0" that have not ended, with this many slices behind them.
  int64_t Launches(uint64_t slices) {
    v1::ListQueuesResponse queues;
    grpc::ClientContext context;
    const grpc::Status status = testbed_->admin().ListQueues(
        &context, v1::ListQueuesRequest(), &queues);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return std::ranges::count_if(
        queues.launches(), [&](const v1::Launch& launch) {
          return launch.device() == "host0" && launch.slices() >= slices;
        });
  }

  const testing::FakeDriver driver_;
};

TEST_F(DeathAmidSlicesTest, ADeviceThatIsKilledLeavesTheGpuToTheOthers) {
  auto device = Attach();
  Echoes echoes(*device, "baseline_flag", 1, 1);
  const uint64_t used = testbed_->Status().memory_used();
  for (int i = 0; i < 3; ++i) {
    auto host =
        testbed_->StartDevice("host0", "devices/cpu_host/cpu_host", kernel_);
    ASSERT_TRUE(host.ok()) << Message(host.status());
    ASSERT_TRUE(Eventually([&] { return Launches(1) > 0; }));
    echoes.RingAll();
    (*host)->Kill();
    ASSERT_TRUE(Eventually([&] {
      echoes.TakeAll();
      return testbed_->Devices().devices_size() == 1 && Launches(0) == 0 &&
             testbed_->Status().memory_used() == used &&
             echoes.queue().in_flight() == 0;
    }));
  }
  std::vector<std::string> flags = kernel_;
  flags.insert(flags.end(), {"--launches", "1"});
  auto next =
      testbed_->StartDevice("host0", "devices/cpu_host/cpu_host", flags);
  ASSERT_TRUE(next.ok()) << Message(next.status());
  EXPECT_EQ((*next)->Wait(), std::optional<int>(0)) << (*next)->output();
}
#endif

// In chunks that are so small that a copy is seen while it is under way.
class DeathInMidCopyTest : public GpudDeathTest {
 protected:
  static constexpr uint64_t kCopied = 64 << 20;

  DeathInMidCopyTest() {
    flags_.insert(flags_.end(),
                  {"--copy-in-chunk", "4KiB", "--copy-out-chunk", "4KiB"});
  }
  bool IsCopying(const std::string& device) {
    v1::ListQueuesResponse queues;
    grpc::ClientContext context;
    const grpc::Status status = testbed_->admin().ListQueues(
        &context, v1::ListQueuesRequest(), &queues);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return std::ranges::any_of(queues.copies(), [&](const v1::Copy& copy) {
      return copy.device() == device && copy.bytes_copied() > 0;
    });
  }
};

TEST_F(DeathInMidCopyTest, ACopyOfADeadGpudFailsAndTheNextOneMakesIt) {
  auto device = Attach();
  const auto in = *device->AllocateBuffer(Place::kInput, kCopied);
  const auto gpu = *device->AllocateBuffer(Place::kGpuMemory, kCopied);
  const auto out = *device->AllocateBuffer(Place::kOutput, kCopied);
  Echoes echoes(*device);
  std::mt19937_64 random(5);
  for (uint64_t at = 0; at < kCopied; at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&in.bytes[at], &word, sizeof(word));
  }
  absl::Status cut;
  // It may have ended before gpud does.
  ASSERT_TRUE(Eventually([&] {
    std::atomic<bool> ended{false};
    std::thread copier([&] {
      cut = device->Copy({.from = in, .to = gpu, .bytes = kCopied}).status();
      ended = true;
    });
    while (!ended && !IsCopying("device0")) std::this_thread::yield();
    echoes.RingAll();
    testbed_->gpud().Kill();
    copier.join();
    EXPECT_TRUE(IsDead(*device));
    echoes.TakeAll();
    RestartGpud();
    if (HasFailure()) return true;
    const auto resumed = device->Resume(kBound);
    EXPECT_TRUE(resumed.ok()) << Message(resumed);
    return HasFailure() || !cut.ok();
  }));
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(absl::IsUnavailable(cut)) << Message(cut);
  EXPECT_TRUE(absl::IsDataLoss(device->status(gpu)));
  for (const auto& [from, to] : {std::pair(in, gpu), std::pair(gpu, out)}) {
    const auto times = device->Copy({.from = from, .to = to, .bytes = kCopied});
    ASSERT_TRUE(times.ok()) << Message(times.status());
  }
  EXPECT_TRUE(std::ranges::equal(in.bytes, out.bytes));
  EXPECT_TRUE(Eventually([&] {
    echoes.TakeAll();
    return HasFailure() || echoes.queue().in_flight() == 0;
  }));
}

TEST_F(DeathInMidCopyTest, ADeviceThatDiesLeavesNothingOfItsCopy) {
  auto device = Attach();
  Echoes echoes(*device);
  const auto in = *device->AllocateBuffer(Place::kInput, kBytes);
  const auto gpu = *device->AllocateBuffer(Place::kGpuMemory, kBytes);
  const uint64_t used = testbed_->Status().memory_used();
  for (const std::string direction : {"in", "out"}) {
    auto copier = testbed_->StartDevice(
        "copier", "integration_tests/copy_device", {direction});
    ASSERT_TRUE(copier.ok()) << Message(copier.status());
    ASSERT_TRUE(Eventually([&] { return IsCopying("copier"); }));
    echoes.RingAll();
    (*copier)->Kill();
    EXPECT_TRUE(Eventually([&] {
      echoes.TakeAll();
      return testbed_->Devices().devices_size() == 1 && !IsCopying("copier") &&
             testbed_->Status().memory_used() == used &&
             echoes.queue().in_flight() == 0;
    }));
    const auto times = device->Copy({.from = in, .to = gpu, .bytes = kBytes});
    EXPECT_TRUE(times.ok()) << Message(times.status());
  }
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
