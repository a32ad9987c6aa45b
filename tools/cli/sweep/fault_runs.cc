#include "tools/cli/sweep/fault_runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/read_file.h"
#include "base/results/content_hash.h"
#include "base/results/whole_file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/supervisor/launch_plan.h"

namespace carillon::cli {
namespace {

constexpr uint64_t kMostSeeds = 1'000'000;

// Of this program and of those that a testbed is made of.
std::string ProgramsHash() {
  std::string hashes = OwnProgramHash();
  for (const char* const program :
       {"gpu_daemon/gpud", "devices/nic/nic", "devices/fpga/fpga",
        "devices/cpu_host/cpu_host", "devices/router/router",
        "devices/link/linkd"}) {
    const auto path = testbed::FindCarillonProgram(program);
    if (path.ok()) hashes += fmt::format("{:016x}", HashOfFile(*path));
  }
  return hashes;
}

// What `carillon fault run -o json` says of its one plan.
absl::StatusOr<Json> PlanIn(std::string_view text, const std::string& source) {
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document["plans"].is_array() &&
      document["plans"].size() == 1 && document["plans"][0].is_object()) {
    Json& plan = document["plans"][0];
    if (plan["verdict"].is_string() && plan["replay"].is_string()) {
      return std::move(plan);
    }
  }
  return absl::InternalError(
      fmt::format("{} is no document of a fault plan", source));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FaultRuns>> FaultRuns::Make(
    const FaultChoice& choice, const std::string& directory) {
  if (choice.first_seed > choice.last_seed ||
      choice.last_seed - choice.first_seed >= kMostSeeds) {
    return absl::InvalidArgumentError(fmt::format(
        "seeds {}-{}: the first must not be above the last, and {} "
        "is the most",
        choice.first_seed, choice.last_seed, FormatPlural(kMostSeeds, "seed")));
  }
  const std::string programs = ProgramsHash();
  std::vector<Plan> plans;
  std::set<std::string> names;
  for (const std::string& file : choice.plans) {
    ASSIGN_OR_RETURN(const auto plan, fault::LoadPlan(file));
    if (!plan.topology) {
      return absl::InvalidArgumentError(fmt::format(
          "plan {} ({}) has no topology: a sweep's runs each need a "
          "testbed of their own",
          plan.name, file));
    }
    if (!names.insert(plan.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("two plans have the name {}", plan.name));
    }
    ASSIGN_OR_RETURN(auto text, ReadFile(file, "fault plan"));
    if (!plan.topology_file.empty()) {
      const auto topology =
          std::filesystem::path(file).parent_path() / plan.topology_file;
      ASSIGN_OR_RETURN(const auto more,
                       ReadFile(topology.string(), "topology"));
      text += more;
    }
    plans.push_back({.file = file,
                     .name = plan.name,
                     .hash = ContentHash(text + programs)});
  }
  return std::unique_ptr<FaultRuns>(
      new FaultRuns(std::move(plans), choice, directory));
}

FaultRuns::FaultRuns(std::vector<Plan> plans, const FaultChoice& choice,
                     const std::string& directory)
    : plans_(std::move(plans)),
      first_seed_(choice.first_seed),
      seeds_(choice.last_seed - choice.first_seed + 1),
      folder_(RunsFolder(directory)) {}

std::string FaultRuns::TitleOf(size_t run) const {
  return fmt::format("{}, seed {}", PlanAt(run).name, SeedOf(run));
}

std::string FaultRuns::NameOf(size_t run) const {
  return fmt::format("{}-{}-{:016x}.json", PlanAt(run).name, SeedOf(run),
                     PlanAt(run).hash);
}

std::string FaultRuns::PathOf(size_t run) const {
  return folder_ + "/" + NameOf(run);
}

bool FaultRuns::HasResult(size_t run) const {
  return access(PathOf(run).c_str(), R_OK) == 0;
}

absl::StatusOr<Json> FaultRuns::ResultOf(size_t run) const {
  ASSIGN_OR_RETURN(const auto text, ReadFile(PathOf(run), "result"));
  return PlanIn(text, PathOf(run));
}

absl::Status FaultRuns::Run(size_t run) {
  ASSIGN_OR_RETURN(auto pipe, MakePipe());
  // Other workers on this machine run plans of the same names.
  ASSIGN_OR_RETURN(
      auto process,
      Subprocess::Start(
          {.argv = {OwnProgram(), "fault", "run", PlanAt(run).file, "--seed",
                    fmt::format("{}", SeedOf(run)), "--name",
                    fmt::format("sweep-{}", getpid()), "-o", "json"},
           .out = pipe.writer.get()}));
  pipe.writer.reset();
  std::string text;
  std::array<char, 4096> bytes;
  for (ssize_t n;
       (n = read(pipe.reader.get(), bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(n));
  }
  const ExitReport report = process.Reap();
  if (report.ShellCode() != static_cast<int>(ExitCode::kOk) &&
      report.ShellCode() != static_cast<int>(ExitCode::kViolated)) {
    return absl::UnavailableError(
        fmt::format("carillon fault run {} --seed {}: {}", PlanAt(run).file,
                    SeedOf(run), report.ToString()));
  }
  RETURN_IF_ERROR(PlanIn(text, "what it printed").status());
  return MakeFile(PathOf(run), text).status();
}

}  // namespace carillon::cli
