#include "tools/bench/narrow/cell_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/status.h"

namespace carillon::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr std::string_view kIrregularPart = "irregular";
constexpr uint32_t kQuickTasks = 4;
constexpr uint32_t kQuickBatch = 2;
// Of a task of MM and of CONV (Fig. 11), as far as an MTB's 31 executors go, and
// what no MTB holds.
constexpr uint32_t kThreads[] = {32, 64, 128, 256, 512, 992, 1024};
constexpr uint32_t kMostMtbThreads = 992;
// Pagoda's Figs. 8 and 9 compare these, Fig. 11 those that fuse nothing.
constexpr std::string_view kComparedPaths[] = {
    "baseline", "pagoda", "pagoda_ring", kFusion, "batches"};
constexpr std::string_view kComparedOnCuda[] = {kHyperQ, "edge", "pagoda",
                                                "pagoda_ring", kFusion};

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Why a back-end lacks a path that another one has; empty: no path has that name.
std::string WhyNot(std::string_view name, std::string_view backend) {
  const auto path = std::ranges::find(kNarrowPaths, name, &NarrowPath::name);
  if (path == std::end(kNarrowPaths)) return {};
  if (backend == "sim") {
    if (name == "graph") return "CUDA graphs are the cuda back-end's";
    if (name == kHyperQ) return "HyperQ is path baseline there";
    return "a CPU's time beside simulated time says nothing";
  }
  if (name == "pagoda_copy") {
    return backend == "cuda"
               ? "path pagoda itself copies entries there"
               : "a gpud's spawner writes entries by stores: nothing is copied";
  }
  if (backend == "cpu") {
    if (name == kFusion) return "gpud's kernels have no fused form";
    if (name == kHyperQ) return "streams are the cuda back-end's";
    if (name == "graph") return "CUDA graphs are the cuda back-end's";
  }
  return fmt::format("this gpud has no launch path {}", path->launch_path);
}

absl::Status CheckOnce(std::string_view flag, std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} names {} twice", flag, *twice));
}

// Microseconds, and what only a simulated GPU takes.
absl::Status CheckTimes(const NarrowOptions& options) {
  // As "nan", which no range rules out.
  for (const double us : {options.call_us, options.store_us,
                          options.empty_update_us, options.copy_back_us}) {
    if (!std::isnan(us)) continue;
    return absl::InvalidArgumentError(
        "--call-us, --store-us, --empty-update-us and --copy-back-us are "
        "numbers of microseconds");
  }
  if (options.backend == "sim") return absl::OkStatus();
  const NarrowOptions defaults;
  for (const auto& [flag, given] :
       {std::pair("--timing", options.timing != defaults.timing),
        {"--call-us", options.call_us != defaults.call_us},
        {"--store-us", options.store_us != defaults.store_us},
        {"--empty-update-us",
         options.empty_update_us != defaults.empty_update_us},
        {"--copy-back-us", options.copy_back_us != defaults.copy_back_us}}) {
    if (!given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: it goes with --backend sim: elsewhere time is the machine's",
        flag));
  }
  return absl::OkStatus();
}

kernels::NarrowSizes SizesOf(std::string_view part) {
  return part == kIrregularPart ? kernels::NarrowSizes::kIrregular
                                : kernels::NarrowSizes::kPagoda;
}

}  // namespace

CellPlan::Key CellPlan::KeyOf(const NarrowCell& cell) {
  return {cell.workload, cell.threads, SizesOf(cell.part)};
}

absl::Status CellPlan::CheckOptions() {
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
  report_.workloads =
      options_.workloads.empty() ? NarrowWorkload::Names() : options_.workloads;
  for (const std::string& name : report_.workloads) {
    RETURN_IF_ERROR(NarrowWorkload::CheckName(name));
  }
  RETURN_IF_ERROR(CheckOnce("--workloads", options_.workloads));
  RETURN_IF_ERROR(CheckOnce("--paths", options_.paths));
  return CheckTimes(options_);
}

bool CellPlan::Wants(std::string_view part) const {
  return options_.parts.empty() || Contains(options_.parts, part);
}

// Memory of CPU cores is one: nothing is copied there.
bool CellPlan::HasPart(std::string_view part) const {
  return part == "tasks" || simulated() || cuda();
}

absl::Status CellPlan::ChoosePaths(std::vector<std::string> all) {
  for (const std::string& path : options_.paths) {
    if (Contains(all, path)) continue;
    const std::string why = WhyNot(path, report_.backend);
    return absl::NotFoundError(fmt::format(
        "--backend {} has no path '{}': {}", report_.backend, path,
        why.empty() ? fmt::format("it has {}", fmt::join(all, ", ")) : why));
  }
  report_.base = cuda() ? kHyperQ : "baseline";
  if (!options_.paths.empty()) {
    report_.paths = options_.paths;
    return absl::OkStatus();
  }
  for (const NarrowPath& path : kNarrowPaths) {
    if (Contains(all, path.name)) continue;
    report_.left_out.push_back(
        {std::string(path.name), WhyNot(path.name, report_.backend)});
  }
  report_.paths = std::move(all);
  return absl::OkStatus();
}

// What copies nothing is not compared with what does.
std::vector<std::string> CellPlan::PathsOf(std::string_view part) const {
  std::vector<std::string> paths = report_.paths;
  if (part == "copies") std::erase(paths, kThreadsPath);
  return paths;
}

// As far as they were chosen.
std::vector<std::string> CellPlan::Compared(bool with_fusion) const {
  std::vector<std::string> paths;
  std::span<const std::string_view> compared = kComparedPaths;
  if (cuda()) compared = kComparedOnCuda;
  for (const std::string_view path : compared) {
    if (!with_fusion && (path == kFusion || path == "batches")) continue;
    if (Contains(report_.paths, path)) paths.emplace_back(path);
  }
  return paths;
}

absl::Status CellPlan::AddWorkload(std::string_view part,
                                   const std::string& name, uint32_t threads) {
  const uint32_t tasks =
      run_.quick ? std::min(options_.tasks, kQuickTasks) : options_.tasks;
  ASSIGN_OR_RETURN(auto workload, NarrowWorkload::Make(name, tasks, kSeed,
                                                       threads, SizesOf(part)));
  workloads_.emplace(Key(name, threads, SizesOf(part)), std::move(workload));
  return absl::OkStatus();
}

void CellPlan::AddCells(std::string_view part, const std::string& workload,
                        const std::vector<std::string>& paths,
                        uint32_t threads) {
  for (const std::string& path : paths) {
    NarrowCell cell{.part = std::string(part),
                    .workload = workload,
                    .path = path,
                    .threads = threads};
    cell.tasks = WorkloadOf(cell).tasks().size();
    report_.cells.push_back(std::move(cell));
  }
}

absl::Status CellPlan::MakeCells(std::vector<std::string> paths) {
  RETURN_IF_ERROR(ChoosePaths(std::move(paths)));
  for (const std::string& name : report_.workloads) {
    RETURN_IF_ERROR(AddWorkload("tasks", name));
    if (Wants(kIrregularPart) && HasPart(kIrregularPart)) {
      RETURN_IF_ERROR(AddWorkload(kIrregularPart, name));
      AddCells(kIrregularPart, name, Compared(/*with_fusion=*/true));
    }
    for (const char* const part : {"tasks", "copies"}) {
      if (!Wants(part) || !HasPart(part)) continue;
      AddCells(part, name, PathsOf(part));
    }
  }
  if (cuda() && Wants("copies") &&
      PathsOf("copies").size() != report_.paths.size()) {
    report_.left_out.push_back(
        {std::string(kThreadsPath), "it copies nothing", "copies"});
  }
  if (Wants("threads") && HasPart("threads")) RETURN_IF_ERROR(AddThreads());
  if (!report_.cells.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "nothing is left to measure: the cpu back-end has part tasks alone; "
      "path threads is of part tasks; part threads is of mm and conv; it and "
      "part irregular compare baseline, pagoda, pagoda_ring, fusion and "
      "batches on sim, and hyperq, edge, pagoda, pagoda_ring and fusion on "
      "cuda");
}

absl::Status CellPlan::AddThreads() {
  const std::vector<std::string> paths = Compared(/*with_fusion=*/false);
  for (const char* const name : {"mm", "conv"}) {
    if (!Contains(report_.workloads, name)) continue;
    for (const uint32_t threads : kThreads) {
      if (run_.quick && threads > kThreads[1] && threads <= kMostMtbThreads) {
        continue;
      }
      RETURN_IF_ERROR(AddWorkload("threads", name, threads));
      AddCells("threads", name, paths, threads);
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::bench
