#include <fmt/format.h>

#include <memory>

#include "tools/cli/commands.h"
#include "tools/cli/commands/failures.h"
#include "tools/cli/testbed/testbeds.h"
#include "tools/cli/ui/text.h"

namespace carillon::cli {
namespace {

Json ToJson(const Leftovers& leftovers) {
  Json processes = Json::array();
  for (const ProcessIdentity& process : leftovers.processes) {
    processes.push_back(process.pid);
  }
  return {{"testbed", leftovers.name},
          {"directory", leftovers.directory},
          {"pids", std::move(processes)},
          {"files", leftovers.files}};
}

absl::Status Clean(bool dry_run, Console& console) {
  const auto testbeds = ListTestbeds();
  if (!testbeds.ok()) return testbeds.status();
  Json removed = Json::array();
  Failures failures;
  bool found = false;
  for (const Testbed& testbed : *testbeds) {
    if (testbed.supervisor) continue;
    const Leftovers leftovers = LeftoversOf(testbed);
    found = true;
    console.Say(fmt::format("{} '{}': {} processes, {} files in {}",
                            dry_run ? "would remove" : "removing",
                            leftovers.name, leftovers.processes.size(),
                            leftovers.files.size(), leftovers.directory));
    const absl::Status status = dry_run ? absl::OkStatus() : ClearDead(testbed);
    if (status.ok()) removed.push_back(ToJson(leftovers));
    failures.Add(testbed.name, status);
  }
  failures.Say(console);
  if (console.json()) {
    Json document = {{"dry_run", dry_run}, {"removed", std::move(removed)}};
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
  AddOutputOption(arguments, console);
  return [dry_run, &console] { return Clean(*dry_run, console); };
}

}  // namespace carillon::cli
