#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/testing/bazel.h"
#include "tools/cli/testing/test_results.h"

namespace carillon::cli {
namespace {

struct Options {
  bool quick = false;
  bool mutations = false;
  std::vector<std::string> bazel_arguments;
};

struct Configuration {
  const char* name;  // of --config; empty: none
  std::vector<std::string> flags;
  std::vector<std::string> targets;
};

// Sanitizers see the units: whole testbeds of real processes are too slow
// under them.
std::vector<Configuration> Configurations(bool quick) {
  const std::vector<std::string> all = {"//..."};
  const std::vector<std::string> units = {"//...", "-//integration_tests/..."};
  // What reads bytes of others, and what that is made of. The CLI's commands
  // and its tests of them are tagged no-sanitizer.
  const std::vector<std::string> exposed = {"//...", "-//integration_tests/...",
                                            "-//tools/bench/...",
                                            "-//tools/gpu_check/..."};
  // Where our own threads share memory. Debian's gRPC is not instrumented: TSan
  // reports races in whatever is linked with it.
  const std::vector<std::string> threads = {"//shm/...",
                                            "//gpu_daemon/dispatch/...",
                                            "//gpu_daemon/dispatch/...",
                                            "//gpu_daemon/backends/...",
                                            "//kernels/...",
                                            "//gpu_daemon/event/..."};
  if (quick) {
    return {
        {"", {"--build_tests_only", "--test_tag_filters=-integration"}, units}};
  }
  const std::vector<std::string> sanitizer = {
      "--build_tests_only", "--test_tag_filters=-no-sanitizer,-integration"};
  return {{"", {}, all},
          {"asan", sanitizer, exposed},
          {"tsan", sanitizer, threads}};
}

absl::StatusOr<TestRun> RunConfiguration(const Configuration& configuration,
                                         const Options& options,
                                         const std::string& root, bool json) {
  char events[] = "/tmp/carillon_events_XXXXXX";
  const int fd = mkstemp(events);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: {}", events, strerror(errno)));
  }
  close(fd);
  std::vector<std::string> arguments = {
      "test", "--keep_going",
      fmt::format("--build_event_json_file={}", events)};
  if (*configuration.name != '\0') {
    arguments.push_back(fmt::format("--config={}", configuration.name));
  }
  arguments.insert(arguments.end(), configuration.flags.begin(),
                   configuration.flags.end());
  arguments.insert(arguments.end(), options.bazel_arguments.begin(),
                   options.bazel_arguments.end());
  arguments.push_back("--");
  arguments.insert(arguments.end(), configuration.targets.begin(),
                   configuration.targets.end());
  const auto exit_code = RunBazel(std::move(arguments), root, json);
  TestRun run{.configuration = configuration.name};
  std::ifstream file(events);
  run.targets = ReadBuildEvents(file);
  unlink(events);
  if (!exit_code.ok()) return exit_code.status();
  run.exit_code = *exit_code;
  return run;
}

void PrintTally(const Tally& tally, const std::vector<TestRun>& runs,
                Console& console) {
  for (const std::string& remark : tally.remarks) console.Say(remark);
  if (console.json()) {
    Json list = Json::array();
    for (const TestRun& run : runs) {
      list.push_back({{"configuration", run.configuration},
                      {"bazel_exit_code", run.exit_code},
                      {"targets", run.targets}});
    }
    console.PrintDocument({{"passed", tally.passed},
                           {"failed", tally.failed},
                           {"runs", std::move(list)}});
    return;
  }
  // The last line, alone: other programs read it.
  console.Print(
      fmt::format("{} passed, {} failed\n", tally.passed, tally.failed));
}

constexpr int kInterrupted = 130;

// The script prints a table, and says all that there is to say.
absl::Status TestMutations(const Options& options, const std::string& root,
                           const Console& console) {
  if (console.json()) {
    return absl::InvalidArgumentError("--mutations prints a table, not json");
  }
  std::vector<std::string> arguments = {
      root + "/integration_tests/mutations/check.sh", "--"};
  arguments.insert(arguments.end(), options.bazel_arguments.begin(),
                   options.bazel_arguments.end());
  ASSIGN_OR_RETURN(const auto exit_code,
                   RunInCheckout(std::move(arguments), root, false));
  if (exit_code == 0) return absl::OkStatus();
  if (exit_code == kInterrupted) return absl::CancelledError();
  return absl::FailedPreconditionError("");
}

absl::Status Test(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto root, FindCheckout());
  if (options.mutations) return TestMutations(options, root, console);
  std::vector<TestRun> runs;
  for (const Configuration& configuration : Configurations(options.quick)) {
    console.Say(fmt::format(
        "carillon: tests{}",
        *configuration.name == '\0'
            ? ""
            : fmt::format(" under --config={}", configuration.name)));
    ASSIGN_OR_RETURN(const auto run, RunConfiguration(configuration, options,
                                                      root, console.json()));
    runs.push_back(run);
    if (run.exit_code == kBazelInterrupted) break;
  }
  const Tally tally = CountTargets(runs);
  PrintTally(tally, runs, console);
  // The tally has said it all.
  if (runs.back().exit_code == kBazelInterrupted) return absl::CancelledError();
  if (tally.failed > 0) return absl::FailedPreconditionError("");
  return absl::OkStatus();
}

}  // namespace

Run MakeTest(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Flag("--quick", options->quick,
                 "Units only, without the sanitizers");
  arguments
      .Flag("--mutations", options->mutations,
            "Whether the tests find bugs that are planted, one at a time")
      .Excludes("--quick");
  arguments
      .Texts("bazel", options->bazel_arguments, "For `bazel test`, after a --")
      .Placeholder("BAZEL ARGS");
  AddOutputOption(arguments, console);
  return [options, &console] { return Test(*options, console); };
}

}  // namespace carillon::cli
