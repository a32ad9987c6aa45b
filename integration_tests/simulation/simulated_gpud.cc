#include "integration_tests/simulation/simulated_gpud.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/run_event.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/path_set.h"

namespace carillon::simulation {
namespace {

using gpud::CheckedEntry;
using gpud::DeviceMemory;
using gpud::EventKernel;

constexpr uint64_t kRecords = 1 << 14;

// Keeps launches until it is told to run them.
class StepLauncher : public gpud::Launcher {
 public:
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override {
    pending_.push_back({event, sequence, entry});
    return false;
  }
  // What happens depends on the steps alone.
  bool looks_at_all() const override { return true; }
  size_t pending() const { return pending_.size(); }
  void Run(size_t index) {
    Pending next = std::move(pending_.at(index));
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(index));
    gpud::RunEvent(runner_, *next.event, next.sequence, next.entry);
    next.event->memory().bell().Signal();
  }
  void Cancel(const gpud::LaunchFilter& which, shm::EventStatus why) {
    std::erase_if(pending_, [&](Pending& waiting) {
      if (!which.Matches(*waiting.event)) return false;
      waiting.event->ledger().Finish(waiting.sequence,
                                     {.state = shm::EventState::kAborted,
                                      .status = static_cast<uint32_t>(why)});
      return true;
    });
  }

 private:
  gpud::CpuBlockRunner runner_;
  struct Pending {
    std::shared_ptr<EventKernel> event;
    shm::Sequence sequence;
    CheckedEntry entry;
  };
  std::deque<Pending> pending_;
};

class StepPath : public gpud::LaunchPath {
 public:
  StepPath(StepLauncher* launcher, gpud::DoorbellPoller* poller)
      : launcher_(launcher), poller_(poller) {}
  absl::Status Add(std::shared_ptr<EventKernel> event) override {
    RETURN_IF_ERROR(launcher_->Prepare(*event));
    return poller_->Add(event);
  }
  void Remove(const std::shared_ptr<EventKernel>& event) override {
    poller_->Remove(event);
  }
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override {
    return poller_->RemoveDevice(memory);
  }
  // The next poll finds what is scheduled.
  void Wake(const std::shared_ptr<EventKernel>& event) override {
    poller_->LookAt(*event);
  }
  void SetTracing(bool on) override { poller_->SetTracing(on); }
  std::vector<gpud::PathCounter> counters() const override { return {}; }
  void Stop() override {}

 private:
  StepLauncher* const launcher_;
  gpud::DoorbellPoller* const poller_;
};

}  // namespace

class SimulatedBackend : public gpud::Backend {
 public:
  explicit SimulatedBackend(const gpud::GpuModel& gpu)
      : gpu_(gpu),
        poller_({.gpu = gpu,
                 .on_violation =
                     [this](const std::shared_ptr<DeviceMemory>& memory,
                            std::string reason) {
                       violations_.emplace_back(memory, std::move(reason));
                     },
                 .ticks = gpud::NoTicks},
                &launcher_),
        paths_({{.info = {"edge", "one step at a time"},
                 .start =
                     [this](bool) {
                       return std::make_unique<StepPath>(&launcher_, &poller_);
                     }}},
               /*tracing=*/false) {}

  std::string_view name() const override { return "simulation"; }
  std::string description() const override { return "one step at a time"; }
  const gpud::GpuModel& gpu() const override { return gpu_; }
  uint32_t workers() const override { return 0; }
  gpud::BackendFigures figures() const override { return {}; }
  std::vector<gpud::QueueLength> queue_lengths() const override { return {}; }
  std::vector<gpud::LaunchProgress> launches() const override { return {}; }
  std::vector<gpud::CopyProgress> copies() const override { return {}; }
  bool idle() const override { return launcher_.pending() == 0; }
  gpud::PathSet& paths() override { return paths_; }
  void Submit(std::unique_ptr<gpud::KernelLaunch>) override {
    FAIL() << "no background kernels here";
  }
  void Submit(std::unique_ptr<gpud::MemoryCopy>) override {
    FAIL() << "no copies here";
  }
  void Cancel(const gpud::LaunchFilter& which, shm::EventStatus why) override {
    if (const DeviceMemory* device = which.device()) {
      // A device that finds it takes what has ended, and no more.
      EXPECT_EQ(device->completion().completion_control().closed, 0u)
          << device->name()
          << " is told of its end before its last completions";
    }
    launcher_.Cancel(which, why);
  }
  std::string policy() const override { return "first_come"; }
  std::vector<const gpud::PolicyInfo*> policies() const override { return {}; }
  absl::Status SetPolicy(std::string_view) override {
    return absl::UnimplementedError("no policies here");
  }
  gpud::KernelMemory& memory() override { return memory_; }
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const gpud::ModuleSource&) override {
    return absl::FailedPreconditionError("no modules here");
  }
  void Stop() override {}
  void Join() override {}

  gpud::DoorbellPoller& poller() { return poller_; }
  StepLauncher& launcher() { return launcher_; }
  auto TakeViolations() { return std::exchange(violations_, {}); }

 private:
  const gpud::GpuModel gpu_;
  gpud::CpuMemory memory_;
  std::vector<std::pair<std::shared_ptr<DeviceMemory>, std::string>>
      violations_;
  StepLauncher launcher_;
  gpud::DoorbellPoller poller_;
  gpud::PathSet paths_;
};

SimulatedGpud::SimulatedGpud(const Surroundings& surroundings, uint32_t pid,
                             uint32_t deaths)
    : pid_(pid),
      recorder_(surroundings.directory.empty()
                    ? nullptr
                    : *shm::FlightRecorder::Create(surroundings.directory,
                                                   "gpud", kRecords)),
      loop_(*gpud::EventLoop::Create()),
      budget_(uint64_t{64} << 20),
      ekt_(32),
      backend_(std::make_unique<SimulatedBackend>(surroundings.gpu)),
      sessions_(&context_, &tickets_, gpud::SessionTable::kMaxSessions) {
  context_.budget = &budget_;
  context_.ekt = &ekt_;
  context_.bus = surroundings.bus;
  context_.loop = loop_.get();
  context_.backend = backend_.get();
  context_.kernels = &kernels_;
  context_.recorder = recorder_.get();
  context_.BeginAfterDeaths(deaths);
}

SimulatedGpud::~SimulatedGpud() = default;

bool SimulatedGpud::Poll() { return backend_->poller().PollOnce(); }

size_t SimulatedGpud::pending() const { return backend_->launcher().pending(); }

void SimulatedGpud::RunPending(size_t index) {
  backend_->launcher().Run(index);
}

size_t SimulatedGpud::EvictViolators() {
  const auto violations = backend_->TakeViolations();
  for (const auto& [memory, reason] : violations) {
    sessions_.EndDevice(memory.get(), gpud::SessionEnd::kEvicted, reason);
  }
  return violations.size();
}

shm::FlightRecording SimulatedGpud::Recording() const {
  shm::FlightRecording recording = *shm::ReadFlightRecording(recorder_->path());
  recording.pid = pid_;
  return recording;
}

}  // namespace carillon::simulation
