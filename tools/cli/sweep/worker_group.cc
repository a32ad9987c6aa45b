#include "tools/cli/sweep/worker_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/subprocess.h"
#include "tools/cli/slurm/slurm.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;

std::string LogOf(const std::string& directory, std::string_view worker) {
  return fmt::format("{}/workers/{}.log", directory, worker);
}

class LocalWorkers : public WorkerGroup {
 public:
  absl::Status Start(const std::string& directory, uint32_t workers) {
    for (uint32_t i = 1; i <= workers; ++i) {
      ASSIGN_OR_RETURN(
          auto process,
          Subprocess::Start({.argv = {OwnProgram(), "sweep", "work", directory},
                             .log_path = LogOf(directory, fmt::format("{}", i)),
                             .own_group = true}));
      workers_.push_back(
          {LogOf(directory, fmt::format("{}", i)), std::move(process)});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Working(std::vector<std::string>& said) override {
    bool working = false;
    for (Worker& worker : workers_) {
      if (worker.process.done()) continue;
      if (!worker.process.ended()) {
        working = true;
        continue;
      }
      const ExitReport report = worker.process.Reap();
      if (report.ok()) continue;
      said.push_back(fmt::format("a worker died ({}); {} has what it wrote",
                                 report.ToString(), worker.log));
    }
    return working;
  }

 private:
  struct Worker {
    std::string log;
    Subprocess process;
  };
  std::vector<Worker> workers_;
};

class SlurmArray : public WorkerGroup {
 public:
  explicit SlurmArray(std::string job) : job_(job), watch_(std::move(job)) {}
  ~SlurmArray() override {
    // Without it, Slurm would start what waits, and that would end at once.
    CancelJob(job_).IgnoreError();
  }

  // The workers need no squeue: without its word they are taken to work.
  absl::StatusOr<bool> Working(std::vector<std::string>& said) override {
    const std::vector<std::string>& tasks = watch_.Tasks(said);
    for (const std::string& task : tasks) {
      // It waits for somebody to release it.
      if (task.find("held") == task.npos || task == told_) continue;
      told_ = task;
      said.push_back("squeue: " + task);
    }
    return !tasks.empty();
  }

 private:
  const std::string job_;
  JobWatch watch_;
  std::string told_;
};

absl::Status PrepareLogs(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory + "/workers", error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("cannot make {}/workers: {}", directory, error.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> StartHere(
    const std::string& directory, uint32_t workers) {
  RETURN_IF_ERROR(PrepareLogs(directory));
  auto group = std::make_unique<LocalWorkers>();
  RETURN_IF_ERROR(group->Start(directory, workers));
  return group;
}

absl::StatusOr<std::unique_ptr<WorkerGroup>> StartSlurmArray(
    const std::string& directory, uint32_t workers,
    const std::vector<std::string>& sbatch_arguments) {
  RETURN_IF_ERROR(PrepareLogs(directory));
  std::vector<std::string> arguments = {
      "--requeue", "--job-name=carillon-sweep",
      fmt::format("--array=1-{}", workers), "--open-mode=append",
      "--output=" + LogOf(directory, "%a")};
  std::ranges::copy(sbatch_arguments, std::back_inserter(arguments));
  auto job =
      SubmitJob(directory + "/worker.sh",
                fmt::format("#!/bin/sh\nexec {} sweep work {}\n",
                            ShellWord(OwnProgram()), ShellWord(directory)),
                std::move(arguments));
  if (absl::IsNotFound(job.status())) {
    return WithHint(job.status(),
                    "without --slurm the workers run on this machine");
  }
  RETURN_IF_ERROR(job.status());
  return std::make_unique<SlurmArray>(*std::move(job));
}

}  // namespace carillon::cli
