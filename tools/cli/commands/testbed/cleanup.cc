#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/ui/failures.h"
#include "tools/testbed/fault_plans/kept_plans.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

Json ToJson(const testbed::Leftovers& leftovers) {
  Json processes = Json::array();
  for (const testbed::ProcessIdentity& process : leftovers.processes) {
    processes.push_back(process.pid);
  }
  return {{"testbed", leftovers.name},
          {"directory", leftovers.directory},
          {"pids", std::move(processes)},
          {"files", leftovers.files}};
}

absl::Status Clean(bool dry_run, Console& console) {
  ASSIGN_OR_RETURN(const auto testbeds, testbed::ListTestbeds());
  Json removed = Json::array();
  Failures failures;
  bool found = false;
  for (const testbed::Testbed& testbed : testbeds) {
    if (testbed.supervisor) continue;
    const testbed::Leftovers leftovers = testbed::LeftoversOf(testbed);
    found = true;
    console.Say(fmt::format("{} '{}': {} processes, {} files in {}",
                            dry_run ? "would remove" : "removing",
                            leftovers.name, leftovers.processes.size(),
                            leftovers.files.size(), leftovers.directory));
    const absl::Status status =
        dry_run ? absl::OkStatus() : testbed::ClearDead(testbed);
    if (status.ok()) removed.push_back(ToJson(leftovers));
    failures.Add(testbed.name, status);
  }
  const std::vector<std::string> plans = fault::KeptPlans();
  if (!plans.empty()) {
    found = true;
    console.Say(fmt::format(
        "{} what {} kept in {}", dry_run ? "would remove" : "removing",
        plans.size() == 1 ? "a failed plan has"
                          : fmt::format("{} failed plans have", plans.size()),
        fault::KeptPlansDirectory()));
    if (!dry_run) failures.Add("failed-plans", fault::TrimKeptPlans(0));
  }
  if (!dry_run) {
    for (const std::string& folder : testbed::RemoveEmptyFolders("")) {
      found = true;
      console.Say(fmt::format("removed the empty folder of '{}'", folder));
    }
  }
  failures.Say(console);
  if (console.json()) {
    Json document = {{"dry_run", dry_run},
                     {"removed", std::move(removed)},
                     {"failed_plans", plans}};
    failures.AddTo(document);
    console.PrintDocument(document);
  } else if (!found) {
    console.Say("dead testbeds have left nothing");
  }
  return failures.Status();
}

}  // namespace

Run MakeCleanup(Arguments& arguments, Console& console) {
  auto dry_run = std::make_shared<bool>(false);
  arguments.Flag("--dry-run", *dry_run, "Only say what would go");
  return [dry_run, &console] { return Clean(*dry_run, console); };
}

}  // namespace carillon::cli
