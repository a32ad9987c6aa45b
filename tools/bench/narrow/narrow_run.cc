#include "tools/bench/narrow/narrow_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>

#include "base/status.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/machine.h"
#include "tools/bench/narrow/on_cores.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/simulated.h"
#include "tools/bench/narrow/workload.h"
#include "tools/bench/stats.h"
#include "tools/cli/ui/table.h"

namespace carillon::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr char kBaseline[] = "baseline";
constexpr uint32_t kQuickTasks = 4;
constexpr uint32_t kQuickBatch = 2;
constexpr uint64_t kAperture = 256ull << 20;
// Of a task of MM and of CONV (Fig. 11), as far as an MTB's 31 executors go.
constexpr uint32_t kThreads[] = {32, 64, 128, 256, 512, 992};

// On the cpu back-end: how a path's name is run.
struct CoresPath {
  const char* name;
  const char* launch_path;  // null: by threads
  bool batches;
};
constexpr CoresPath kCoresPaths[] = {
    {kBaseline, "baseline", false}, {"edge", "edge", false},
    {"pagoda", "pagoda", false},    {"pagoda_ring", "pagoda_ring", false},
    {"batches", "edge", true},      {"pagoda_batches", "pagoda", true},
    {"threads", nullptr, false}};

// What somebody may ask for and does not get, and why.
std::string WhyNot(std::string_view path, bool simulated) {
  if (path == "graph") {
    return "CUDA graphs are the cuda back-end's, which does not run this bench";
  }
  if (simulated && path == "pagoda_ring") {
    return "its scheduler is a thread of gpud, of which there is no PTX";
  }
  if (simulated && path == "threads") {
    return "a CPU's time beside simulated time says nothing";
  }
  if (!simulated && path == "fusion") {
    return "gpud's kernels have no fused form";
  }
  if (!simulated && path == "pagoda_copy") {
    return "the cpu back-end's table is memory of one process: nothing is "
           "copied";
  }
  return {};
}

struct Cell {
  std::string part;
  std::string workload;
  std::string path;
  uint32_t threads = 0;  // of a task; 0: as the paper has them
  // At most one of these is set.
  std::string refused;
  absl::Status failed;
  size_t tasks = 0;
  // By round, each time that it ran there.
  std::vector<std::vector<NarrowSummary>> rounds;
  NarrowOutcome last;
};

// gpud's; or a simulated GPU's that has no room for the MasterKernel.
bool IsRefusal(const absl::Status& status, bool simulated) {
  if (simulated) return absl::IsResourceExhausted(status);
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsFailedPrecondition(status);
}

std::vector<RoundValues> ValuesOf(const Cell& cell,
                                  double NarrowSummary::*field) {
  std::vector<RoundValues> values;
  for (const auto& round : cell.rounds) {
    RoundValues one;
    for (const NarrowSummary& summary : round) one.push_back(summary.*field);
    values.push_back(std::move(one));
  }
  return values;
}

Range RangeOf(const Cell& cell, double NarrowSummary::*field, double scale) {
  std::vector<double> runs;
  for (const RoundValues& round : ValuesOf(cell, field)) {
    runs.insert(runs.end(), round.begin(), round.end());
  }
  return Scaled(bench::RangeOf(std::move(runs)), scale);
}

class NarrowRun {
 public:
  NarrowRun(const BenchRun& run, const NarrowOptions& options)
      : run_(run), options_(options), simulated_(options.backend == "sim") {}

  absl::StatusOr<BenchResult> Run() {
    RETURN_IF_ERROR(CheckOptions());
    RETURN_IF_ERROR(MakeCells());
    CatchInterrupts();
    RETURN_IF_ERROR(simulated_ ? Simulate() : RunOnCores());
    return MakeResult();
  }

 private:
  absl::Status CheckOptions() {
    if (options_.backend == "cuda") {
      return absl::UnimplementedError(
          "bench narrow has no cuda: that back-end refuses pagoda, for want of "
          "a thread that spawns beside a kernel that stays "
          "(docs/decisions/020-pagodas-launch-paths.md); "
          "`carillon bench launch --backend cuda` has its paths, pagoda_ring "
          "among them");
    }
    if (options_.tasks == 0 || options_.tasks > NarrowWorkload::kMostTasks) {
      return absl::InvalidArgumentError(
          fmt::format("--tasks {}: a run has 1 to {}", options_.tasks,
                      NarrowWorkload::kMostTasks));
    }
    if (options_.batch == 0) {
      return absl::InvalidArgumentError("--batch 0: a batch has a task");
    }
    all_paths_ = SimulatedPaths();
    if (!simulated_) {
      all_paths_.clear();
      for (const CoresPath& path : kCoresPaths) all_paths_.push_back(path.name);
    }
    for (const std::string& path : options_.paths) {
      if (std::ranges::find(all_paths_, path) != all_paths_.end()) continue;
      const std::string why = WhyNot(path, simulated_);
      const std::string back_end = simulated_ ? "sim" : "cpu";
      return absl::NotFoundError(
          why.empty() ? fmt::format("--backend {} has no path '{}': it has {}",
                                    back_end, path, fmt::join(all_paths_, ", "))
                      : fmt::format("--backend {} has no path '{}': {}",
                                    back_end, path, why));
    }
    paths_ = options_.paths.empty() ? all_paths_ : options_.paths;
    names_ = options_.workloads.empty() ? NarrowWorkload::Names()
                                        : options_.workloads;
    return absl::OkStatus();
  }

  bool Wants(std::string_view part) const {
    return options_.parts.empty() ||
           std::ranges::find(options_.parts, part) != options_.parts.end();
  }
  bool HasPath(std::string_view path) const {
    return std::ranges::find(paths_, path) != paths_.end();
  }
  uint32_t tasks() const {
    return run_.quick ? std::min(options_.tasks, kQuickTasks) : options_.tasks;
  }
  uint32_t batch() const {
    return run_.quick ? std::min(options_.batch, kQuickBatch) : options_.batch;
  }

  absl::Status AddWorkload(const std::string& name, uint32_t threads) {
    ASSIGN_OR_RETURN(auto workload,
                     NarrowWorkload::Make(name, tasks(), kSeed, threads));
    workloads_.emplace(std::pair(name, threads), std::move(workload));
    return absl::OkStatus();
  }
  void AddCells(const std::string& part, const std::string& workload,
                uint32_t threads, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      cells_.push_back({.part = part,
                        .workload = workload,
                        .path = path,
                        .threads = threads,
                        .tasks = WorkloadOf(workload, threads).tasks().size()});
    }
  }
  const NarrowWorkload& WorkloadOf(const std::string& name,
                                   uint32_t threads) const {
    return workloads_.at({name, threads});
  }

  absl::Status MakeCells() {
    for (const std::string& name : names_) {
      RETURN_IF_ERROR(AddWorkload(name, 0));
      if (Wants("tasks")) AddCells("tasks", name, 0, paths_);
      if (simulated_ && Wants("copies")) AddCells("copies", name, 0, paths_);
    }
    if (simulated_ && Wants("threads")) RETURN_IF_ERROR(AddThreads());
    if (!cells_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "nothing is left to measure: the cpu back-end has part tasks alone, "
        "and "
        "part threads is of mm and conv on baseline and pagoda");
  }
  absl::Status AddThreads() {
    std::vector<std::string> paths;
    for (const char* const path : {kBaseline, "pagoda"}) {
      if (HasPath(path)) paths.push_back(path);
    }
    for (const char* const name : {"mm", "conv"}) {
      if (std::ranges::find(names_, name) == names_.end()) continue;
      for (const uint32_t threads : kThreads) {
        if (run_.quick && threads > kThreads[1]) break;
        RETURN_IF_ERROR(AddWorkload(name, threads));
        AddCells("threads", name, threads, paths);
      }
    }
    return absl::OkStatus();
  }

  void Add(Cell& cell, size_t round, absl::StatusOr<NarrowOutcome> outcome) {
    if (!outcome.ok()) {
      if (IsRefusal(outcome.status(), simulated_)) {
        cell.refused = std::string(outcome.status().message());
      } else {
        cell.failed = outcome.status();
      }
      fmt::print(stderr, "  {} {} {}: {}\n", cell.part, cell.workload,
                 cell.path, outcome.status().message());
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
    auto config = sim::timing::LoadConfig(options_.timing);
    if (!config.ok()) {
      return absl::FailedPreconditionError(config.status().message());
    }
    SimulatedOptions options{.config = *std::move(config),
                             .call_us = options_.call_us,
                             .store_us = options_.store_us,
                             .batch = batch(),
                             .may_go_on = CheckInterrupt};
    // Between the threads: the next cell, and what has been found.
    std::atomic<size_t> next{0};
    std::mutex mutex;
    const auto work = [&] {
      for (size_t i = next++; i < cells_.size(); i = next++) {
        if (!CheckInterrupt().ok()) return;
        SimulatedOptions own = options;
        own.copies = cells_[i].part == "copies";
        auto outcome =
            RunSimulated(WorkloadOf(cells_[i].workload, cells_[i].threads),
                         cells_[i].path, own);
        std::lock_guard lock(mutex);
        Add(cells_[i], 0, std::move(outcome));
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < UsableCpus().size(); ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    RETURN_IF_ERROR(CheckInterrupt());
    description_ = {{"timing", options_.timing},
                    {"sms", options.config.sm.count},
                    {"core_mhz", options.config.clock.core_mhz},
                    {"kdu", options.config.dispatch.grids},
                    {"link_mb_per_s", options.config.pcie.megabytes_per_second},
                    {"link_chunk_ns", options.config.pcie.chunk_ns},
                    {"call_us", options_.call_us},
                    {"store_us", options_.store_us}};
    return absl::OkStatus();
  }

  absl::Status RunOnCores() {
    ASSIGN_OR_RETURN(const auto testbed,
                     LaunchTestbed::Start({.gpud = run_.session.gpud,
                                           .backend = "cpu",
                                           .realtime = run_.session.realtime}));
    const Json& about = testbed->device().about();
    description_ = {{"description", about["description"]},
                    {"threads", UsableCpus().size()}};
    uint64_t most = 0;
    for (const auto& [key, workload] : workloads_) {
      most = std::max(most, workload.bytes());
    }
    const uint64_t room = std::min(2 * most + (8 << 20), kAperture);
    auto device = edge::Device::Attach({.testbed_directory = testbed->testbed(),
                                        .name = "spawner",
                                        .kind = "bench",
                                        .submission_bytes = room,
                                        .completion_bytes = room});
    if (!device.ok()) return testbed->WithLog(device.status());
    for (const std::string& name : names_) {
      RETURN_IF_ERROR(RunWorkload(device->get(), name));
    }
    return absl::OkStatus();
  }
  absl::Status RunWorkload(edge::Device* device, const std::string& name) {
    const NarrowWorkload& workload = WorkloadOf(name, 0);
    std::vector<Cell*> cells;
    for (Cell& cell : cells_) {
      if (cell.workload == name) cells.push_back(&cell);
    }
    if (cells.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto events, NarrowEvents::Open(device, &workload));
    for (size_t round = 0; round < run_.session.rounds; ++round) {
      for (const size_t i : RoundOrder(cells.size(), round)) {
        RETURN_IF_ERROR(CheckInterrupt());
        Cell& cell = *cells[i];
        if (!cell.refused.empty() || !cell.failed.ok()) continue;
        const auto path = std::ranges::find_if(
            kCoresPaths,
            [&](const CoresPath& one) { return one.name == cell.path; });
        auto outcome =
            path->launch_path == nullptr
                ? RunByThreads(workload,
                               static_cast<uint32_t>(UsableCpus().size()))
                : events->Run(path->launch_path, path->batches ? batch() : 0,
                              CheckInterrupt);
        if (absl::IsCancelled(outcome.status())) return outcome.status();
        Add(cell, round, std::move(outcome));
      }
    }
    return absl::OkStatus();
  }

  const Cell* Find(std::string_view part, std::string_view workload,
                   std::string_view path, uint32_t threads = 0) const {
    for (const Cell& cell : cells_) {
      if (cell.part == part && cell.workload == workload && cell.path == path &&
          cell.threads == threads && !cell.rounds.empty()) {
        return &cell;
      }
    }
    return nullptr;
  }
  // Of tasks a second; no runs if one of them was not measured.
  Range Ratio(const Cell* of, const Cell* to) const {
    if (of == nullptr || to == nullptr) return {};
    return bench::RangeOf(
        PairRatios(ValuesOf(*of, &NarrowSummary::tasks_per_second),
                   ValuesOf(*to, &NarrowSummary::tasks_per_second)));
  }

  Json ToJson(const Cell& cell) const {
    Json json = {{"part", cell.part},
                 {"workload", cell.workload},
                 {"path", cell.path},
                 {"tasks", cell.tasks}};
    if (cell.threads != 0) json["threads"] = cell.threads;
    if (!cell.refused.empty()) {
      json["status"] = "refused";
      json["reason"] = cell.refused;
      return json;
    }
    if (!cell.failed.ok()) {
      json["status"] = "failed";
      json["reason"] = std::string(cell.failed.message());
      return json;
    }
    json["status"] = "measured";
    json["tasks_per_second"] =
        RangeToJson(RangeOf(cell, &NarrowSummary::tasks_per_second, 1));
    json["total_us"] =
        RangeToJson(RangeOf(cell, &NarrowSummary::total_ns, 1e-3));
    json["response_mean_us"] =
        RangeToJson(RangeOf(cell, &NarrowSummary::mean_ns, 1e-3));
    json["response_p99_us"] =
        RangeToJson(RangeOf(cell, &NarrowSummary::p99_ns, 1e-3));
    const Range ratio =
        Ratio(&cell, Find(cell.part, cell.workload, kBaseline, cell.threads));
    if (ratio.runs != 0) json["over_baseline"] = RangeToJson(ratio);
    if (simulated_) {
      json["launches"] = cell.last.launches;
      json["warp_instructions"] = cell.last.warp_instructions;
      json["simulated_in_s"] = cell.last.wall_seconds;
    }
    return json;
  }

  // Over all workloads that both were measured with.
  Range Geomean(std::string_view part, std::string_view of,
                std::string_view to) const {
    double sum = 0;
    size_t count = 0;
    for (const std::string& name : names_) {
      const Range ratio = Ratio(Find(part, name, of), Find(part, name, to));
      if (ratio.runs == 0) continue;
      sum += std::log(ratio.median);
      ++count;
    }
    if (count == 0) return {};
    const double mean = std::exp(sum / static_cast<double>(count));
    return {.runs = 1, .median = mean, .low = mean, .high = mean};
  }

  BenchResult MakeResult() const {
    BenchResult result;
    Json cells = Json::array();
    for (const Cell& cell : cells_) {
      cells.push_back(ToJson(cell));
      if (cell.failed.ok()) continue;
      // A wrong result is the worst.
      if (result.status.ok() || absl::IsDataLoss(cell.failed)) {
        result.status = cell.failed;
      }
    }
    result.extra = {{"backend", simulated_ ? "sim" : "cpu"},
                    {"conditions", description_},
                    {"batch", batch()},
                    {"seed", kSeed},
                    {"paths", paths_},
                    {"workloads", names_},
                    {"cells", std::move(cells)}};
    for (const char* const part : {"tasks", "copies"}) {
      const std::string with =
          part == std::string_view("copies") ? " with copies" : "";
      const std::string suffix = with.empty() ? "" : "_with_copies";
      for (const std::string& path : paths_) {
        if (path == kBaseline) continue;
        const Range mean = Geomean(part, path, kBaseline);
        if (mean.runs == 0) continue;
        Figure figure{
            .name = fmt::format("geomean_{}_over_baseline{}", path, suffix),
            .what = fmt::format("{} over the baseline{}, tasks/s, geomean",
                                path, with),
            .unit = "x",
            .value = mean};
        // Pagoda's Fig. 6.
        if (simulated_ && path == "pagoda" && !with.empty()) {
          figure.wish = Figure::Wish::kAtLeast;
          figure.target = 1.76;
        }
        result.figures.push_back(std::move(figure));
      }
      const Range batching = Geomean(part, "pagoda", "pagoda_batches");
      if (batching.runs == 0) continue;
      Figure figure{.name = "geomean_pagoda_over_pagoda_batches" + suffix,
                    .what = "what batches cost Pagoda" + with,
                    .unit = "x",
                    .value = batching};
      // Fig. 10 has 1.29.
      if (simulated_) {
        figure.wish = Figure::Wish::kAtLeast;
        figure.target = 1.2;
      }
      result.figures.push_back(std::move(figure));
    }
    result.extra_table = Tables();
    return result;
  }

  std::string Tables() const {
    std::string text;
    for (const std::string& part : NarrowParts()) {
      cli::Table table({"workload", "path", ">threads", ">tasks", ">tasks/s",
                        ">mean us", ">p99 us", ">over baseline"});
      std::string notes;
      for (const Cell& cell : cells_) {
        if (cell.part != part) continue;
        if (cell.rounds.empty()) {
          notes += fmt::format("{} on {}: {}\n", cell.workload, cell.path,
                               cell.refused.empty()
                                   ? std::string(cell.failed.message())
                                   : cell.refused);
          continue;
        }
        const auto median = [&](double NarrowSummary::*field, double scale) {
          return Short(RangeOf(cell, field, scale).median);
        };
        const Range ratio = Ratio(
            &cell, Find(cell.part, cell.workload, kBaseline, cell.threads));
        table.AddRow(
            cell.workload, cell.path,
            cell.threads == 0 ? "" : std::to_string(cell.threads), cell.tasks,
            median(&NarrowSummary::tasks_per_second, 1),
            median(&NarrowSummary::mean_ns, 1e-3),
            median(&NarrowSummary::p99_ns, 1e-3),
            ratio.runs == 0 ? "-" : fmt::format("{:.2f}x", ratio.median));
      }
      if (table.empty() && notes.empty()) continue;
      text += fmt::format("{}\n{}{}\n", part, table.ToString(false), notes);
    }
    return text;
  }

  const BenchRun& run_;
  const NarrowOptions& options_;
  const bool simulated_;
  std::vector<std::string> all_paths_;
  std::vector<std::string> paths_;
  std::vector<std::string> names_;
  // By name and threads.
  std::map<std::pair<std::string, uint32_t>, NarrowWorkload> workloads_;
  std::vector<Cell> cells_;
  Json description_;
};

}  // namespace

const std::vector<std::string>& NarrowParts() {
  static const auto* const parts =
      new std::vector<std::string>{"tasks", "copies", "threads"};
  return *parts;
}

absl::StatusOr<BenchResult> RunNarrow(const BenchRun& run,
                                      const NarrowOptions& options) {
  return NarrowRun(run, options).Run();
}

}  // namespace carillon::bench
