#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "base/log/log_line.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/commands/testbed/up_report.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::cli {
namespace {

struct Options {
  testbed::UpOptions up;
  uint32_t report_fd = 0;
};

void AppendToLog(std::string_view level, const std::string& line) {
  fmt::print("{}\n", FormatLogLine("supervisor", level, line));
  fflush(stdout);
}

absl::Status Supervise(const Options& options) {
  fcntl(static_cast<int>(options.report_fd), F_SETFD, FD_CLOEXEC);
  UpReportWriter report(static_cast<int>(options.report_fd));
  std::mutex mutex;  // who writes to the report and the log
  const auto fail = [&](const absl::Status& status) {
    std::lock_guard lock(mutex);
    report.Failed(status);
    return absl::Status(status.code(), "");  // the reader tells it
  };

  std::string source;
  const auto topology = ChooseTopology(options.up, &source);
  if (!topology.ok()) return fail(topology.status());
  bool logging = false;
  auto run = testbed::TestbedRun::Make(*topology, source, options.up,
                                       [&](const std::string& line) {
                                         std::lock_guard lock(mutex);
                                         report.Say(line);
                                         if (logging) AppendToLog("info", line);
                                       });
  if (!run.ok()) return fail(run.status());
  testbed::Supervisor& supervisor = (*run)->supervisor();

  // From here on stdout and stderr go to the supervisor's own log.
  const std::string log =
      supervisor.paths().log_directory() + "/supervisor.log";
  const UniqueFd log_fd(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log_fd) {
    return fail(absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", log, strerror(errno))));
  }
  {
    std::lock_guard lock(mutex);
    dup2(log_fd.get(), 1);
    dup2(log_fd.get(), 2);
    logging = true;
  }

  if (absl::Status status = (*run)->BringUp(); !status.ok()) {
    AppendToLog("error", std::string(status.message()));
    return fail(status);
  }
  {
    std::lock_guard lock(mutex);
    report.Up(testbed::UpDocument(supervisor));
  }
  while (supervisor.Watch(std::chrono::hours(1))) {
  }
  return (*run)->End();
}

}  // namespace

Run MakeSupervise(Arguments& arguments, Console&) {
  auto options = std::make_shared<Options>();
  AddUpOptions(arguments, options->up);
  arguments
      .Number("--report-fd", options->report_fd, 3, 1023,
              "Pipe to the `carillon up -d` that waits")
      .Required();
  return [options] { return Supervise(*options); };
}

}  // namespace carillon::cli
