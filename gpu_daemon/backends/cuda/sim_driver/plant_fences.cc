// Takes the fences out of a kernel of gpud's own or of an event kernel, one after
// another, and says which seed finds each.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/sim_driver/edge_world.h"
#include "gpu_daemon/backends/cuda/sim_driver/fences.h"
#include "gpu_daemon/backends/cuda/sim_driver/persistent_world.h"
#include "gpu_daemon/backends/cuda/sim_driver/stage_world.h"

namespace carillon::gpud::cuda {
namespace {

using Executed =
    std::function<void(const sim::Warp&, const sim::Op&, sim::LaneMask)>;

constexpr std::string_view kDispatcher = "carillon_edge_dispatcher";

// In the world that the kernel is for.
absl::Status RunSeed(WorldCode* code, const std::string& function,
                     uint64_t seed, Executed executed) {
  constexpr std::string_view kPersistent = "carillon_persistent_";
  if (function.starts_with(kPersistent)) {
    PersistentWorldConfig config =
        PersistentConfigOf(seed, !function.ends_with("fail_if"));
    config.executed = std::move(executed);
    return std::make_unique<PersistentWorld>(code, config)->Run();
  }
  if (function != kDispatcher) {
    StageWorldConfig config = StageConfigOf(seed);
    config.executed = std::move(executed);
    return std::make_unique<StageWorld>(code, config)->Run();
  }
  WorldConfig config = ConfigOf(seed);
  config.executed = std::move(executed);
  return EdgeWorld(code, config).Run();
}

// Operations of the function that no seed's world executes.
int PrintCoverage(const std::string& ptx, const std::string& function,
                  uint64_t seeds) {
  auto code = WorldCode::Load(ptx);
  if (!code.ok()) return fmt::print("{}\n", code.status().ToString()), 1;
  const sim::Program& program = (*code)->program();
  const sim::ProgramFunction* const entry = program.FindEntry(function);
  if (entry == nullptr) return fmt::print("no kernel {}\n", function), 1;
  std::vector<bool> executed(program.ops.size());
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const absl::Status status =
        RunSeed(code->get(), function, seed,
                [&](const sim::Warp&, const sim::Op& op, sim::LaneMask lanes) {
                  if (lanes != 0) executed[op.pc] = true;
                });
    if (!status.ok()) return fmt::print("{}\n", status.ToString()), 1;
  }
  auto owners = OwnersOf(ptx, function);
  std::map<std::string, std::string> lines;
  uint64_t missing = 0;
  for (sim::Pc pc = entry->entry; pc < entry->end; ++pc) {
    if (executed[pc]) continue;
    ++missing;
    const uint32_t line = program.info[pc].at.line;
    lines[owners[line]] += fmt::format(" {}", line);
  }
  for (const auto& [owner, which] : lines) fmt::print("{}:{}\n", owner, which);
  fmt::print("{} of {} operations executed\n",
             entry->end - entry->entry - missing, entry->end - entry->entry);
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app{"Takes the fences out of a kernel's PTX, one by one"};
  std::string function(kDispatcher);
  std::string only;
  uint64_t seeds = 200;
  bool coverage = false;
  bool list = false;
  app.add_option("--function", function,
                 "Whose fences: the dispatcher, carillon_persistent_echo or "
                 "_fail_if, carillon_stage_entry, or carillon_event_echo, "
                 "_fail_if or _matmul");
  app.add_option("--only", only, "Those whose names have this");
  app.add_option("--seeds", seeds, "Tried for each");
  app.add_flag("--list", list, "Take nothing out: print the names");
  app.add_flag("--coverage", coverage,
               "Take nothing out: print the lines that no seed executes");
  CLI11_PARSE(app, argc, argv);
  const auto ptx = PtxOfFatbin(CudaModule().data());
  if (!ptx.ok()) return fmt::print("{}\n", ptx.status().ToString()), 1;
  if (coverage) return PrintCoverage(*ptx, function, seeds);
  for (const FenceSite& site : FindFences(*ptx, function)) {
    if (site.name.find(only) == std::string::npos) continue;
    if (list) {
      fmt::print("{}\n", site.name);
      continue;
    }
    auto code = WorldCode::Load(Weaken(*ptx, site));
    if (!code.ok()) return fmt::print("{}\n", code.status().ToString()), 1;
    std::string found = "never";
    for (uint64_t seed = 0; seed < seeds && found == "never"; ++seed) {
      const absl::Status status = RunSeed(code->get(), function, seed, nullptr);
      if (!status.ok()) found = std::string(status.message());
    }
    fmt::print("{} | {} | {}\n", site.name, site.lines.size(), found);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace carillon::gpud::cuda

int main(int argc, char** argv) {
  return carillon::gpud::cuda::Main(argc, argv);
}
