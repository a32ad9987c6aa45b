// Who was with the GPU at a fault that ends gpud: whoever is left out of it leaves
// an innocent event alone there, which is then to blame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/restart/restart_mark.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/backends/cuda/driver/fault_record.h"
#include "gpu_daemon/backends/cuda/paths/background.h"
#include "gpu_daemon/backends/cuda/paths/host_launcher.h"
#include "gpu_daemon/event/checked_entry.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::HasSubstr;

constexpr auto kSoon = std::chrono::seconds(20);

bool Until(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

// On a driver that gives no context anew, as NVIDIA's. Where gpud would end, what
// it says of the loss is kept.
class BlameTest : public ::testing::Test {
 protected:
  Gpu::Options Options() {
    return {.image = FakeGpu::Image(),
            .restart_mark = Mark(),
            .look_every = std::chrono::milliseconds(5),
            .longest_step = std::chrono::minutes(5),
            .on_unusable = [this](const std::string& why) {
              said_.set_value(why);
            }};
  }
  std::string Mark() const { return directory_.path() + "/restarts"; }
  std::string Said() {
    auto said = said_.get_future();
    if (said.wait_for(kSoon) != std::future_status::ready) return "nothing";
    return said.get();
  }

  // From now on `fail_if` runs until it may end.
  void Hold() {
    fake_->HangOn("fail_if", [this](const KernelCall&) {
      runs_.store(true);
      Until([this] { return may_end_.load(); });
      return false;
    });
  }

  TempDirectory directory_;
  std::atomic<bool> runs_{false};
  std::atomic<bool> may_end_{false};
  // Nothing halts what polls host memory: only the driver's end does, which comes
  // before the memory's.
  std::optional<FakeGpu> fake_{std::in_place};
  std::promise<std::string> said_;
};

// The launch that stands in the driver comes back by the trap, as after a fault,
// before whoever has launched the trap goes on.
TEST_F(BlameTest, WhatATrapEndsIsNotToldAsAFault) {
  static std::atomic<int> launches;
  static std::atomic<bool> told;
  launches.store(-1'000'000);
  told.store(false);
  Driver driver = fake_->driver();
  driver.cuLaunchKernel = [](auto... arguments) -> CUresult {
    const int launch = launches.fetch_add(1);
    if (launch < 0) return ::cuLaunchKernel(arguments...);
    if (launch == 0) {
      Until([] { return launches.load() > 1; });
      return CUDA_ERROR_LAUNCH_FAILED;
    }
    Until([] { return told.load(); });
    return CUDA_SUCCESS;
  };
  TestDevice::Event event;
  std::promise<shm::Completion> ended;
  Gpu::Options options = Options();
  options.longest_kernel = std::chrono::milliseconds(100);
  options.on_unusable = [&](const std::string&) {
    ended.set_value(event.ring->Poll().value_or(shm::Completion{}));
    told.store(true);
  };
  auto backend = CudaBackend::CreateOn(driver, {}, options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  std::optional<MappedDevice> device(std::in_place, **backend);
  event = device->Register({.kernel = simt::FindKernel("fail_if"),
                            .bindings = {{.writable = true}}});
  const auto path = (*backend)->paths().Find("baseline");
  ASSERT_TRUE(path.ok() && path->path->Add(event.kernel).ok());
  launches.store(0);
  event.ring->Commit();
  event.ring->RingDoorbell();
  auto end = ended.get_future();
  ASSERT_EQ(end.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(end.get().status,
            static_cast<uint32_t>(shm::EventStatus::kTimedOut));
  (*backend)->Stop();
  fake_.reset();
  device.reset();
  event = {};
}

// A kernel that faults once its device has hidden it, beside one that works on.
class HiddenRunTest : public BlameTest,
                      public ::testing::WithParamInterface<const char*> {
 protected:
  HiddenRunTest() {
    fake_->FaultOn("fail_if", [this](const KernelCall&) {
      if (spared_.exchange(false)) return false;
      if (hides_at_once_) rogue_->doorbell(hidden_).fetch_sub(1);
      faulty_runs_.store(true);
      Until([&] { return faults_.load(); });
      return true;
    });
    fake_->HangOn("null_event", [this](const KernelCall&) {
      honest_runs_.store(true);
      Until([&] { return over_.load(); });
      return false;
    });
    auto backend = CudaBackend::CreateOn(fake_->driver(), {}, Options());
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    rogue_.emplace(*backend_, "rogue");
    honest_.emplace(*backend_, "honest");
    hidden_ = Add(GetParam(), *rogue_,
                  {.kernel = simt::FindKernel("fail_if"),
                   .bindings = {{.writable = true}},
                   .grid = {3, 1, 1}});
    innocent_ = Add("baseline", *honest_,
                    {.kernel = simt::FindKernel("null_event"),
                     .bindings = {{.constant_bits = 0}}});
  }
  // Not before both are there: rings stand still while one comes.
  void RingBoth() {
    for (TestDevice::Event* event : {&hidden_, &innocent_}) {
      event->ring->Commit();
      event->ring->RingDoorbell();
    }
    EXPECT_TRUE(Until([&] { return faulty_runs_ && honest_runs_; }));
  }
  void RingBothUntilGpudKnows() {
    RingBoth();
    EXPECT_TRUE(Until([&] { return hidden_.kernel->launched() == 1; }));
  }
  ~HiddenRunTest() override {
    over_.store(true);
    faults_.store(true);
    backend_->Stop();
    fake_.reset();
    rogue_.reset();
    honest_.reset();
    hidden_ = {};
    innocent_ = {};
    backend_.reset();
  }
  std::string SaidAtFault() {
    faults_.store(true);
    std::string said = Said();
    over_.store(true);
    return said;
  }
  // What the next gpud knows of the hidden event, which had this sequence.
  bool IsASuspect(uint64_t sequence) const {
    const RunId hidden{.device = rogue_->memory->name(),
                       .owner = rogue_->memory->owner(),
                       .event_id = hidden_.kernel->event_id(),
                       .sequence = sequence};
    return FaultRecord(Mark()).Blame(std::vector{hidden, RunId{}}) ==
           std::vector{hidden};
  }
  TestDevice::Event Add(const char* path, MappedDevice& device,
                        const TestDevice::Spec& spec) {
    auto event = device.Register(spec);
    const auto found = backend_->paths().Find(path);
    EXPECT_TRUE(found.ok() && found->path->Add(event.kernel).ok()) << path;
    return event;
  }

  std::atomic<bool> spared_{false};         // the next kernel ends as it should
  std::atomic<bool> hides_at_once_{false};  // before gpud can know that it runs
  std::atomic<bool> faulty_runs_{false};
  std::atomic<bool> honest_runs_{false};
  std::atomic<bool> faults_{false};
  std::atomic<bool> over_{false};
  std::unique_ptr<Backend> backend_;
  std::optional<MappedDevice> rogue_;
  std::optional<MappedDevice> honest_;
  TestDevice::Event hidden_;
  TestDevice::Event innocent_;
};
INSTANTIATE_TEST_SUITE_P(All, HiddenRunTest,
                         ::testing::Values("edge", "stream_wait"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_P(HiddenRunTest, WhoseEntryIsOverwrittenMayHaveFaulted) {
  RingBothUntilGpudKnows();
  const shm::RingLayout& layout = hidden_.kernel->ring().layout();
  std::memset(rogue_->memory->submission().At(layout.esq_offset), 0,
              layout.esq_bytes());
  EXPECT_THAT(SaidAtFault(), HasSubstr("by one of the 2 launches"));
}

TEST_P(HiddenRunTest, WhoseDoorbellIsTakenBackMayHaveFaulted) {
  RingBothUntilGpudKnows();
  rogue_->doorbell(hidden_).fetch_sub(1);
  EXPECT_THAT(SaidAtFault(), HasSubstr("by one of the 2 launches"));
  EXPECT_TRUE(IsASuspect(1));
}

TEST_P(HiddenRunTest, WhoseDoorbellIsOutsideTheRingMayHaveFaulted) {
  RingBothUntilGpudKnows();
  rogue_->doorbell(hidden_).fetch_sub(1000);
  EXPECT_THAT(SaidAtFault(), HasSubstr("by one of the 2 launches"));
  EXPECT_TRUE(IsASuspect(1));
}

// Else its ends of gpud would count as a row of failures.
TEST_P(HiddenRunTest, WhoHidesAloneIsNamed) {
  hidden_.ring->Commit();
  hidden_.ring->RingDoorbell();
  EXPECT_TRUE(Until([&] { return hidden_.kernel->launched() == 1; }));
  EXPECT_TRUE(Until([&] { return faulty_runs_.load(); }));
  rogue_->doorbell(hidden_).fetch_sub(1);
  EXPECT_THAT(SaidAtFault(), HasSubstr("of device 'rogue', sequence 1"));
  EXPECT_TRUE(RestartMark::Read(Mark()).named);
}

// Where the GPU itself says what it has taken, before it runs it.
class SaidRunTest : public HiddenRunTest {};
INSTANTIATE_TEST_SUITE_P(All, SaidRunTest,
                         ::testing::Values("stream_wait", "persistent"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_P(SaidRunTest, WhoseDoorbellIsTakenBackAtOnceMayHaveFaulted) {
  spared_.store(true);
  hidden_.ring->Commit();
  hidden_.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return hidden_.ring->Poll().has_value(); }));
  hidden_.ring->Consume();
  hides_at_once_.store(true);
  RingBoth();
  EXPECT_THAT(SaidAtFault(), HasSubstr("by one of the 2 launches"));
  EXPECT_TRUE(IsASuspect(2));
}

// Launches that nothing ends; a test may stop them as the gate stops them.
class StandingPath final : public HostLauncher {
 public:
  StandingPath(Gpu* gpu, LaunchGate* gate)
      : HostLauncher(gpu, gate), gate_(gate) {
    Begin();
  }
  ~StandingPath() override { End(); }

  uint32_t stopped = 0;

 private:
  absl::StatusOr<std::unique_ptr<Resources>> MakeResources(
      EventKernel& event) override {
    auto resources = std::make_unique<Resources>();
    RETURN_IF_ERROR(FillIn(event, *resources));
    return resources;
  }
  CUresult Enqueue(Resources&, Flight& flight) override {
    gate_->LetBeStopped(*flight.place, &stopped);
    return CUDA_SUCCESS;
  }
  Outcome Look(Resources&, Flight&, bool) override { return Outcome::kRuns; }

  LaunchGate* const gate_;
};

class LaunchedTest : public BlameTest {
 protected:
  void Open(const char* policy) {
    fake_->ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
    auto gpu = Gpu::Open(fake_->driver(), Options());
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *std::move(gpu);
    memory_.emplace(gpu_.get());
    device_.emplace(*memory_, "test0");
    gate_.emplace(gpu_->model(), 0);
    ASSERT_TRUE(gate_->SetPolicy(policy).ok());
  }
  // Of 1,024 blocks: several slices.
  TestDevice::Event Launch(HostLauncher& path) {
    auto event = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                    .bindings = {{.writable = true}},
                                    .grid = {1024, 1, 1},
                                    .block = {64, 1, 1}});
    EXPECT_TRUE(path.Prepare(*event.kernel).ok());
    event.ring->Commit();
    event.ring->RingDoorbell();
    CheckedEntry entry;
    const auto sequence = event.kernel->cursor().TakeRing();
    EXPECT_EQ(CheckEntry(*event.kernel, sequence, 0, gpu_->model(), entry),
              shm::EventStatus::kOk);
    EXPECT_FALSE(path.Launch(event.kernel, sequence, entry));
    return event;
  }
  std::unique_ptr<KernelLaunch> BackgroundLaunch() {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = {1024, 1, 1},
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(uint32_t));
    launch->memory = device_->memory;
    launch->from_host = true;
    launch->on_end = [this](const LaunchResult& result) { end_ = result; };
    return launch;
  }
  std::string SaidAtStop() {
    {
      const Gpu::ContextLease use = gpu_->Enter();
      gpu_->StopEverything();
    }
    return Said();
  }

  LaunchResult end_;
  std::unique_ptr<Gpu> gpu_;
  std::optional<CudaMemory> memory_;
  std::optional<MappedDevice> device_;
  std::optional<LaunchGate> gate_;
};

TEST_F(LaunchedTest, WhatWasCancelledMayHaveFaulted) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  StandingPath path(gpu_.get(), &*gate_);
  const auto gone = Launch(path);
  const auto stays = Launch(path);
  path.stopped = 0;  // by a policy that stops nobody, at once
  std::thread cancels([&] {
    path.Cancel(LaunchFilter::Of(*gone.kernel), shm::EventStatus::kDeviceGone);
  });
  // Right after it was cancelled, under the path's lock.
  EXPECT_TRUE(Until([&] { return std::atomic_ref(path.stopped).load() == 1; }));
  EXPECT_TRUE(path.must_poll());
  EXPECT_THAT(SaidAtStop(), HasSubstr("by one of the 2 launches"));
  cancels.join();
  EXPECT_TRUE(Until([&] { return gone.ring->Poll().has_value(); }));
  EXPECT_EQ(gone.ring->Poll()->status,
            static_cast<uint32_t>(shm::EventStatus::kDeviceGone));
  path.Release(*gone.kernel);
  path.Release(*stays.kernel);
}

TEST_F(LaunchedTest, AnEventThatWaitsForItsNextSliceHasNotFaulted) {
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  StandingPath path(gpu_.get(), &*gate_);
  const auto event = Launch(path);
  const auto urgent = gate_->Enter(nullptr, 7);
  EXPECT_TRUE(Until([&] {
    path.Reap();
    const auto launches = path.launches();
    return launches.size() == 1 && launches[0].ended != 0;
  }));
  EXPECT_THAT(SaidAtStop(), HasSubstr("is not known: it had no kernel"));
  path.Release(*event.kernel);
}

TEST_F(LaunchedTest, ABackgroundKernelThatWaitsForItsNextSliceHasNotFaulted) {
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto background = Background::Create(gpu_.get(), &*gate_);
  ASSERT_TRUE(background.ok()) << background.status();
  Hold();
  (*background)->Submit(BackgroundLaunch());
  ASSERT_TRUE(Until([&] { return runs_.load(); }));
  const auto urgent = gate_->Enter(nullptr, 7);
  may_end_.store(true);
  EXPECT_TRUE(Until([&] {
    const auto launches = (*background)->launches();
    return launches.size() == 1 && launches[0].ended != 0 &&
           launches[0].running == 0;
  }));
  EXPECT_THAT(SaidAtStop(), HasSubstr("is not known: it had no kernel"));
}

TEST_F(LaunchedTest, ABackgroundKernelThatWasCancelledMayHaveFaulted) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  const auto background = Background::Create(gpu_.get(), &*gate_);
  ASSERT_TRUE(background.ok()) << background.status();
  Hold();
  (*background)->Submit(BackgroundLaunch());
  EXPECT_TRUE(Until([&] { return runs_.load(); }));
  (*background)->Cancel(LaunchFilter::All(), shm::EventStatus::kDeviceGone);
  EXPECT_THAT(SaidAtStop(),
              HasSubstr("is not known: it had 1 kernel of no known"));
  may_end_.store(true);
  EXPECT_TRUE(Until([&] { return (*background)->idle(); }));
  EXPECT_EQ(end_.state, shm::EventState::kAborted);
  EXPECT_EQ(end_.status, static_cast<uint32_t>(shm::EventStatus::kDeviceGone));
}

}  // namespace
}  // namespace carillon::gpud::cuda
