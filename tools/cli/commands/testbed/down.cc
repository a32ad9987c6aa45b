#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/ui/failures.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string name;
  bool all = false;
  // More than the supervisor gives its children.
  double timeout_s = 20;
};

// Idempotent: succeeds if there is nothing to end.
absl::Status Down(const Options& options, Console& console) {
  std::vector<testbed::Testbed> chosen;
  if (options.all) {
    ASSIGN_OR_RETURN(chosen, testbed::ListTestbeds());
  } else {
    auto testbed = testbed::FindTestbed(options.name);
    if (testbed.ok()) {
      chosen = {*std::move(testbed)};
    } else if (!absl::IsNotFound(testbed.status())) {
      return testbed.status();
    }
  }
  if (options.all || !options.name.empty()) {
    for (const std::string& folder :
         testbed::RemoveEmptyFolders(options.name)) {
      console.Say(fmt::format("removed the empty folder of '{}'", folder));
    }
  }
  Json ended = Json::array();
  Failures failures;
  for (const testbed::Testbed& testbed : chosen) {
    const absl::Status status = testbed::EndTestbed(
        testbed,
        std::chrono::milliseconds(
            static_cast<int64_t>(options.timeout_s * 1000)),
        [&](const std::string& line) { console.Say(line); });
    if (status.ok()) {
      console.Say(testbed.supervisor
                      ? fmt::format("testbed '{}' is down", testbed.name)
                      : fmt::format("testbed '{}' was dead; its remains are "
                                    "removed",
                                    testbed.name));
      ended.push_back(testbed.name);
    }
    failures.Add(testbed.name, status);
  }
  failures.Say(console);
  if (chosen.empty()) {
    console.Say(options.name.empty()
                    ? "no testbed is up"
                    : fmt::format("testbed '{}' is not up", options.name));
  }
  if (console.json()) {
    Json document = {{"ended", std::move(ended)}};
    failures.AddTo(document);
    console.PrintDocument(document);
  }
  return failures.Status();
}

}  // namespace

Run MakeDown(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  AddNameOption(arguments, options->name);
  arguments.Flag("--all", options->all, "All testbeds of yours, dead ones too")
      .Excludes("--name");
  arguments.Seconds("--timeout", options->timeout_s, 0, 3600,
                    "Until a testbed that does not end is killed");
  return [options, &console] { return Down(*options, console); };
}

}  // namespace carillon::cli
