#include "tools/cli/sweep/worker_group.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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

struct Output {
  ExitReport exit;
  std::string text;  // of stdout and stderr
};

absl::StatusOr<Output> RunProgram(std::vector<std::string> argv) {
  ASSIGN_OR_RETURN(auto pipe, MakePipe());
  ASSIGN_OR_RETURN(auto process, Subprocess::Start({.argv = std::move(argv),
                                                    .out = pipe.writer.get(),
                                                    .err = pipe.writer.get()}));
  pipe.writer.reset();
  Output output;
  std::array<char, 4096> bytes;
  for (ssize_t n;
       (n = read(pipe.reader.get(), bytes.data(), bytes.size())) > 0;) {
    output.text.append(bytes.data(), static_cast<size_t>(n));
  }
  output.exit = process.Reap();
  while (output.text.ends_with('\n')) output.text.pop_back();
  return output;
}

// For a shell's script.
std::string ShellWord(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

class SlurmArray : public WorkerGroup {
 public:
  explicit SlurmArray(std::string job) : job_(std::move(job)) {}
  ~SlurmArray() override {
    // Without it, Slurm would start what waits, and that would end at once.
    (void)RunProgram({"scancel", job_});
  }

  absl::StatusOr<bool> Working(std::vector<std::string>& said) override {
    // squeue is a heavy question, and many sweeps may ask.
    if (const auto now = Clock::now(); now - asked_ < kPeriod) {
      return working_;
    } else {
      asked_ = now;
    }
    const auto queue =
        RunProgram({"squeue", "--noheader", "--jobs=" + job_,
                    std::string("--format=") + kTask + "%T (%r)"});
    if (queue.ok() && queue->exit.ok()) {
      Judge(queue->text, said);
    } else if (queue.ok() &&
               queue->text.find("Invalid job id") != std::string::npos) {
      working_ = false;  // it ended long ago
    } else {
      // The workers need no squeue.
      SayOnce(queue.ok() ? queue->text : std::string(queue.status().message()),
              said);
    }
    return working_;
  }

 private:
  static constexpr std::chrono::seconds kPeriod{2};
  // Begins a line about a task; others are warnings.
  static constexpr char kTask[] = "task ";

  void Judge(const std::string& text, std::vector<std::string>& said) {
    working_ = false;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(kTask)) continue;
      working_ = true;
      // It waits for somebody to release it.
      if (line.find("held") != line.npos) SayOnce(line, said);
    }
  }
  void SayOnce(const std::string& text, std::vector<std::string>& said) {
    if (text == told_) return;
    told_ = text;
    said.push_back("squeue: " + text);
  }

  const std::string job_;
  Clock::time_point asked_{};
  bool working_ = true;
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
  const std::string script = directory + "/worker.sh";
  std::ofstream file(script);
  file << "#!/bin/sh\nexec " << ShellWord(OwnProgram()) << " sweep work "
       << ShellWord(directory) << '\n';
  file.close();
  if (!file) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}", Quote(script)));
  }
  std::vector<std::string> argv = {"sbatch",
                                   "--parsable",
                                   "--requeue",
                                   "--job-name=carillon-sweep",
                                   fmt::format("--array=1-{}", workers),
                                   "--open-mode=append",
                                   "--output=" + LogOf(directory, "%a")};
  std::ranges::copy(sbatch_arguments, std::back_inserter(argv));
  argv.push_back(script);
  const auto submitted = RunProgram(std::move(argv));
  if (!submitted.ok()) {
    return WithHint(submitted.status(),
                    "without --slurm the workers run on this machine");
  }
  if (!submitted->exit.ok()) {
    return absl::FailedPreconditionError("sbatch: " + submitted->text);
  }
  // "JOB" or "JOB;CLUSTER", after what Slurm has to say.
  std::string job = submitted->text.substr(submitted->text.rfind('\n') + 1);
  job = job.substr(0, job.find(';'));
  return std::make_unique<SlurmArray>(std::move(job));
}

}  // namespace carillon::cli
