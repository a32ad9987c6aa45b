#include "tools/bench/narrow/narrow_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/machine.h"
#include "tools/bench/narrow/cells.h"
#include "tools/bench/narrow/events.h"
#include "tools/bench/narrow/on_cores.h"
#include "tools/bench/narrow/on_driver.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/simulated.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr char kBaseline[] = "baseline";
constexpr char kThreadsPath[] = "threads";
constexpr std::string_view kIrregularPart = "irregular";
constexpr uint32_t kQuickTasks = 4;
constexpr uint32_t kQuickBatch = 2;
// Of rings, beside the data.
constexpr uint64_t kRingBytes = 32ull << 20;
// Of a task of MM and of CONV (Fig. 11), as far as an MTB's 31 executors go, and
// what no MTB holds.
constexpr uint32_t kThreads[] = {32, 64, 128, 256, 512, 992, 1024};
constexpr uint32_t kMostMtbThreads = 992;
// Pagoda's Figs. 8 and 9 compare these, Fig. 11 those that fuse nothing.
constexpr const char* kComparedPaths[] = {kBaseline, "pagoda", "pagoda_ring",
                                          "fusion", "batches"};
constexpr const char* kComparedOnCuda[] = {"hyperq", "edge", "pagoda",
                                           "pagoda_ring", "fusion"};

// On a gpud: how a path's name is run.
struct EventsPath {
  const char* name;
  const char* launch_path;  // the back-end must have it
  bool batches;
};
constexpr EventsPath kEventsPaths[] = {{kBaseline, "baseline", false},
                                       {"edge", "edge", false},
                                       {"graph", "graph", false},
                                       {"pagoda", "pagoda", false},
                                       {"pagoda_ring", "pagoda_ring", false},
                                       {"batches", "edge", true},
                                       {"pagoda_batches", "pagoda", true}};

const EventsPath* FindEventsPath(std::string_view name) {
  const auto found = std::ranges::find(kEventsPaths, name, &EventsPath::name);
  return found == std::end(kEventsPaths) ? nullptr : &*found;
}

// All names, of whichever back-end.
constexpr const char* kAllPaths[] = {
    kBaseline,     "edge",           "graph",     "pagoda",
    "pagoda_copy", "pagoda_ring",    "hyperq",    "fusion",
    "batches",     "pagoda_batches", kThreadsPath};

// Why a back-end lacks a path that another one has; empty: no path has that name.
std::string WhyNot(std::string_view path, std::string_view backend) {
  if (std::ranges::find(kAllPaths, path) == std::end(kAllPaths)) return {};
  if (backend == "sim") {
    if (path == "graph") return "CUDA graphs are the cuda back-end's";
    if (path == kHyperQ) return "HyperQ is path baseline there";
    return "a CPU's time beside simulated time says nothing";
  }
  if (path == "pagoda_copy") {
    return backend == "cuda"
               ? "path pagoda itself copies entries there"
               : "a gpud's spawner writes entries by stores: nothing is copied";
  }
  if (backend == "cpu") {
    if (path == kFusion) return "gpud's kernels have no fused form";
    if (path == kHyperQ) return "streams are the cuda back-end's";
    if (path == "graph") return "CUDA graphs are the cuda back-end's";
  }
  return fmt::format("this gpud has no launch path {}",
                     FindEventsPath(path)->launch_path);
}

bool IsOnDriver(std::string_view path) {
  return path == kHyperQ || path == kFusion;
}

class NarrowRun {
 public:
  NarrowRun(const BenchRun& run, const NarrowOptions& options)
      : run_(run), options_(options) {}

  absl::StatusOr<BenchResult> Run() {
    RETURN_IF_ERROR(CheckOptions());
    CatchInterrupts();
    if (options_.backend == "sim") {
      report_.backend = "sim";
      RETURN_IF_ERROR(ChoosePaths(SimulatedPaths()));
      RETURN_IF_ERROR(MakeCells());
      RETURN_IF_ERROR(Simulate());
      return report_.ToResult();
    }
    RETURN_IF_ERROR(StartGpud());
    RETURN_IF_ERROR(ChoosePaths(PathsOfGpud()));
    RETURN_IF_ERROR(MakeCells());
    RETURN_IF_ERROR(RunOnGpud());
    return report_.ToResult();
  }

 private:
  // Of a workload: its name, its tasks' threads and sizes.
  using Key = std::tuple<std::string, uint32_t, kernels::NarrowSizes>;

  static Key KeyOf(const NarrowCell& cell) {
    return {cell.workload, cell.threads, SizesOf(cell.part)};
  }
  static bool HasCopies(const NarrowCell& cell) {
    return cell.part == "copies";
  }

  absl::Status CheckOptions() {
    if (options_.tasks == 0 || options_.tasks > NarrowWorkload::kMostTasks) {
      return absl::InvalidArgumentError(
          fmt::format("--tasks {}: a run has 1 to {}", options_.tasks,
                      NarrowWorkload::kMostTasks));
    }
    if (options_.batch == 0) {
      return absl::InvalidArgumentError("--batch 0: a batch has a task");
    }
    report_.batch =
        run_.quick ? std::min(options_.batch, kQuickBatch) : options_.batch;
    report_.seed = kSeed;
    report_.workloads = options_.workloads.empty() ? NarrowWorkload::Names()
                                                   : options_.workloads;
    for (const std::string& name : report_.workloads) {
      RETURN_IF_ERROR(NarrowWorkload::CheckName(name));
    }
    RETURN_IF_ERROR(CheckOnce("--workloads", options_.workloads));
    RETURN_IF_ERROR(CheckOnce("--paths", options_.paths));
    // As "nan", which no range rules out.
    for (const double us : {options_.call_us, options_.store_us,
                            options_.empty_update_us, options_.copy_back_us}) {
      if (!std::isnan(us)) continue;
      return absl::InvalidArgumentError(
          "--call-us, --store-us, --empty-update-us and --copy-back-us are "
          "numbers of microseconds");
    }
    if (options_.backend == "sim") return absl::OkStatus();
    const NarrowOptions defaults;
    for (const auto& [flag, given] :
         {std::pair("--timing", options_.timing != defaults.timing),
          {"--call-us", options_.call_us != defaults.call_us},
          {"--store-us", options_.store_us != defaults.store_us},
          {"--empty-update-us",
           options_.empty_update_us != defaults.empty_update_us},
          {"--copy-back-us", options_.copy_back_us != defaults.copy_back_us}}) {
      if (!given) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{}: it goes with --backend sim: elsewhere time is the machine's",
          flag));
    }
    return absl::OkStatus();
  }
  static absl::Status CheckOnce(std::string_view flag,
                                std::vector<std::string> names) {
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice == names.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{} names {} twice", flag, *twice));
  }

  bool simulated() const { return report_.simulated(); }
  bool cuda() const { return report_.backend == "cuda"; }
  bool Wants(std::string_view part) const {
    return options_.parts.empty() ||
           std::ranges::find(options_.parts, part) != options_.parts.end();
  }
  uint32_t tasks() const {
    return run_.quick ? std::min(options_.tasks, kQuickTasks) : options_.tasks;
  }

  std::vector<std::string> PathsOfGpud() const {
    std::vector<std::string> paths;
    if (cuda()) paths = {std::string(kHyperQ), std::string(kFusion)};
    for (const EventsPath& path : kEventsPaths) {
      for (const Json& known : testbed_->device().about()["paths"]) {
        if (known["name"] == path.launch_path) paths.push_back(path.name);
      }
    }
    paths.push_back(kThreadsPath);
    return paths;
  }
  absl::Status ChoosePaths(std::vector<std::string> all) {
    for (const std::string& path : options_.paths) {
      if (std::ranges::find(all, path) != all.end()) continue;
      const std::string why = WhyNot(path, report_.backend);
      return absl::NotFoundError(fmt::format(
          "--backend {} has no path '{}': {}", report_.backend, path,
          why.empty() ? fmt::format("it has {}", fmt::join(all, ", ")) : why));
    }
    report_.base = cuda() ? std::string(kHyperQ) : kBaseline;
    if (!options_.paths.empty()) {
      report_.paths = options_.paths;
      return absl::OkStatus();
    }
    for (const char* const path : kAllPaths) {
      if (std::ranges::find(all, path) != all.end()) continue;
      report_.left_out.push_back({path, WhyNot(path, report_.backend)});
    }
    report_.paths = std::move(all);
    return absl::OkStatus();
  }

  absl::Status AddWorkload(const std::string& name, uint32_t threads,
                           kernels::NarrowSizes sizes) {
    ASSIGN_OR_RETURN(auto workload, NarrowWorkload::Make(name, tasks(), kSeed,
                                                         threads, sizes));
    workloads_.emplace(std::tuple(name, threads, sizes), std::move(workload));
    return absl::OkStatus();
  }
  void AddCells(const std::string& part, const std::string& workload,
                uint32_t threads, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      report_.cells.push_back(
          {.part = part,
           .workload = workload,
           .path = path,
           .threads = threads,
           .tasks =
               WorkloadOf(workload, threads, SizesOf(part)).tasks().size()});
    }
  }
  static kernels::NarrowSizes SizesOf(std::string_view part) {
    return part == kIrregularPart ? kernels::NarrowSizes::kIrregular
                                  : kernels::NarrowSizes::kPagoda;
  }
  const NarrowWorkload& WorkloadOf(
      const std::string& name, uint32_t threads,
      kernels::NarrowSizes sizes = kernels::NarrowSizes::kPagoda) const {
    return workloads_.at({name, threads, sizes});
  }

  // Memory of CPU cores is one: nothing is copied there.
  bool HasPart(std::string_view part) const {
    if (part == "copies") return simulated() || cuda();
    return part == "tasks" || simulated() || cuda();
  }
  // What copies nothing is not compared with what does.
  std::vector<std::string> PathsOf(std::string_view part) const {
    std::vector<std::string> paths = report_.paths;
    if (part == "copies") std::erase(paths, kThreadsPath);
    return paths;
  }
  // As far as they were chosen.
  std::vector<std::string> Compared(bool with_fusion) const {
    std::vector<std::string> paths;
    std::span<const char* const> compared = kComparedPaths;
    if (cuda()) compared = kComparedOnCuda;
    for (const std::string_view path : compared) {
      if (!with_fusion && (path == kFusion || path == "batches")) continue;
      if (std::ranges::find(report_.paths, path) != report_.paths.end()) {
        paths.emplace_back(path);
      }
    }
    return paths;
  }
  absl::Status MakeCells() {
    for (const std::string& name : report_.workloads) {
      RETURN_IF_ERROR(AddWorkload(name, 0, SizesOf("tasks")));
      if (Wants(kIrregularPart) && HasPart(kIrregularPart)) {
        RETURN_IF_ERROR(AddWorkload(name, 0, SizesOf(kIrregularPart)));
        AddCells(std::string(kIrregularPart), name, 0,
                 Compared(/*with_fusion=*/true));
      }
      for (const char* const part : {"tasks", "copies"}) {
        if (!Wants(part) || !HasPart(part)) continue;
        AddCells(part, name, 0, PathsOf(part));
      }
    }
    if (cuda() && Wants("copies") &&
        PathsOf("copies").size() != report_.paths.size()) {
      report_.left_out.push_back({kThreadsPath, "it copies nothing", "copies"});
    }
    if (Wants("threads") && HasPart("threads")) RETURN_IF_ERROR(AddThreads());
    if (!report_.cells.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "nothing is left to measure: the cpu back-end has part tasks alone; "
        "path threads is of part tasks; part threads is of mm and conv; it and "
        "part irregular compare baseline, pagoda, pagoda_ring, fusion and "
        "batches "
        "on sim, and "
        "hyperq, edge, pagoda, pagoda_ring and fusion on cuda");
  }
  absl::Status AddThreads() {
    const std::vector<std::string> paths = Compared(/*with_fusion=*/false);
    for (const char* const name : {"mm", "conv"}) {
      if (std::ranges::find(report_.workloads, name) ==
          report_.workloads.end()) {
        continue;
      }
      for (const uint32_t threads : kThreads) {
        if (run_.quick && threads > kThreads[1] && threads <= kMostMtbThreads) {
          continue;
        }
        RETURN_IF_ERROR(AddWorkload(name, threads, SizesOf("threads")));
        AddCells("threads", name, threads, paths);
      }
    }
    return absl::OkStatus();
  }

  // gpud's; that of a driver without the code; or a simulated GPU's that has no
  // room for the MasterKernel, or for a task in one of its MTBs.
  bool IsRefusal(const NarrowCell& cell, const absl::Status& status) const {
    if (simulated()) return absl::IsResourceExhausted(status);
    if (IsOnDriver(cell.path)) return absl::IsUnimplemented(status);
    return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
           absl::IsFailedPrecondition(status);
  }
  // Whether what it ran on may have come to harm.
  bool Broke(const NarrowCell& cell, const absl::Status& status) const {
    return !status.ok() && !IsRefusal(cell, status) &&
           !absl::IsDataLoss(status);
  }
  static void Fail(NarrowCell& cell, const absl::Status& why) {
    cell.failed = why;
    fmt::print(stderr, "  {} {} {}: {}\n", cell.part, cell.workload, cell.path,
               why.message());
  }
  void Add(NarrowCell& cell, size_t round,
           absl::StatusOr<NarrowOutcome> outcome) {
    if (!outcome.ok()) {
      if (!IsRefusal(cell, outcome.status())) {
        return Fail(cell, outcome.status());
      }
      cell.refused = std::string(outcome.status().message());
      fmt::print(stderr, "  {} {} {}: {}\n", cell.part, cell.workload,
                 cell.path, cell.refused);
      return;
    }
    const NarrowSummary summary = Summarize(*outcome);
    if (cell.rounds.size() <= round) cell.rounds.resize(round + 1);
    cell.rounds[round].push_back(summary);
    fmt::print(
        stderr, "  {} {} {}{}: {} tasks/s\n", cell.part, cell.workload,
        cell.path,
        cell.threads == 0 ? "" : fmt::format(" {} threads", cell.threads),
        Short(summary.tasks_per_second));
    outcome->tasks.clear();
    cell.last = *std::move(outcome);
  }

  // Each simulation is a thread's own.
  absl::Status Simulate() {
    auto config = LoadSimulatedGpu(options_.timing);
    if (absl::IsUnimplemented(config.status())) return config.status();
    if (!config.ok()) {
      return absl::FailedPreconditionError(config.status().message());
    }
    SimulatedOptions options{.config = *std::move(config),
                             .call_us = options_.call_us,
                             .store_us = options_.store_us,
                             .empty_update_us = options_.empty_update_us,
                             .copy_back_us = options_.copy_back_us,
                             .batch = report_.batch,
                             .may_go_on = CheckInterrupt};
    std::vector<NarrowCell>& cells = report_.cells;
    // Between the threads: the next cell, and what has been found.
    std::atomic<size_t> next{0};
    std::mutex mutex;
    const auto work = [&] {
      for (size_t i = next++; i < cells.size(); i = next++) {
        if (!CheckInterrupt().ok()) return;
        SimulatedOptions own = options;
        own.copies = cells[i].part == "copies";
        auto outcome =
            RunSimulated(WorkloadOf(cells[i].workload, cells[i].threads,
                                    SizesOf(cells[i].part)),
                         cells[i].path, own);
        std::lock_guard lock(mutex);
        Add(cells[i], 0, std::move(outcome));
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < UsableCpus().size(); ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    RETURN_IF_ERROR(CheckInterrupt());
    report_.conditions = {
        {"timing", options_.timing},
        {"sms", options.config.sm.count},
        {"core_mhz", options.config.clock.core_mhz},
        {"kdu", options.config.dispatch.grids},
        {"link_mb_per_s", options.config.pcie.megabytes_per_second},
        {"link_chunk_ns", options.config.pcie.chunk_ns},
        {"call_us", options_.call_us},
        {"store_us", options_.store_us},
        {"host_read_us", options.host_read_us},
        {"empty_update_us", options_.empty_update_us},
        {"copy_back_us", options_.copy_back_us}};
    return absl::OkStatus();
  }

  // The one before must be gone.
  absl::Status StartGpud() {
    ASSIGN_OR_RETURN(testbed_,
                     LaunchTestbed::Start({.gpud = run_.session.gpud,
                                           .backend = options_.backend,
                                           .realtime = run_.session.realtime,
                                           .memory_bytes = MemoryBytes()}));
    const Json& about = testbed_->device().about();
    report_.backend = about["backend"];
    report_.conditions = {{"description", about["description"]},
                          {"threads", UsableCpus().size()}};
    if (cuda()) {
      report_.conditions["order"] =
          "hyperq and fusion ran before all others, in rounds of their own: a "
          "range of over_baseline is of pairs that lie minutes apart";
      report_.driver = DriverOf(about["description"].get<std::string>());
    }
    return absl::OkStatus();
  }
  void EndGpud() {
    device_.reset();
    testbed_.reset();
  }
  uint64_t MostBytes() const {
    uint64_t most = 0;
    for (const auto& [key, workload] : workloads_) {
      most = std::max(most, workload.bytes());
    }
    return most;
  }
  // A workload's data three times; 0, gpud's default, if that is enough. Before
  // there are workloads nothing is attached.
  uint64_t MemoryBytes() const {
    constexpr uint64_t kUsual = 512ull << 20;
    const uint64_t needs = 3 * (MostBytes() + kRingBytes);
    return needs > kUsual ? needs : 0;
  }
  absl::Status Attach() {
    const uint64_t room = MostBytes() + kRingBytes;
    auto device =
        edge::Device::Attach({.testbed_directory = testbed_->testbed(),
                              .name = "spawner",
                              .kind = "bench",
                              .submission_bytes = room,
                              .completion_bytes = room});
    if (!device.ok()) return testbed_->WithLog(device.status());
    device_ = *std::move(device);
    return absl::OkStatus();
  }

  absl::Status RunOnGpud() {
    // Two contexts on one GPU take turns, and what stays of gpud keeps its SMs.
    if (cuda()) {
      EndGpud();
      RETURN_IF_ERROR(RunOnDriver());
    }
    for (const auto& [key, workload] : workloads_) {
      RETURN_IF_ERROR(RunWorkload(key, workload));
    }
    return absl::OkStatus();
  }

  // Those of a workload that are, or are not, launched by this process.
  std::vector<NarrowCell*> CellsOf(const Key& key, bool on_driver) {
    std::vector<NarrowCell*> cells;
    for (NarrowCell& cell : report_.cells) {
      if (KeyOf(cell) == key && IsOnDriver(cell.path) == on_driver) {
        cells.push_back(&cell);
      }
    }
    return cells;
  }
  // In rounds that go there and back. `run` measures a cell once. After an error
  // of `get_ready`, which comes before, nothing runs any more: what has been
  // measured is reported.
  template <class Ready, class Measure>
  absl::Status InRounds(const std::vector<NarrowCell*>& cells, Ready get_ready,
                        Measure run) {
    for (size_t round = 0; round < run_.session.rounds; ++round) {
      for (const size_t i : RoundOrder(cells.size(), round)) {
        RETURN_IF_ERROR(CheckInterrupt());
        if (cells[i]->over()) continue;
        if (lost_.ok()) lost_ = get_ready();
        if (absl::IsCancelled(lost_)) return lost_;
        if (!lost_.ok()) {
          Fail(*cells[i], lost_);
          continue;
        }
        absl::StatusOr<NarrowOutcome> outcome = run(*cells[i]);
        if (absl::IsCancelled(outcome.status())) return outcome.status();
        Add(*cells[i], round, std::move(outcome));
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunOnDriver() {
    std::unique_ptr<NarrowDriver> driver;
    bool hangs = false;
    const auto open = [&]() -> absl::Status {
      if (driver != nullptr) return absl::OkStatus();
      ASSIGN_OR_RETURN(driver, NarrowDriver::Open());
      return absl::OkStatus();
    };
    for (const auto& [key, workload] : workloads_) {
      RETURN_IF_ERROR(InRounds(
          CellsOf(key, /*on_driver=*/true), open, [&](const NarrowCell& cell) {
            auto outcome = driver->Run(workload, {cell.path, HasCopies(cell)},
                                       CheckInterrupt);
            // A fault costs the context.
            if (Broke(cell, outcome.status())) driver.reset();
            hangs = absl::IsDeadlineExceeded(outcome.status());
            if (hangs) {
              lost_ = absl::FailedPreconditionError(
                  fmt::format("{} {} hangs on the GPU until this program ends",
                              cell.path, cell.workload));
            }
            return outcome;
          }));
    }
    // A gpud has a context of its own.
    if (!hangs) lost_ = absl::OkStatus();
    return absl::OkStatus();
  }

  absl::Status RunWorkload(const Key& key, const NarrowWorkload& workload) {
    std::unique_ptr<NarrowEvents> events;
    const auto open = [&]() -> absl::Status {
      if (testbed_ == nullptr) RETURN_IF_ERROR(StartGpud());
      if (device_ == nullptr) RETURN_IF_ERROR(Attach());
      if (events != nullptr) return absl::OkStatus();
      ASSIGN_OR_RETURN(events, NarrowEvents::Open(device_.get(), &workload));
      return absl::OkStatus();
    };
    return InRounds(
        CellsOf(key, /*on_driver=*/false), open,
        [&](const NarrowCell& cell) -> absl::StatusOr<NarrowOutcome> {
          if (cell.path == kThreadsPath) {
            return RunByThreads(workload,
                                static_cast<uint32_t>(UsableCpus().size()));
          }
          const EventsPath& path = *FindEventsPath(cell.path);
          auto outcome = events->Run({.path = path.launch_path,
                                      .batch = path.batches ? report_.batch : 0,
                                      .copies = HasCopies(cell)},
                                     CheckInterrupt);
          if (Broke(cell, outcome.status())) {
            outcome = testbed_->WithLog(outcome.status());
            events.reset();
            EndGpud();
          }
          return outcome;
        });
  }

  const BenchRun& run_;
  const NarrowOptions& options_;
  NarrowReport report_;
  std::map<Key, NarrowWorkload> workloads_;
  std::unique_ptr<LaunchTestbed> testbed_;
  std::unique_ptr<edge::Device> device_;
  absl::Status lost_;  // why nothing can run any more
};

}  // namespace

const std::vector<std::string>& NarrowParts() {
  static const auto* const parts = new std::vector<std::string>{
      "tasks", "copies", std::string(kIrregularPart), "threads"};
  return *parts;
}

absl::StatusOr<BenchResult> RunNarrow(const BenchRun& run,
                                      const NarrowOptions& options) {
  return NarrowRun(run, options).Run();
}

}  // namespace carillon::bench
