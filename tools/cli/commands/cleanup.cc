#include <fmt/format.h>

#include <memory>

#include "tools/cli/commands.h"
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
  Json document = Json::array();
  absl::Status result = absl::OkStatus();
  for (const Testbed& testbed : *testbeds) {
    if (testbed.supervisor) continue;
    const Leftovers leftovers = LeftoversOf(testbed);
    document.push_back(ToJson(leftovers));
    console.Say(fmt::format("{} '{}': {} processes, {} files in {}",
                            dry_run ? "would remove" : "removing",
                            leftovers.name, leftovers.processes.size(),
                            leftovers.files.size(), leftovers.directory));
    if (dry_run) continue;
    if (absl::Status status = ClearDead(testbed); !status.ok()) {
      console.Say(fmt::format("  {}", std::string(status.message())));
      result = status;
    }
  }
  if (console.json()) {
    console.PrintDocument({{"dry_run", dry_run}, {"removed", document}});
  } else if (document.empty()) {
    console.Say("dead testbeds have left nothing");
  }
  return result;
}

}  // namespace

Run MakeCleanup(Arguments& arguments, Console& console) {
  auto dry_run = std::make_shared<bool>(false);
  arguments.Flag("--dry-run", *dry_run, "Only say what would go");
  AddOutputOption(arguments, console);
  return [dry_run, &console] { return Clean(*dry_run, console); };
}

}  // namespace carillon::cli
