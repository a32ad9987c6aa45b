#include "gpu_daemon/backends/sim/sim_block_runner.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/run_block.h"

namespace carillon::gpud {
struct SimBlockRunner::Engine {
  explicit Engine(const sim::Memory* memory)
      : gpu(memory, {.printed = &printed, .nanoseconds = &NowNs}) {}

  std::string printed;
  sim::FunctionalGpu gpu;
  sim::Launch launch;
  // The launch's fail_status is the host's; this one kernels can reach.
  sim::DeviceAddress status_address = 0;
  uint32_t* status = nullptr;
};

SimBlockRunner::SimBlockRunner(sim::Memory* memory, const SimKernels* kernels)
    : memory_(memory), kernels_(kernels) {}

SimBlockRunner::~SimBlockRunner() = default;

std::unique_ptr<SimBlockRunner::Engine> SimBlockRunner::TakeEngine() {
  {
    MutexLock lock(engines_mutex_);
    if (!engines_.empty()) {
      auto engine = std::move(engines_.back());
      engines_.pop_back();
      return engine;
    }
  }
  auto engine = std::make_unique<Engine>(memory_);
  const auto address =
      memory_->Allocate(sizeof(uint32_t), "status of a kernel");
  if (!address.ok()) return nullptr;
  engine->status_address = *address;
  engine->status = reinterpret_cast<uint32_t*>(
      memory_->At(*address, sizeof(uint32_t))->data());
  return engine;
}

void SimBlockRunner::GiveBack(std::unique_ptr<Engine> engine) {
  MutexLock lock(engines_mutex_);
  engines_.push_back(std::move(engine));
}

void SimBlockRunner::Run(const KernelMetadata& kmd, uint64_t block,
                         const void* args, uint32_t* fail_status) {
  const simt::KernelInfo& kernel = *kmd.kernel;
  const auto fail = [&](uint32_t status) {
    uint32_t none = simt::kFailNone;
    // Other blocks of the launch may fail at this moment. Relaxed: whoever
    // reads it is told by the queue that the blocks have ended.
    std::atomic_ref<uint32_t>(*fail_status)
        .compare_exchange_strong(none, status, std::memory_order_relaxed);
  };
  const SimKernels::Code code = kernels_->Find(kmd.kernel);
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
  engine->gpu.set_no_progress_limit(SimKernels::NoProgressLimit(kernel));
  absl::Status status = sim::CheckLaunch(launch);
  if (status.ok()) {
    const simt::Dim3 index = BlockIndex(kmd.grid, block);
    status =
        engine->gpu.RunOneBlock(launch, {index.x, index.y, index.z}).status();
  }
  if (!status.ok()) {
    LogEventFailure(std::string(status.message()));
    fail(SimKernels::FailStatusOf(status));
  } else if (*engine->status != simt::kFailNone) {
    fail(*engine->status);
  }
  if (!engine->printed.empty()) {
    spdlog::info("{} prints: {}", kernel.name, engine->printed);
    engine->printed.clear();
  }
  GiveBack(std::move(engine));
}

}  // namespace carillon::gpud
