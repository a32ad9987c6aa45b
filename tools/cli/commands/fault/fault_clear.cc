#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/fault/board_option.h"
#include "tools/cli/commands/fault/commands.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
namespace {

struct Options {
  std::vector<std::string> names;
  bool all = false;
};

// Either all names exist, or nothing is cleared.
absl::Status CheckNames(const std::vector<std::string>& names,
                        const std::vector<faults::Injected>& there) {
  for (const std::string& name : names) {
    std::vector<std::string_view> known;
    bool found = false;
    for (const faults::Injected& injected : there) {
      known.push_back(injected.fault.name);
      found |= injected.fault.name == name;
    }
    if (found) continue;
    return absl::NotFoundError(fmt::format(
        "there is no fault called {}{}", Quote(name),
        DidYouMean(name, known,
                   known.empty() ? "; the board is empty"
                                 : fmt::format("; there are {}",
                                               fmt::join(known, ", ")))));
  }
  return absl::OkStatus();
}

absl::Status Clear(const Options& options, const OpenBoard& open,
                   Console& console) {
  size_t cleared = 0;
  if (options.all) {
    ASSIGN_OR_RETURN(cleared, open.board->ClearAll());
  } else {
    const auto view = open.board->Look();
    // A user who may clear need not be allowed to look.
    absl::Status status = view.status();
    if (absl::IsPermissionDenied(status)) status = absl::OkStatus();
    if (view.ok()) status = CheckNames(options.names, view->faults);
    if (!status.ok()) return status;
  }
  for (const std::string& name : options.names) {
    RETURN_IF_ERROR(open.board->Clear(name));
    ++cleared;
  }
  if (console.json()) {
    console.PrintDocument(
        {{"testbed", open.testbed.name}, {"cleared", cleared}});
  } else {
    console.Say(fmt::format("{} cleared", FormatPlural(cleared, "fault")));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeFaultClear(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("fault FAULT...", options->names,
                  "By name; `carillon fault list`");
  arguments.Flag("--all", options->all, "All that are there").Excludes("fault");
  auto option = std::make_shared<BoardOption>(arguments);
  return [options, option, &console]() -> absl::Status {
    if (options->names.empty() && !options->all) {
      return WithHint(absl::InvalidArgumentError("which faults?"),
                      "carillon fault clear FAULT..., or --all");
    }
    ASSIGN_OR_RETURN(const auto open, option->Open());
    return Clear(*options, open, console);
  };
}

}  // namespace carillon::cli
