#include "tools/cli/slurm/slurm.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPeriod{2};
// Begins a line about a task.
constexpr std::string_view kTask = "task ";
constexpr std::string_view kUnknownJob = "Invalid job id";

struct Output {
  ExitReport exit;
  std::string text;  // of stdout
  std::string said;  // of stderr: warnings, and why it fails
};

std::string Contents(const UniqueFd& file) {
  std::string text;
  std::array<char, 4096> bytes;
  for (ssize_t n; (n = pread(file.get(), bytes.data(), bytes.size(),
                             static_cast<off_t>(text.size()))) > 0;) {
    text.append(bytes.data(), static_cast<size_t>(n));
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Files and no pipes: two of these could wait for each other's reader.
absl::StatusOr<Output> RunProgram(std::vector<std::string> argv) {
  const UniqueFd out(memfd_create("slurm-stdout", MFD_CLOEXEC));
  const UniqueFd err(memfd_create("slurm-stderr", MFD_CLOEXEC));
  if (!out || !err) {
    return absl::ResourceExhaustedError(fmt::format(
        "no file for what {} says: {}", argv[0], std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(auto process, Subprocess::Start({.argv = std::move(argv),
                                                    .out = out.get(),
                                                    .err = err.get()}));
  Output output;
  output.exit = process.Reap();
  output.text = Contents(out);
  output.said = Contents(err);
  return output;
}

// As sbatch --parsable names it: "12", or where there are several clusters
// "12;north".
struct JobName {
  std::string number;
  std::string cluster;  // empty: the default one
};

// What goes to scancel's command line: nothing else is a job there.
std::optional<JobName> ReadJob(std::string_view text) {
  const size_t semicolon = text.find(';');
  JobName job{.number = std::string(text.substr(0, semicolon)), .cluster = {}};
  if (job.number.empty() || job.number.size() > 20 ||
      !std::ranges::all_of(job.number, absl::ascii_isdigit)) {
    return std::nullopt;
  }
  if (semicolon == text.npos) return job;
  job.cluster = text.substr(semicolon + 1);
  const auto is_of_name = [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  };
  if (job.cluster.empty() || !std::ranges::all_of(job.cluster, is_of_name)) {
    return std::nullopt;
  }
  return job;
}

// Job 12 of the default cluster is another one than that of this cluster.
void AddCluster(const JobName& job, std::vector<std::string>* argv) {
  if (!job.cluster.empty()) argv->push_back("--clusters=" + job.cluster);
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
    return absl::FailedPreconditionError("sbatch: " + submitted.said);
  }
  if (ReadJob(submitted.text)) return submitted.text;
  return absl::FailedPreconditionError(
      fmt::format("sbatch has submitted {}, and does not name its job, but "
                  "says {}: squeue shows it, and scancel ends it",
                  Quote(path), Quote(submitted.text)));
}

absl::Status CancelJob(const std::string& job) {
  const auto name = ReadJob(job);
  if (!name) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no job's number", Quote(job)));
  }
  std::vector<std::string> argv = {"scancel"};
  AddCluster(*name, &argv);
  argv.push_back(name->number);
  ASSIGN_OR_RETURN(const auto output, RunProgram(std::move(argv)));
  if (output.exit.ok() || output.said.find(kUnknownJob) != output.said.npos) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError("scancel: " + output.said);
}

const std::vector<std::string>& JobWatch::Tasks(
    std::vector<std::string>& said) {
  if (const auto now = Clock::now(); now - asked_ < kPeriod) {
    return tasks_;
  } else {
    asked_ = now;
  }
  // What names no job, squeue refuses in its words.
  const JobName job = ReadJob(job_).value_or(JobName{job_, {}});
  std::vector<std::string> argv = {"squeue", "--noheader",
                                   "--jobs=" + job.number,
                                   fmt::format("--format={}%T (%r)", kTask)};
  AddCluster(job, &argv);
  const auto queue = RunProgram(std::move(argv));
  if (queue.ok() && queue->exit.ok()) {
    tasks_.clear();
    std::istringstream lines(queue->text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kTask)) tasks_.push_back(line.substr(kTask.size()));
    }
  } else if (queue.ok() && queue->said.find(kUnknownJob) != std::string::npos) {
    tasks_.clear();  // it ended long ago
  } else if (const std::string text =
                 queue.ok() ? queue->said
                            : std::string(queue.status().message());
             text != told_) {
    told_ = text;
    said.push_back("squeue: " + text);
  }
  return tasks_;
}

}  // namespace carillon::cli
