#include "gpu_daemon/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cpu/cpu_memory.h"
#include "gpu_daemon/backends/cpu/pagoda_launcher.h"
#include "gpu_daemon/backends/cpu/pagoda_ring_launcher.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/sim/sim_block_runner.h"
#include "gpu_daemon/backends/sim/sim_memory.h"
#include "gpu_daemon/dispatch/baseline_launcher.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/front_end.h"
#include "gpu_daemon/dispatch/persistent_launcher.h"

namespace carillon::gpud {
namespace {

// gpud's own kernels are compiled for this CPU; a user's are PTX.
class CpuAndPtxRunner final : public BlockRunner {
 public:
  explicit CpuAndPtxRunner(PtxEngine* ptx) : ptx_(ptx) {}

  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           LaunchRun* run) override {
    if (kmd.kernel->is_users()) return ptx_.Run(kmd, block, args, run);
    RunBlock(kmd, block, args, &run->fail_status);
  }

 private:
  SimBlockRunner ptx_;
};

// Both find it at the host's addresses; PTX finds nothing else.
class CpuAndPtxMemory final : public CpuMemory {
 public:
  explicit CpuAndPtxMemory(PtxEngine* ptx) : ptx_(ptx) {}

  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override {
    return ptx_.MapHost(memory);
  }
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override {
    ASSIGN_OR_RETURN(auto memory, CpuMemory::Allocate(bytes));
    ASSIGN_OR_RETURN(auto mapping, MapHost({memory->data(), bytes}));
    return std::make_unique<Allocation>(std::move(memory), std::move(mapping));
  }

 private:
  class Allocation final : public GpuMemory {
   public:
    Allocation(std::unique_ptr<GpuMemory> memory,
               std::unique_ptr<HostMapping> mapping)
        : memory_(std::move(memory)), mapping_(std::move(mapping)) {}
    std::byte* data() const override { return memory_->data(); }

   private:
    const std::unique_ptr<GpuMemory> memory_;
    const std::unique_ptr<HostMapping> mapping_;
  };

  SimMemory ptx_;
};

// What launchers are made of. Of the back-end, and as long-lived.
struct PathParts {
  Kmu* kmu;
  BlockRunner* runner;
  OnOverrun on_overrun;
  PagodaMtbs* pagoda_mtbs;
  PagodaMtbs* pagoda_ring_mtbs;
};

struct CpuPath {
  LaunchPathInfo info;
  std::string_view thread_name;
  std::unique_ptr<Launcher> (*make)(const PathParts&);
};

// The default first.
constexpr CpuPath kPaths[] = {
    {{kEdgePath,
      "the front-end launches: single warps at once, the rest through the KMU"},
     "gpud-front-end",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<EdgeLauncher>(of.kmu, of.runner, of.on_overrun);
     }},
    {{"baseline", "a CPU thread launches every kernel and polls for its end"},
     "gpud-baseline",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<BaselineLauncher>(
           of.kmu, BaselineLauncher::Completion::kEventPolling);
     }},
    {{"baseline_flag",
      "a CPU thread launches every kernel; its last block tells the device"},
     "gpud-base-flag",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<BaselineLauncher>(
           of.kmu, BaselineLauncher::Completion::kEpilogue);
     }},
    {{"persistent",
      "a resident thread polls the doorbells and runs the blocks itself"},
     "gpud-persistent",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<PersistentLauncher>(of.runner);
     }},
    {{"pagoda",
      "a CPU thread spawns events as tasks, which resident threads run"},
     "gpud-pagoda",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<PagodaLauncher>(of.kmu, of.pagoda_mtbs);
     }},
    {{"pagoda_ring",
      "the scheduler of resident threads polls the doorbells itself"},
     "gpud-pagoda-rng",
     [](const PathParts& of) -> std::unique_ptr<Launcher> {
       return std::make_unique<PagodaRingLauncher>(of.kmu, of.pagoda_ring_mtbs);
     }},
};

uint32_t WorkersOf(const BackendOptions& options) {
  return options.workers != 0 ? options.workers : DefaultWorkers();
}

std::vector<PathSet::Entry> Paths(const BackendOptions& options,
                                  const PathParts& parts) {
  std::vector<PathSet::Entry> entries;
  for (const CpuPath& path : kPaths) {
    entries.push_back(
        {path.info,
         [&path, parts, gpu = options.gpu, max_spin_ns = options.max_spin_ns,
          on_violation = options.on_violation](
             bool tracing) -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
           return std::make_unique<FrontEnd>(
               FrontEnd::Options{.gpu = gpu,
                                 .tracing = tracing,
                                 .max_spin_ns = max_spin_ns,
                                 .on_violation = on_violation,
                                 .thread_name = std::string(path.thread_name)},
               path.make(parts));
         }});
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CpuBackend::Create(
    const BackendOptions& options) {
  RETURN_IF_ERROR(CheckFor(kCpuBackend, options));
  ASSIGN_OR_RETURN(auto policy, MakePolicy(options.policy, options.gpu,
                                           options.reserved_sms));
  auto ptx = std::make_unique<PtxEngine>(sim::Addresses::kHost);
  RETURN_IF_ERROR(ptx->memory.SetHeapBytes(options.heap_bytes));
  auto runner = std::make_unique<CpuAndPtxRunner>(ptx.get());
  auto memory = std::make_unique<CpuAndPtxMemory>(ptx.get());
  return std::unique_ptr<Backend>(
      new CpuBackend(options, std::move(policy), std::move(runner),
                     std::move(memory), std::move(ptx)));
}

CpuBackend::CpuBackend(const BackendOptions& options,
                       std::unique_ptr<SharingPolicy> policy,
                       std::unique_ptr<BlockRunner> runner,
                       std::unique_ptr<KernelMemory> memory,
                       std::unique_ptr<PtxEngine> ptx)
    : options_(options),
      ptx_(std::move(ptx)),
      runner_(std::move(runner)),
      memory_(std::move(memory)),
      kmu_(options.gpu, std::move(policy)),
      copies_(memory_.get(), {options.copy_in_chunk, options.copy_out_chunk}),
      pagoda_mtbs_(PagodaMtbs::Scheduling::kThreads, WorkersOf(options),
                   runner_.get()),
      pagoda_ring_mtbs_(PagodaMtbs::Scheduling::kLauncher, WorkersOf(options),
                        runner_.get()),
      paths_(Paths(options, {.kmu = &kmu_,
                             .runner = runner_.get(),
                             .on_overrun = options.on_overrun,
                             .pagoda_mtbs = &pagoda_mtbs_,
                             .pagoda_ring_mtbs = &pagoda_ring_mtbs_}),
             options.tracing) {
  workers_.emplace(WorkersOf(options), &kmu_, runner_.get());
}

CpuBackend::~CpuBackend() {
  Stop();
  Join();
}

std::string CpuBackend::description() const {
  return FormatPlural(workers(), "worker thread");
}

BackendFigures CpuBackend::figures() const {
  auto blocks = kmu_.blocks_of_sms();
  const uint32_t resident =
      std::accumulate(blocks.begin(), blocks.end(),
                      pagoda_mtbs_.tasks().running_blocks() +
                          pagoda_ring_mtbs_.tasks().running_blocks());
  return {.resident_blocks = resident,
          .blocks_of_sms = std::move(blocks),
          .background_kernels = kmu_.background_kernels(),
          .background_blocks = kmu_.background_blocks()};
}

std::vector<LaunchProgress> CpuBackend::launches() const {
  std::vector<LaunchProgress> all = kmu_.launches();
  for (const PagodaMtbs* mtbs : {&pagoda_mtbs_, &pagoda_ring_mtbs_}) {
    std::ranges::move(mtbs->tasks().launches(), std::back_inserter(all));
  }
  return all;
}

bool CpuBackend::idle() const {
  return kmu_.idle() && copies_.idle() && pagoda_mtbs_.tasks().idle() &&
         pagoda_ring_mtbs_.tasks().idle();
}

void CpuBackend::Cancel(const LaunchFilter& which, shm::EventStatus why) {
  kmu_.Cancel(which, why);
  copies_.Cancel(which, why);
  pagoda_mtbs_.tasks().Cancel(which, why);
  pagoda_ring_mtbs_.tasks().Cancel(which, why);
}

absl::Status CpuBackend::SetPolicy(std::string_view name) {
  ASSIGN_OR_RETURN(auto policy,
                   MakePolicy(name, options_.gpu, options_.reserved_sms));
  kmu_.SetPolicy(std::move(policy));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> CpuBackend::LoadKernels(
    const ModuleSource& source) {
  return ptx_->kernels.Load(source);
}

void CpuBackend::Stop() {
  paths_.Stop();
  kmu_.Stop();
  copies_.Stop();
  for (PagodaMtbs* mtbs : {&pagoda_mtbs_, &pagoda_ring_mtbs_}) {
    mtbs->tasks().Cancel(LaunchFilter::All(), shm::EventStatus::kShutdown);
    mtbs->Leave();
  }
  ptx_->latch.Stop();
}

void CpuBackend::Join() {
  workers_.reset();
  pagoda_mtbs_.Join();
  pagoda_ring_mtbs_.Join();
}

}  // namespace carillon::gpud
