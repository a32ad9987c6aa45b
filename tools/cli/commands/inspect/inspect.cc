#include "tools/cli/commands/inspect/inspect.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

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
    auto gpud = gpud_->Read();
    if (!gpud.ok()) return gpud.status();
    open.client = std::make_unique<testbed::AdminClient>(*std::move(gpud));
    return open;
  }
  if (absl::Status status = gpud_->CheckUnused(); !status.ok()) return status;
  if (directory_.empty()) {
    absl::StatusOr<testbed::Testbed> testbed = testbed::ChooseTestbed(name_);
    if (!testbed.ok()) return testbed.status();
    open.testbed = *std::move(testbed);
  } else if (absl::Status status = testbed::CheckDirectoryOwner(directory_);
             !status.ok()) {
    return status;
  }
  open.client = std::make_unique<testbed::AdminClient>(open.testbed.paths);
  return open;
}

Run MakeInspection(Arguments& arguments, Console& console,
                   std::function<absl::Status(OpenTestbed&)> show) {
  auto option = std::make_shared<TestbedOption>(arguments);
  AddOutputOption(arguments, console);
  return [option, show = std::move(show)]() -> absl::Status {
    auto open = option->Open();
    if (!open.ok()) return open.status();
    return show(*open);
  };
}

std::string FormatDim3(const v1::Dim3& dim) {
  if (dim.z() != 1) return fmt::format("{}x{}x{}", dim.x(), dim.y(), dim.z());
  if (dim.y() != 1) return fmt::format("{}x{}", dim.x(), dim.y());
  return fmt::format("{}", dim.x());
}

}  // namespace carillon::cli
