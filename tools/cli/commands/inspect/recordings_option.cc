#include "tools/cli/commands/inspect/recordings_option.h"

#include <fmt/format.h>

#include <utility>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "base/text.h"
#include "tools/cli/command.h"
#include "tools/testbed/ledger/joined_hosts.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

namespace {

absl::Status CheckRecorded(const testbed::Timeline& timeline,
                           const TestbedPaths& paths) {
  if (!timeline.recordings.empty()) return absl::OkStatus();
  return WithHint(
      absl::NotFoundError(fmt::format(
          "nothing was recorded in {}{}", paths.recorder_directory(),
          timeline.unreadable.empty()
              ? ""
              : "; unreadable: " + JoinWords(timeline.unreadable))),
      "record with `record: 4096` in the topology, or with CARILLON_RECORD "
      "in the environment of `carillon up`; `down` removes recordings");
}

absl::StatusOr<testbed::Timeline> ReadHosts(
    const std::vector<std::string>& directories) {
  std::vector<testbed::HostTimeline> hosts;
  for (const std::string& directory : directories) {
    ASSIGN_OR_RETURN(auto host, testbed::ReadHostTimeline(directory));
    RETURN_IF_ERROR(CheckRecorded(host.timeline, TestbedPaths(directory)));
    hosts.push_back(std::move(host));
  }
  return testbed::JoinHosts(std::move(hosts));
}

}  // namespace

void AddRecordingsOption(Arguments& arguments, RecordingsOption& option) {
  AddNameOption(arguments, option.testbed);
  arguments
      .Texts("--dir DIR", option.directories,
             "The directory of a testbed, or a copy of it; once for each host, "
             "if there are several (docs/mesh.md)")
      .OneAtATime()
      .Excludes("--name");
}

absl::StatusOr<testbed::Timeline> ReadRecordings(
    const RecordingsOption& option,
    testbed::Timeline (*read)(const std::string& testbed,
                              const TestbedPaths& paths)) {
  if (option.directories.size() > 1) return ReadHosts(option.directories);
  std::string name;
  TestbedPaths paths("");
  if (!option.directories.empty()) {
    name = option.directories[0];
    paths = TestbedPaths(name);
  } else {
    ASSIGN_OR_RETURN(const auto testbed, testbed::FindTestbed(option.testbed));
    paths = testbed.paths;
    name = testbed.name;
  }
  testbed::Timeline timeline = read(name, paths);
  RETURN_IF_ERROR(CheckRecorded(timeline, paths));
  return timeline;
}

}  // namespace carillon::cli
