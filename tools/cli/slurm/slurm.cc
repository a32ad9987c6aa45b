#include "tools/cli/slurm/slurm.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPeriod{2};
// Begins a line about a task; others are warnings.
constexpr std::string_view kTask = "task ";
constexpr std::string_view kUnknownJob = "Invalid job id";

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

}  // namespace

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

absl::StatusOr<std::string> SubmitJob(const std::string& path,
                                      std::string_view script,
                                      std::vector<std::string> arguments) {
  std::ofstream file(path);
  file << script;
  file.close();
  if (!file) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}", Quote(path)));
  }
  arguments.insert(arguments.begin(), {"sbatch", "--parsable"});
  arguments.push_back(path);
  ASSIGN_OR_RETURN(const auto submitted, RunProgram(std::move(arguments)));
  if (!submitted.exit.ok()) {
    return absl::FailedPreconditionError("sbatch: " + submitted.text);
  }
  // "JOB" or "JOB;CLUSTER", after what Slurm has to say.
  const std::string job = submitted.text.substr(submitted.text.rfind('\n') + 1);
  return job.substr(0, job.find(';'));
}

absl::Status CancelJob(const std::string& job) {
  ASSIGN_OR_RETURN(const auto output, RunProgram({"scancel", job}));
  if (output.exit.ok() || output.text.find(kUnknownJob) != output.text.npos) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("scancel: " + output.text);
}

const std::vector<std::string>& JobWatch::Tasks(
    std::vector<std::string>& said) {
  if (const auto now = Clock::now(); now - asked_ < kPeriod) {
    return tasks_;
  } else {
    asked_ = now;
  }
  const auto queue = RunProgram({"squeue", "--noheader", "--jobs=" + job_,
                                 fmt::format("--format={}%T (%r)", kTask)});
  if (queue.ok() && queue->exit.ok()) {
    tasks_.clear();
    std::istringstream lines(queue->text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kTask)) tasks_.push_back(line.substr(kTask.size()));
    }
  } else if (queue.ok() && queue->text.find(kUnknownJob) != std::string::npos) {
    tasks_.clear();  // it ended long ago
  } else if (const std::string text =
                 queue.ok() ? queue->text
                            : std::string(queue.status().message());
             text != told_) {
    told_ = text;
    said.push_back("squeue: " + text);
  }
  return tasks_;
}

}  // namespace carillon::cli
