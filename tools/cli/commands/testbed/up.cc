#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/strict_yaml.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/commands/testbed/up_report.h"
#include "tools/cli/commands/testbed/up_slurm.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::cli {
namespace {

// The supervisor itself kills all others at the third request to end.
constexpr int kKillAt = 4;
// What a supervisor takes to end after its report.
constexpr std::chrono::seconds kLastSteps{5};

struct Options {
  testbed::UpOptions up;
  bool detach = false;
  bool slurm = false;
  std::vector<std::string> sbatch_arguments;
};

void SayWhatNext(const testbed::Supervisor& supervisor, const char* end,
                 Console& console) {
  console.Say(fmt::format("look in with: carillon status --name {}; {}",
                          supervisor.state().testbed, end));
}

absl::Status RunInForeground(const Options& options, Console& console) {
  std::string source;
  ASSIGN_OR_RETURN(const auto topology, ChooseTopology(options.up, &source));
  std::mutex mutex;  // who writes to the console
  ASSIGN_OR_RETURN(const auto run,
                   testbed::TestbedRun::Make(topology, source, options.up,
                                             [&](const std::string& line) {
                                               std::lock_guard lock(mutex);
                                               console.Say(line);
                                             }));
  testbed::Supervisor& supervisor = run->supervisor();
  RETURN_IF_ERROR(run->BringUp());
  {
    std::lock_guard lock(mutex);
    if (console.json()) console.PrintDocument(testbed::UpDocument(supervisor));
    SayWhatNext(supervisor, "end it with Ctrl-C", console);
  }
  while (supervisor.Watch(std::chrono::hours(1))) {
  }
  return run->End();
}

// The supervisor reads the topology again, from a stdin with the same bytes.
absl::Status KeepStdin() {
  ASSIGN_OR_RETURN(const auto text,
                   ReadYamlFile(std::string(kStdin), "a topology file"));
  const UniqueFd copy(memfd_create("topology", MFD_CLOEXEC));
  if (!copy ||
      write(copy.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size()) ||
      lseek(copy.get(), 0, SEEK_SET) != 0 ||
      dup2(copy.get(), STDIN_FILENO) != STDIN_FILENO) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot keep what came from stdin: {}", strerror(errno)));
  }
  return absl::OkStatus();
}

// Starts `carillon supervise` in a session of its own. The pipe carries its
// report, and is its output.
absl::StatusOr<Subprocess> StartSupervisor(const Options& options,
                                           int report_fd) {
  SpawnOptions supervisor{
      .argv = {"carillon", "supervise",
               fmt::format("--report-fd={}", report_fd)},
      .program = OwnProgram(),
      .in = options.up.file == kStdin ? STDIN_FILENO : SpawnOptions::kNothing,
      .out = report_fd,
      .err = report_fd,
      .inherited = {report_fd},
      .own_session = true,
      .dies_with_parent = false,
  };
  for (std::string& argument : ToCommandLine(options.up)) {
    supervisor.argv.push_back(std::move(argument));
  }
  return Subprocess::Start(supervisor);
}

absl::Status RunDetached(const Options& options, Console& console) {
  // Read it here, where problems are easy to show.
  if (options.up.file == kStdin) RETURN_IF_ERROR(KeepStdin());
  std::string source;
  ASSIGN_OR_RETURN(const auto topology, ChooseTopology(options.up, &source));
  if (options.up.file == kStdin) lseek(STDIN_FILENO, 0, SEEK_SET);
  RETURN_IF_ERROR(testbed::CheckHeadroomOfRun(topology.devices.size()));
  testbed::StopSignals requests;
  ASSIGN_OR_RETURN(auto pipe, MakePipe());
  ASSIGN_OR_RETURN(auto supervisor,
                   StartSupervisor(options, pipe.writer.get()));
  pipe.writer.reset();

  UpReportReader report(pipe.reader.get(),
                        [&](const std::string& line) { console.Say(line); });
  int asked = 0;
  while (report.Read(requests.fd())) {
    // Ctrl-C ends the bring-up, and the report then says so.
    for (int i = requests.Take(); i > 0; --i) {
      if (++asked < kKillAt) {
        supervisor.Signal(SIGTERM);
        continue;
      }
      console.Say("killing the supervisor, which does not answer");
      supervisor.Signal(SIGKILL);
    }
  }
  if (!report.status().ok()) {
    // It has said its last word. What still keeps it is killed.
    (void)supervisor.AwaitEnd(kLastSteps);
    return report.status();
  }
  supervisor.Release();
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
  arguments
      .Flag("--slurm", options->slurm,
            "All hosts of the topology, as steps of a Slurm job; returns when "
            "they are up (docs/mesh.md)")
      .Excludes("--detach");
  arguments.Texts("sbatch SBATCH_ARG", options->sbatch_arguments,
                  "After --, with --slurm: for sbatch, as --partition=lab");
  return [options, &console]() -> absl::Status {
    if (options->slurm) {
      return UpBySlurm(options->up, options->sbatch_arguments, console);
    }
    if (!options->sbatch_arguments.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("unexpected argument {}: only --slurm takes some",
                      Quote(options->sbatch_arguments[0])));
    }
    return options->detach ? RunDetached(*options, console)
                           : RunInForeground(*options, console);
  };
}

}  // namespace carillon::cli
