#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/commands/testbed/commands.h"

namespace carillon::cli {
namespace {

absl::Status Show(OpenTestbed& open, const std::string& wanted,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto status, open.client->GetStatus());
  std::string previous = status.policy();
  if (!wanted.empty()) {
    ASSIGN_OR_RETURN(previous, open.client->SetPolicy(wanted));
  }
  const std::string current = wanted.empty() ? previous : wanted;
  if (console.json()) {
    console.PrintDocument({{"policy", current}, {"previous", previous}});
  } else if (wanted.empty()) {
    console.Print(fmt::format("{}\n", current));
  } else {
    console.Say(fmt::format("policy {} instead of {}", current, previous));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakePolicy(Arguments& arguments, Console& console) {
  auto wanted = std::make_shared<std::string>();
  arguments.Text("policy POLICY", *wanted,
                 "Set this one: first_come or priority");
  return MakeInspection(arguments, console,
                        [wanted](OpenTestbed& open, Console& console) {
                          return Show(open, *wanted, console);
                        });
}

}  // namespace carillon::cli
