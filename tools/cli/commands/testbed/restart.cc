#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/restart_request.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/supervisor_socket.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

using std::chrono::milliseconds;

// More than the supervisor gives processes to end.
constexpr milliseconds kEnding{20'000};

struct Options {
  std::vector<std::string> processes;
  std::string testbed;
  bool kill = false;
  double timeout_s = 15;
};

absl::Status Restart(const Options& options, Console& console) {
  testbed::StopSignals interrupt;
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(options.testbed));
  if (!testbed.supervisor) {
    return WithHint(absl::UnavailableError(fmt::format(
                        "testbed '{}' is not up: nobody looks after its "
                        "processes",
                        testbed.name)),
                    fmt::format("carillon up --name {}", testbed.name));
  }
  const testbed::RestartRequest request{
      .processes = options.processes,
      .kill = options.kill,
      .timeout = milliseconds(static_cast<int64_t>(options.timeout_s * 1000))};
  ASSIGN_OR_RETURN(
      const auto answer,
      testbed::AskSupervisor(
          {.socket = testbed::SupervisorSocketOf(testbed.paths),
           .request = ToJson(request),
           // gpud must become ready, then the devices.
           .limit = kEnding + 2 * request.timeout,
           .interrupt = &interrupt,
           .say = [&](const std::string& line) { console.Say(line); }}));
  if (console.json()) {
    console.PrintDocument(answer);
    return absl::OkStatus();
  }
  for (const Json& process : answer.value("restarted", Json::array())) {
    const std::string note = process.value("note", "");
    console.Say(
        fmt::format("{} is {} after {}, pid {}{}", process.value("name", ""),
                    process.value("state", ""),
                    FormatSeconds(process.value("took_ns", uint64_t{0})),
                    process.value("pid", 0), note.empty() ? "" : "; " + note));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeRestart(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Texts("process PROCESS...", options->processes,
             "gpud or devices; gpud ends after them and starts before them")
      .Required();
  AddNameOption(arguments, options->testbed);
  arguments.Flag("--kill", options->kill, "SIGKILL at once, not SIGTERM first");
  arguments.Seconds("--timeout", options->timeout_s, 0.1, 3600,
                    "How long a process may take from its start to be ready");
  return [options, &console] { return Restart(*options, console); };
}

}  // namespace carillon::cli
