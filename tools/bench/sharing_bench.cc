// Measures events beside background kernels under each sharing policy.
#include <time.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/machine.h"
#include "tools/bench/sharing/device_role.h"
#include "tools/bench/sharing/sharing_run.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/plots/document.h"

namespace carillon::bench {
namespace {

struct Output {
  bool json = false;
  std::string folder;
};

absl::Status Run(const SharingOptions& options, const Output& output,
                 const std::string& command) {
  if (!output.folder.empty()) {
    RETURN_IF_ERROR(plots::CheckWritable(output.folder));
  }
  ASSIGN_OR_RETURN(auto document, RunSharing(options));
  document["when"] =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time(nullptr)));
  document["machine"] = DescribeMachine();
  document["command"] = command;
  if (output.json) {
    fmt::print("{}\n", document.dump(2));
  } else {
    fmt::print("{}", SharingTables(document));
  }
  if (output.folder.empty()) return absl::OkStatus();
  std::vector<std::string> written;
  const absl::Status status = plots::WriteDocument(
      output.folder, "sharing", document, /*plotter=*/"", &written);
  for (const std::string& path : written) {
    fmt::print(stderr, "wrote {}\n", path);
  }
  return status;
}

int Main(int argc, char** argv) {
  if (const auto played = PlaySharingDevice(argc, argv)) return *played;
  SharingOptions options;
  options.gpud = plots::Runfile("gpu_daemon/gpud");
  options.timing = plots::Runfile("tools/bench/sharing/four_places.yaml");
  options.trace = plots::Runfile("tools/bench/sharing/bursts.trace");
  Output output;
  CLI::App app(
      "Events beside background kernels under each sharing policy: responses, "
      "waits, and what is left of the background.",
      "sharing");
  app.add_flag("--json", output.json, "Print a JSON document, not tables");
  app.add_option("--out", output.folder, "Also write the document there");
  app.add_flag("--quick", options.quick,
               "A short look at each policy: no figures");
  app.add_option("--backend", options.backend,
                 "What runs the kernels; sim: in simulated time")
      ->check(CLI::IsMember({"cpu", "sim", "cuda"}))
      ->capture_default_str();
  auto* const policies =
      app.add_option("--policies", options.policies,
                     "Only these policies, separated by commas");
  policies->delimiter(',')->check(
      CLI::IsMember(std::vector<std::string>(options.policies)));
  auto* const parts = app.add_option("--parts", options.parts,
                                     "Only these parts, separated by commas");
  parts->delimiter(',')->check(
      CLI::IsMember(std::vector<std::string>(options.parts)));
  const auto* const trace =
      app.add_option("--trace", options.trace,
                     "The traced load: a file of times in us, one a line");
  app.add_option("--rounds", options.rounds,
                 "How often each is measured, with another seed")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of Poisson's arrivals")
      ->check(CLI::Range(0u, 1u << 31))
      ->capture_default_str();
  app.add_option("--preempt-us", options.preempt_us,
                 "cuda: gpud's bound on a slice's length")
      ->check(CLI::Range(1u, 1'000'000u));
  app.add_option("--reserve-sms", options.reserve_sms,
                 "cuda: SMs that gpud reserves for events")
      ->check(CLI::Range(1u, 1024u));
  app.add_option("--gpud", options.gpud, "The GPU daemon's program");
  try {
    app.parse(argc, argv);
    const auto twice = [](const std::vector<std::string>& names) {
      return std::set<std::string>(names.begin(), names.end()).size() !=
             names.size();
    };
    if (twice(options.policies)) {
      throw CLI::ValidationError("--policies", "names a policy twice");
    }
    if (twice(options.parts)) {
      throw CLI::ValidationError("--parts", "names a part twice");
    }
    if (options.backend != "cuda" &&
        (options.preempt_us != 0 || options.reserve_sms != 0)) {
      throw CLI::ValidationError("--preempt-us and --reserve-sms",
                                 "go with --backend cuda");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // What decides the figures, without folders.
  std::string command = fmt::format(
      "sharing --backend {} --rounds {} --seed {}{}", options.backend,
      options.rounds, options.seed, options.quick ? " --quick" : "");
  if (policies->count() != 0) {
    command += fmt::format(" --policies {}", fmt::join(options.policies, ","));
  }
  if (parts->count() != 0) {
    command += fmt::format(" --parts {}", fmt::join(options.parts, ","));
  }
  if (trace->count() != 0) {
    command +=
        fmt::format(" --trace {}",
                    std::filesystem::path(options.trace).filename().string());
  }
  if (options.preempt_us != 0) {
    command += fmt::format(" --preempt-us {}", options.preempt_us);
  }
  if (options.reserve_sms != 0) {
    command += fmt::format(" --reserve-sms {}", options.reserve_sms);
  }
  CatchInterrupts();
  const absl::Status status = Run(options, output, command);
  if (status.ok()) return 0;
  fmt::print(stderr, "sharing: {}\n", std::string(status.message()));
  return static_cast<int>(cli::ExitCodeOf(status));
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) { return carillon::bench::Main(argc, argv); }
