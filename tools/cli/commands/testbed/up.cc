#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/unique_fd.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/commands/testbed/up_report.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/testbed_run.h"

extern char** environ;

namespace carillon::cli {
namespace {

struct Options {
  testbed::UpOptions up;
  bool detach = false;
};

void SayWhatNext(const testbed::Supervisor& supervisor, const char* end,
                 Console& console) {
  console.Say(fmt::format("look in with: carillon status --name {}; {}",
                          supervisor.state().testbed, end));
}

absl::Status RunInForeground(const Options& options, Console& console) {
  std::string source;
  ASSIGN_OR_RETURN(const auto topology, ChooseTopology(options.up, &source));
  auto run = testbed::TestbedRun::Make(
      topology, source, options.up,
      [&console](const std::string& line) { console.Say(line); });
  if (!run.ok()) return run.status();
  testbed::Supervisor& supervisor = (*run)->supervisor();
  RETURN_IF_ERROR(supervisor.BringUp());
  if (console.json()) console.PrintDocument(testbed::UpDocument(supervisor));
  SayWhatNext(supervisor, "end it with Ctrl-C", console);
  while (supervisor.Watch(std::chrono::hours(1))) {
  }
  return testbed::EndRun(supervisor);
}

// Starts `carillon supervise` in a session of its own. The pipe carries its
// report, and is its output.
absl::StatusOr<pid_t> StartSupervisor(const Options& options, int report_fd) {
  constexpr int kReportFd = 3;
  std::vector<std::string> arguments = {
      "carillon", "supervise", fmt::format("--report-fd={}", kReportFd)};
  for (std::string& argument : ToCommandLine(options.up)) {
    arguments.push_back(std::move(argument));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  for (const int fd : {1, 2, kReportFd}) {
    posix_spawn_file_actions_adddup2(&files, report_fd, fd);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &files, &attributes,
                                argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return absl::InternalError(
        fmt::format("cannot start the supervisor: {}", strerror(error)));
  }
  return pid;
}

absl::Status RunDetached(const Options& options, Console& console) {
  // Read it here, where problems are easy to show.
  std::string source;
  if (const auto topology = ChooseTopology(options.up, &source);
      !topology.ok()) {
    return topology.status();
  }
  testbed::StopSignals requests;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::InternalError(fmt::format("pipe: {}", strerror(errno)));
  }
  const UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  ASSIGN_OR_RETURN(const auto supervisor,
                   StartSupervisor(options, writer.get()));
  writer.reset();

  UpReportReader report(reader.get(),
                        [&](const std::string& line) { console.Say(line); });
  while (report.Read(requests.fd())) {
    // Ctrl-C ends the bring-up, and the report then says so.
    for (int i = requests.Take(); i > 0; --i) kill(supervisor, SIGTERM);
  }
  if (!report.status().ok()) {
    waitpid(supervisor, nullptr, 0);
    return report.status();
  }
  if (console.json()) console.PrintDocument(report.document());
  console.Say(fmt::format(
      "look in with: carillon status --name {0}; end it with: carillon down "
      "--name {0}",
      report.document().value("testbed", "")));
  return absl::OkStatus();
}

}  // namespace

Run MakeUp(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  AddUpOptions(arguments, options->up);
  arguments.Flag("-d,--detach", options->detach,
                 "Return when everything is ready, and leave it running");
  AddOutputOption(arguments, console);
  return [options, &console] {
    return options->detach ? RunDetached(*options, console)
                           : RunInForeground(*options, console);
  };
}

}  // namespace carillon::cli
