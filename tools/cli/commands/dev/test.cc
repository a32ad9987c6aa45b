#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/testing/allowed_skips.h"
#include "tools/cli/testing/bazel.h"
#include "tools/cli/testing/build_events.h"
#include "tools/cli/testing/tally.h"
#include "tools/cli/testing/test_xml.h"

namespace carillon::cli {
namespace {

constexpr char kAllowedSkips[] = "tools/cli/testing/allowed_skips.txt";

struct Options {
  bool all = false;
  bool quick = false;
  bool sanitizers = false;
  bool mutations = false;
  std::vector<std::string> bazel_arguments;
};

struct Configuration {
  const char* name;  // of --config, but for "default"
  std::vector<std::string> flags;
  std::vector<std::string> targets;

  bool is_default() const { return name == kDefault; }
  static constexpr std::string_view kDefault = "default";
};

// With --all, sanitizers see the units: whole testbeds of real processes take
// an hour under them.
std::vector<Configuration> Configurations(const Options& options) {
  const std::vector<std::string> all = {"//..."};
  const std::vector<std::string> units = {"//...", "-//integration_tests/..."};
  // What reads bytes of others, and what that is made of. The CLI's commands
  // and its tests of them are tagged no-sanitizer.
  const std::vector<std::string> exposed = {"//...", "-//integration_tests/...",
                                            "-//tools/bench/...",
                                            "-//tools/gpu_check/..."};
  // Where our own threads share memory.
  const std::vector<std::string> threads = {
      "//shm/...", "//gpu_daemon/dispatch/...", "//gpu_daemon/backends/...",
      "//kernels/...", "//gpu_daemon/event/..."};
  const auto without = [](std::string tags) {
    return std::vector<std::string>{"--build_tests_only",
                                    "--test_tag_filters=" + std::move(tags)};
  };
  if (options.sanitizers) {
    std::vector<Configuration> both = {
        {"asan",
         without("-no-sanitizer"),
         {"//...", "-//tools/bench/...", "-//tools/gpu_check/..."}},
        {"tsan",
         without("-no-sanitizer,-one-thread"),
         {"//...", "-//sim/...", "-//tools/..."}}};
    for (Configuration& one : both) {
      one.flags.push_back("--test_timeout=1500");
    }
    return both;
  }
  if (options.quick) {
    return {{"default", without("-integration"), units}};
  }
  std::vector<Configuration> chosen = {{"default", {}, all}};
  if (options.all) {
    chosen.push_back(
        {"tsan", without("-no-sanitizer,-one-thread,-integration"), threads});
    chosen.push_back({"asan", without("-no-sanitizer,-integration"), exposed});
  }
  return chosen;
}

std::vector<TestCase> CasesOf(const std::string& path) {
  std::ifstream file(path);
  auto cases = ReadTestXml(file);
  if (cases.ok()) return *std::move(cases);
  return {{"", TestCase::Outcome::kFailed,
           fmt::format("{}: {}", path, cases.status().message())}};
}

std::vector<TargetResult> ReadResults(std::istream& events) {
  std::vector<TargetResult> results;
  for (const auto& [label, target] : ReadBuildEvents(events)) {
    TargetResult& result = results.emplace_back();
    result.label = label;
    result.status = target.status;
    for (const std::string& xml : target.attempts) {
      result.attempts.push_back(CasesOf(xml));
    }
  }
  return results;
}

absl::StatusOr<std::vector<AllowedSkip>> LoadAllowedSkips(
    const std::string& root) {
  const std::string path = fmt::format("{}/{}", root, kAllowedSkips);
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(fmt::format("{}: {}", path, strerror(errno)));
  }
  return ReadAllowedSkips(file);
}

absl::StatusOr<TestRun> RunConfiguration(const Configuration& configuration,
                                         const Options& options,
                                         const std::string& root, bool json) {
  std::error_code error;
  const auto temporary = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::NotFoundError(
        fmt::format("TMPDIR names no folder: {}", error.message()));
  }
  ASSIGN_OR_RETURN(const auto directory,
                   TempDirectory::Make(temporary.string()));
  const std::string events = directory.path() + "/events.json";
  std::vector<std::string> arguments = {
      "test", "--keep_going",
      fmt::format("--build_event_json_file={}", events)};
  if (!configuration.is_default()) {
    arguments.push_back(fmt::format("--config={}", configuration.name));
  }
  std::ranges::copy(configuration.flags, std::back_inserter(arguments));
  std::ranges::copy(options.bazel_arguments, std::back_inserter(arguments));
  arguments.push_back("--");
  std::ranges::copy(configuration.targets, std::back_inserter(arguments));
  ASSIGN_OR_RETURN(const auto exit_code,
                   RunBazel(std::move(arguments), root, json));
  std::ifstream file(events);
  std::vector<TargetResult> targets = ReadResults(file);
  if (exit_code == 0 && targets.empty()) {
    return absl::DataLossError(fmt::format(
        "bazel says that all is well, and {} names no target", events));
  }
  return TestRun{.configuration = configuration.name,
                 .exit_code = exit_code,
                 .targets = std::move(targets)};
}

Json Document(const Tally& tally, const std::vector<TestRun>& runs) {
  Json list = Json::array();
  for (const TestRun& run : runs) {
    Json targets = Json::object();
    for (const TargetResult& target : run.targets) {
      targets[target.label] = target.status;
    }
    list.push_back({{"configuration", run.configuration},
                    {"bazel_exit_code", run.exit_code},
                    {"targets", std::move(targets)}});
  }
  return {{"passed", tally.passed},   {"failed", tally.failed},
          {"skipped", tally.skipped}, {"failures", tally.failures},
          {"skips", tally.skips},     {"retried", tally.retried},
          {"not_run", tally.not_run}, {"runs", std::move(list)}};
}

void PrintTally(const Tally& tally, const std::vector<TestRun>& runs,
                Console& console) {
  for (const auto& [what, lines] : {std::pair("skipped", &tally.skips),
                                    std::pair("retried", &tally.retried),
                                    std::pair("not run", &tally.not_run),
                                    std::pair("failed", &tally.failures)}) {
    for (const std::string& line : *lines) {
      console.Say(fmt::format("{}: {}", what, line));
    }
  }
  if (console.json()) {
    console.PrintDocument(Document(tally, runs));
    return;
  }
  // The last line, alone: other programs read it.
  console.Print(fmt::format("{} passed, {} failed, {} skipped\n", tally.passed,
                            tally.failed, tally.skipped));
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
  std::ranges::copy(options.bazel_arguments, std::back_inserter(arguments));
  ASSIGN_OR_RETURN(const auto exit_code,
                   RunInCheckout(std::move(arguments), root, false));
  if (exit_code == 0) return absl::OkStatus();
  if (exit_code == kInterrupted) return absl::CancelledError();
  return absl::FailedPreconditionError("");
}

absl::Status Test(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto root, FindCheckout());
  if (options.mutations) return TestMutations(options, root, console);
  ASSIGN_OR_RETURN(const auto allowed, LoadAllowedSkips(root));
  std::vector<TestRun> runs;
  std::vector<std::string> not_run;
  for (const Configuration& configuration : Configurations(options)) {
    if (!runs.empty() && runs.back().interrupted()) {
      not_run.push_back(fmt::format("all targets ({})", configuration.name));
      continue;
    }
    console.Say(configuration.is_default()
                    ? "carillon: tests"
                    : fmt::format("carillon: tests under --config={}",
                                  configuration.name));
    ASSIGN_OR_RETURN(const auto run, RunConfiguration(configuration, options,
                                                      root, console.json()));
    runs.push_back(run);
  }
  Tally tally = CountCases(runs, allowed);
  std::ranges::copy(not_run, std::back_inserter(tally.not_run));
  // Only a run over everything knows all targets.
  const int exit_code = runs.front().exit_code;
  if (!options.quick && !options.sanitizers &&
      (exit_code == 0 || exit_code == kBazelTestsFailed)) {
    for (const AllowedSkip& skip : StaleSkips(runs, allowed)) {
      ++tally.failed;
      tally.failures.push_back(fmt::format("{}: no target is named by '{}'",
                                           kAllowedSkips, skip.Line()));
    }
  }
  PrintTally(tally, runs, console);
  // The tally has said it all.
  if (tally.failed > 0) return absl::FailedPreconditionError("");
  if (runs.back().interrupted()) return absl::CancelledError();
  return absl::OkStatus();
}

}  // namespace

Run MakeTest(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Flag("--quick", options->quick, "Units only");
  arguments
      .Flag("--all", options->all,
            "Then the units again under the sanitizers, as CI does")
      .Excludes("--quick");
  arguments
      .Flag("--sanitizers", options->sanitizers,
            "Everything under the sanitizers, whole testbeds too")
      .Excludes("--quick")
      .Excludes("--all");
  arguments
      .Flag("--mutations", options->mutations,
            "Whether the tests find bugs that are planted, one at a time")
      .Excludes("--quick")
      .Excludes("--all")
      .Excludes("--sanitizers");
  arguments.Texts("bazel BAZEL ARGS", options->bazel_arguments,
                  "For `bazel test`, after a --");
  return [options, &console] { return Test(*options, console); };
}

}  // namespace carillon::cli
