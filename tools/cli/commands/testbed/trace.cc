#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/commands/testbed/commands.h"

namespace carillon::cli {
namespace {

// Shows whether tracing is on, after what was asked for.
absl::Status Steer(OpenTestbed& open, const std::string& what,
                   Console& console) {
  if (what == "reset") {
    RETURN_IF_ERROR(open.client->ResetStatistics());
  } else if (!what.empty()) {
    RETURN_IF_ERROR(open.client->SetTracing(what == "on"));
  }
  ASSIGN_OR_RETURN(const auto now, open.client->GetStatus());
  if (console.json()) {
    console.PrintDocument({{"tracing", now.tracing()}});
  } else if (what.empty()) {
    console.Print(now.tracing() ? "on\n" : "off\n");
  } else if (what == "reset") {
    console.Say("latencies start from zero");
  } else {
    console.Say(fmt::format("tracing is {}", now.tracing() ? "on" : "off"));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeTrace(Arguments& arguments, Console& console) {
  auto what = std::make_shared<std::string>();
  arguments.Choice("state STATE", *what, {"on", "off", "reset"},
                   "on, off, or reset: forget the latencies so far");
  return MakeInspection(arguments, console,
                        [what](OpenTestbed& open, Console& console) {
                          return Steer(open, *what, console);
                        });
}

}  // namespace carillon::cli
