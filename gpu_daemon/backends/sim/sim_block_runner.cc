#include "gpu_daemon/backends/sim/sim_block_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cpu/run_block.h"

namespace carillon::gpud {
struct SimBlockRunner::Engine {
  Engine(const sim::Memory* memory, ReleaseLatch* latch, Clock now)
      : gpu(memory, {.cancelled = [this, now] { return now() > stop_at; },
                     .outside =
                         [this, latch](sim::FunctionalGpu::At at,
                                       sim::Releases& known) {
                           switch (at) {
                             case sim::FunctionalGpu::At::kBegin:
                               latch->Begin(*run, known, imported);
                               break;
                             case sim::FunctionalGpu::At::kWait:
                               return latch->Await(*run, known, imported,
                                                   stop_at);
                             case sim::FunctionalGpu::At::kEnd:
                               latch->End(*run, known, imported);
                               break;
                           }
                           return true;
                         },
                     .printed = &printed,
                     .nanoseconds = &NowNs}) {}

  // When the launch of the user's block that it runs has run for too long.
  Nanoseconds stop_at = 0;
  uint64_t imported = 0;  // ReleaseLatch's
  const LaunchRun* run = nullptr;
  sim::PrintBuffer printed;
  sim::FunctionalGpu gpu;
  sim::Launch launch;
  // LaunchRun::fail_status is the host's; this one kernels can reach.
  sim::DeviceAddress status_address = 0;
  uint32_t* status = nullptr;
};

SimBlockRunner::SimBlockRunner(PtxEngine* ptx, std::chrono::nanoseconds longest,
                               Clock now)
    : ptx_(ptx), longest_(longest.count()), now_(now) {}

SimBlockRunner::~SimBlockRunner() = default;

std::unique_ptr<SimBlockRunner::Engine> SimBlockRunner::TakeEngine() {
  {
    MutexLock lock(mutex_);
    if (!engines_.empty()) {
      auto engine = std::move(engines_.back());
      engines_.pop_back();
      return engine;
    }
  }
  auto engine = std::make_unique<Engine>(&ptx_->memory, &ptx_->latch, now_);
  const auto address =
      ptx_->memory.Allocate(sizeof(uint32_t), "status of a kernel");
  if (!address.ok()) return nullptr;
  engine->status_address = *address;
  engine->status = reinterpret_cast<uint32_t*>(
      ptx_->memory.At(*address, sizeof(uint32_t))->data());
  return engine;
}

void SimBlockRunner::GiveBack(std::unique_ptr<Engine> engine) {
  MutexLock lock(mutex_);
  engines_.push_back(std::move(engine));
}

Nanoseconds SimBlockRunner::BeginUsers(LaunchRun& run, Nanoseconds now) {
  MutexLock lock(mutex_);
  if (run.running_blocks++ == 0) run.runs_since = now;
  return run.runs_since + longest_ - std::min(longest_, run.ran_ns);
}

void SimBlockRunner::EndUsers(LaunchRun& run) {
  MutexLock lock(mutex_);
  if (--run.running_blocks == 0) run.ran_ns += now_() - run.runs_since;
}

void SimBlockRunner::Run(const KernelMetadata& kmd, uint64_t block,
                         const void* args, LaunchRun* run) {
  const simt::KernelInfo& kernel = *kmd.kernel;
  const auto fail = [&](uint32_t status) {
    uint32_t none = simt::kFailNone;
    // Other blocks of the launch may fail at this moment. Relaxed: whoever
    // reads it is told by the queue that the blocks have ended.
    std::atomic_ref<uint32_t>(run->fail_status)
        .compare_exchange_strong(none, status, std::memory_order_relaxed);
  };
  // A user's kernel that has failed ends, as on a GPU: nobody waits for each of
  // its blocks to time out.
  if (kernel.is_users() &&
      std::atomic_ref<uint32_t>(run->fail_status)
              .load(std::memory_order_relaxed) != simt::kFailNone) {
    return;
  }
  const SimKernels::Code code = ptx_->kernels.Find(kmd.kernel);
  if (code.entry == nullptr) {
    LogEventFailure(std::string(kernel.name) +
                    ": the simulated GPU has no PTX of it");
    fail(simt::kFailBadLaunch);
    return;
  }
  std::unique_ptr<Engine> engine = TakeEngine();
  if (engine == nullptr) {
    fail(simt::kFailNoMemory);
    return;
  }
  sim::Launch& launch = engine->launch;
  SimKernels::FillIn(code, kmd, args, engine->status_address, launch);
  *engine->status = simt::kFailNone;
  engine->run = run;
  engine->gpu.set_no_progress_limit(SimKernels::NoProgressLimit(kernel));
  absl::Status status = sim::CheckLaunch(launch);
  engine->stop_at = std::numeric_limits<Nanoseconds>::max();
  if (kernel.is_users()) {
    const Nanoseconds now = now_();
    engine->stop_at = BeginUsers(*run, now);
    if (now >= engine->stop_at) status = absl::CancelledError("");
  }
  if (status.ok()) {
    const simt::Dim3 index = BlockIndex(kmd.grid, block);
    status = engine->gpu
                 .RunOneBlock(launch, {index.x, index.y, index.z},
                              kernel.is_users() ? &ptx_->turns : nullptr)
                 .status();
  }
  if (kernel.is_users()) EndUsers(*run);
  if (absl::IsCancelled(status)) {
    status = absl::CancelledError(fmt::format(
        "{}: a launch of {} ran for more than {} ms and was stopped",
        kernel.name, kernel.file, longest_ / 1'000'000));
  }
  if (!status.ok()) {
    LogEventFailure(std::string(status.message()));
    fail(SimKernels::FailStatusOf(status));
  } else if (*engine->status != simt::kFailNone) {
    fail(*engine->status);
  }
  if (!engine->printed.empty()) {
    spdlog::info("{} prints: {}", kernel.name, engine->printed.Take());
  }
  GiveBack(std::move(engine));
}

}  // namespace carillon::gpud
