#include "tools/cli/commands/inspect/inspect.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "base/status.h"
#include "tools/testbed/supervisor/directory.h"

namespace carillon::cli {

TestbedOption::TestbedOption(Arguments& arguments) {
  AddNameOption(arguments, name_);
  arguments
      .Text("--dir", directory_,
            "Instead: the directory of a gpud that was started by hand")
      .Placeholder("DIR")
      .Excludes("--name");
  gpud_.emplace(arguments);
}

absl::StatusOr<OpenTestbed> TestbedOption::Open() const {
  OpenTestbed open{.testbed = {"", TestbedPaths(directory_), {}}};
  if (gpud_->given()) {
    ASSIGN_OR_RETURN(auto gpud, gpud_->Read());
    open.client = std::make_unique<testbed::AdminClient>(std::move(gpud));
    return open;
  }
  RETURN_IF_ERROR(gpud_->CheckUnused());
  if (directory_.empty()) {
    ASSIGN_OR_RETURN(testbed::Testbed testbed, testbed::ChooseTestbed(name_));
    open.testbed = std::move(testbed);
  } else
    RETURN_IF_ERROR(testbed::CheckDirectoryOwner(directory_));
  open.client = std::make_unique<testbed::AdminClient>(open.testbed.paths);
  return open;
}

Run MakeInspection(Arguments& arguments, Console& console,
                   std::function<absl::Status(OpenTestbed&)> show) {
  auto option = std::make_shared<TestbedOption>(arguments);
  AddOutputOption(arguments, console);
  return [option, show = std::move(show)]() -> absl::Status {
    ASSIGN_OR_RETURN(auto open, option->Open());
    return show(open);
  };
}

std::string FormatDim3(const v1::Dim3& dim) {
  if (dim.z() != 1) return fmt::format("{}x{}x{}", dim.x(), dim.y(), dim.z());
  if (dim.y() != 1) return fmt::format("{}x{}", dim.x(), dim.y());
  return fmt::format("{}", dim.x());
}

}  // namespace carillon::cli
