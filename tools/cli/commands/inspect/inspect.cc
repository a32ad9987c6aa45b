#include "tools/cli/commands/inspect/inspect.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {

std::function<absl::StatusOr<OpenTestbed>()> AddTestbedOption(
    Arguments& arguments) {
  auto option = std::make_shared<TestbedOption>(
      arguments, "Instead: the directory of a gpud that was started by hand");
  return [option]() -> absl::StatusOr<OpenTestbed> {
    ASSIGN_OR_RETURN(auto chosen, option->Choose(testbed::ChooseTestbed));
    OpenTestbed open{.testbed = std::move(chosen.testbed), .client = {}};
    open.client =
        chosen.gpud
            ? std::make_unique<testbed::AdminClient>(*std::move(chosen.gpud))
            : std::make_unique<testbed::AdminClient>(open.testbed.paths);
    return open;
  };
}

Run MakeInspection(
    Arguments& arguments, Console& console,
    std::function<absl::Status(OpenTestbed& open, Console& console)> show) {
  return [open_testbed = AddTestbedOption(arguments), show = std::move(show),
          &console]() -> absl::Status {
    ASSIGN_OR_RETURN(auto open, open_testbed());
    return show(open, console);
  };
}

std::string FormatDim3(const v1::Dim3& dim) {
  if (dim.z() != 1) return fmt::format("{}x{}x{}", dim.x(), dim.y(), dim.z());
  if (dim.y() != 1) return fmt::format("{}x{}", dim.x(), dim.y());
  return fmt::format("{}", dim.x());
}

std::string WithLabel(const std::string& kernel, const std::string& label) {
  return label.empty() ? kernel
                       : fmt::format("{} ({})", kernel, ForTerminal(label));
}

}  // namespace carillon::cli
