#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/slurm/slurm.h"
#include "tools/cli/ui/failures.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/host_views.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string name;
  std::string file;
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

// Of all hosts, and of the Slurm job that runs them.
absl::Status DownEverywhere(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto topology, LoadMesh(options.file));
  ASSIGN_OR_RETURN(const auto etcd, testbed::OpenEtcd(topology));
  ASSIGN_OR_RETURN(const auto before, testbed::LookAtHosts(*etcd, topology));
  Json ended = Json::array();
  for (const testbed::HostView& host : before.hosts) {
    if (host.record) ended.push_back(host.name);
  }
  absl::Status status = testbed::EndHosts(
      *etcd, topology,
      std::chrono::seconds(static_cast<int64_t>(options.timeout_s)));
  if (!before.job.empty()) {
    // Also one that still waits for its nodes.
    const absl::Status cancelled = CancelJob(before.job);
    if (!cancelled.ok()) {
      console.Say(
          fmt::format("job {} may go on: {}", before.job, cancelled.message()));
    }
  }
  RETURN_IF_ERROR(status);
  console.Say(ended.empty() && before.job.empty()
                  ? fmt::format("no host of testbed '{}' is up", topology.name)
                  : fmt::format("testbed '{}' is down on {}", topology.name,
                                FormatPlural(ended.size(), "host")));
  if (console.json()) console.PrintDocument({{"ended", std::move(ended)}});
  return absl::OkStatus();
}

}  // namespace

Run MakeDown(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  AddNameOption(arguments, options->name);
  AddMeshOption(arguments, options->file);
  arguments.Flag("--all", options->all, "All testbeds of yours, dead ones too")
      .Excludes("--name")
      .Excludes("--file");
  arguments.Seconds("--timeout", options->timeout_s, 0, 3600,
                    "Until a testbed that does not end is killed");
  return [options, &console] {
    return options->file.empty() ? Down(*options, console)
                                 : DownEverywhere(*options, console);
  };
}

}  // namespace carillon::cli
