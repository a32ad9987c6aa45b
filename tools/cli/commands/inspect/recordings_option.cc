#include "tools/cli/commands/inspect/recordings_option.h"

#include <fmt/format.h>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/command.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

void AddRecordingsOption(Arguments& arguments, RecordingsOption& option) {
  AddNameOption(arguments, option.testbed);
  arguments
      .Text("--dir DIR", option.directory,
            "The directory of a testbed, or a copy of it")
      .Excludes("--name");
}

absl::StatusOr<testbed::Timeline> ReadRecordings(
    const RecordingsOption& option,
    testbed::Timeline (*read)(const std::string& testbed,
                              const TestbedPaths& paths)) {
  std::string name = option.directory;
  TestbedPaths paths(option.directory);
  if (option.directory.empty()) {
    ASSIGN_OR_RETURN(const auto testbed, testbed::FindTestbed(option.testbed));
    paths = testbed.paths;
    name = testbed.name;
  }
  testbed::Timeline timeline = read(name, paths);
  if (timeline.recordings.empty()) {
    return WithHint(
        absl::NotFoundError(fmt::format(
            "nothing was recorded in {}{}", paths.recorder_directory(),
            timeline.unreadable.empty()
                ? ""
                : "; unreadable: " + JoinWords(timeline.unreadable))),
        "record with `record: 4096` in the topology, or with CARILLON_RECORD "
        "in the environment of `carillon up`; `down` removes recordings");
  }
  return timeline;
}

}  // namespace carillon::cli
