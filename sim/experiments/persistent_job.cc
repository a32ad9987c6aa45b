#include "sim/experiments/persistent_job.h"

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/paper/persistent.h"
#include "sim/experiments/load_ptx.h"
#include "sim/experiments/persistent_ptx.h"
#include "sim/timing/edge/interrupts.h"

namespace carillon::sim::figures {
namespace {

using kernels::PersistentArgs;
using kernels::PersistentQueue;
using timing::Cycle;

// A job checks after so many cycles whether it must end.
constexpr Cycle kTurn = 1 << 16;
// All blocks are resident by this cycle after the kernel's launch.
constexpr Cycle kFirstTask = 5000;

// The host and the GPU of a persistent kernel.
class PersistentRun {
 public:
  static absl::StatusOr<std::unique_ptr<PersistentRun>> Make(
      const Job& job, const timing::Config& config) {
    std::unique_ptr<PersistentRun> run(new PersistentRun(job));
    ASSIGN_OR_RETURN(auto kernels,
                     LoadPtx(PersistentPtx(), "persistent.ptx", &run->memory_));
    run->kernels_ = std::move(kernels);
    ASSIGN_OR_RETURN(auto isr, LoadRoutine(&run->memory_));
    run->isr_ = std::move(isr);
    const uint64_t bytes = config.sm.count * sizeof(PersistentQueue);
    ASSIGN_OR_RETURN(const auto address,
                     run->memory_.Allocate(bytes, "queues"));
    run->address_ = address;
    run->queues_ = {reinterpret_cast<PersistentQueue*>(
                        run->memory_.At(address, bytes)->data()),
                    config.sm.count};
    PersistentRun* const self = run.get();
    run->gpu_ = std::make_unique<timing::Gpu>(
        config, &run->memory_,
        timing::Gpu::Options{.ended = [self](const timing::GridResult& grid) {
          self->Ended(grid);
        }});
    ASSIGN_OR_RETURN(auto interrupts,
                     timing::Interrupts::Create(run->gpu_.get(), &run->memory_,
                                                run->isr_.get()));
    run->interrupts_ = std::move(interrupts);
    return run;
  }

  absl::StatusOr<Json> Run(const JobControl& control) {
    const PersistentArgs args{
        .queues = reinterpret_cast<PersistentQueue*>(address_),
        .tasks = job_.events / static_cast<uint32_t>(queues_.size()),
        .barriers = kWaitReleaseBarriers - 1,
    };
    Launch launch{
        .program = kernels_.get(),
        .kernel = kernels_->FindEntry("persistent_" + job_.persistent),
        .grid = {static_cast<uint32_t>(queues_.size()), 1, 1},
        .block = {kLanes, 1, 1}};
    if (launch.kernel == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("'{}': persistent blocks poll, wait or are targeted",
                      job_.persistent));
    }
    tasks_ = args.tasks * static_cast<uint32_t>(queues_.size());
    launch.parameters.resize(sizeof(args));
    std::memcpy(launch.parameters.data(), &args, sizeof(args));
    ASSIGN_OR_RETURN(const auto grid, gpu_->Submit(std::move(launch), {}));
    grid_ = grid;
    gpu_->CallAt(kFirstTask, [this] { Push(); });
    // The GPU does not know of the tasks, so Run() alone would not wait for
    // them.
    while (!gpu_->Run(gpu_->cycle() + kTurn) || !ended_) {
      gpu_->ForgetResults();
      if (!status_.ok()) return status_;
      if (control.cancelled != nullptr && *control.cancelled) {
        return absl::CancelledError();
      }
    }
    if (!status_.ok()) return status_;
    for (const PersistentQueue& queue : queues_) {
      if (queue.done == args.tasks) continue;
      return absl::DataLossError(fmt::format(
          "a persistent block did {} of {} tasks", queue.done, args.tasks));
    }
    const timing::SmCounters total = Total(gpu_->statistics());
    return Json{{"cycles", cycles_},
                {"tasks", tasks_},
                {"global_loads", total.l1_load_hits + total.l1_load_misses +
                                     total.l1_loads_past},
                {"warp_instructions", total.instructions},
                {"interrupts", raised_}};
  }

 private:
  explicit PersistentRun(const Job& job) : job_(job) {}

  void Push() {
    PersistentQueue& queue = queues_[pushed_ % queues_.size()];
    ++queue.pushed;
    ++pushed_;
    if (job_.persistent == "targeted") {
      // Only the task's own block needs to be told.
      const uint32_t block =
          static_cast<uint32_t>((pushed_ - 1) % queues_.size());
      Raise(1 + block % (kWaitReleaseBarriers - 1), queue.sm);
    } else if (job_.persistent == "wait" &&
               (pushed_ % job_.coalesce == 0 || pushed_ == tasks_)) {
      Raise(0, timing::kAnySm);
    }
    if (pushed_ == tasks_) return;
    gpu_->CallAt(gpu_->cycle() + job_.arrivals.least, [this] { Push(); });
  }

  void Raise(uint32_t barrier, uint32_t sm) {
    const auto id = interrupts_->Raise(
        {.vector = isr::Vector::kReleaseBarrier, .barrier = barrier, .sm = sm},
        gpu_->cycle());
    if (absl::IsResourceExhausted(id.status())) {
      gpu_->CallAt(gpu_->cycle() + 1,
                   [this, barrier, sm] { Raise(barrier, sm); });
      return;
    }
    status_.Update(id.status());
    ++raised_;
  }

  void Ended(const timing::GridResult& grid) {
    status_.Update(grid.status);
    interrupts_->Ended(grid);
    interrupts_->ForgetResults();
    if (grid.id != grid_) return;
    cycles_ = grid.completed - kFirstTask;
    ended_ = true;
  }

  const Job& job_;
  Memory memory_;
  std::shared_ptr<const Program> kernels_;
  std::shared_ptr<const Program> isr_;
  DeviceAddress address_ = 0;
  std::span<PersistentQueue> queues_;
  std::unique_ptr<timing::Gpu> gpu_;
  std::unique_ptr<timing::Interrupts> interrupts_;
  timing::GridId grid_ = 0;
  uint64_t pushed_ = 0;
  uint64_t tasks_ = 0;
  uint64_t raised_ = 0;
  Cycle cycles_ = 0;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Json> RunPersistent(const Job& job, const timing::Config& config,
                                   const JobControl& control) {
  if (job.arrivals.least == 0 || job.coalesce == 0) {
    return absl::InvalidArgumentError(
        "tasks come 1 cycle apart at least, and an interrupt is for 1 at "
        "least");
  }
  const auto run = PersistentRun::Make(job, config);
  return run.ok() ? (*run)->Run(control) : run.status();
}

}  // namespace carillon::sim::figures
