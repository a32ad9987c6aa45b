#include "tools/cli/sweep/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/tls_files.h"
#include "mesh/etcd/etcd.h"
#include "sim/experiments/result_folder.h"
#include "sim/experiments/run_jobs.h"
#include "tools/cli/sweep/claims.h"
#include "tools/cli/sweep/sweep_file.h"

namespace carillon::cli {
namespace {

using sim::figures::Job;
using sim::figures::ResultFolder;

constexpr std::chrono::seconds kPatience{60};
// How soon a worker without work sees that a run was done, or is free again.
constexpr std::chrono::milliseconds kPeriod{200};

std::string FailurePath(const std::string& directory, const std::string& run) {
  return fmt::format("{}/failed/{}", directory, run);
}

absl::Status WriteFailure(const std::string& directory, const std::string& run,
                          const absl::Status& failure) {
  std::ofstream file(FailurePath(directory, run));
  file << failure.raw_code() << ' ' << failure.message() << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}", FailurePath(directory, run)));
}

// "HOST:PID"
std::string OwnName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), getpid());
}

class Worker {
 public:
  Worker(const std::string& directory, FigureRuns runs,
         std::unique_ptr<mesh::Etcd> etcd, const std::string& sweep,
         Console& console)
      : directory_(directory),
        runs_(std::move(runs)),
        results_(RunsFolder(directory), runs_.config),
        claims_(std::move(etcd), sweep, OwnName()),
        console_(console) {}

  absl::Status Work() {
    RETURN_IF_ERROR(results_.Prepare());
    std::vector<const Job*> left;
    for (const Job& job : runs_.jobs) left.push_back(&job);
    // Workers that begin elsewhere seldom want the same run.
    std::ranges::rotate(left, left.begin() + getpid() % std::ssize(left));
    while (!left.empty()) {
      const size_t before = left.size();
      std::vector<const Job*> later;
      for (const Job* const job : left) {
        ASSIGN_OR_RETURN(const bool ended, TryRun(*job));
        if (!ended) later.push_back(job);
      }
      left = std::move(later);
      if (left.size() == before) std::this_thread::sleep_for(kPeriod);
    }
    return absl::OkStatus();
  }

 private:
  bool HasEnded(const Job& job, const std::string& name) const {
    return results_.Find(job).has_value() || !FailureOf(directory_, name).ok();
  }

  // False: another worker has claimed it.
  absl::StatusOr<bool> TryRun(const Job& job) {
    const std::string name = results_.NameOf(job);
    if (HasEnded(job, name)) return true;
    ASSIGN_OR_RETURN(const bool taken, claims_.Take(name, kPatience));
    if (!taken) return false;
    // Who had the claim until now may have ended it.
    if (!HasEnded(job, name)) {
      console_.Say(fmt::format("runs {}", job.name));
      const auto result = sim::figures::RunJobs(
          {job}, runs_.config,
          {.threads = 1, .cache = RunsFolder(directory_), .progress = nullptr});
      if (!result.ok()) {
        RETURN_IF_ERROR(WriteFailure(directory_, name, result.status()));
      }
    }
    claims_.Release(name);
    return true;
  }

  const std::string directory_;
  const FigureRuns runs_;
  const ResultFolder results_;
  Claims claims_;
  Console& console_;
};

}  // namespace

absl::Status FailureOf(const std::string& directory, const std::string& run) {
  std::ifstream file(FailurePath(directory, run));
  int code = 0;
  if (!(file >> code)) return absl::OkStatus();
  std::string message;
  std::getline(file >> std::ws, message, '\0');
  if (message.ends_with('\n')) message.pop_back();
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

absl::Status WorkOn(const std::string& directory, Console& console) {
  ASSIGN_OR_RETURN(const auto sweep, ReadSweepFile(directory));
  ASSIGN_OR_RETURN(auto runs, ChooseFigures(sweep.figures));
  TlsPems pems;
  if (sweep.tls.any()) {
    ASSIGN_OR_RETURN(pems, ReadTlsFiles(sweep.tls, "--tls-ca"));
  }
  ASSIGN_OR_RETURN(auto etcd, mesh::Etcd::Make(sweep.etcd, pems));
  return Worker(directory, std::move(runs), std::move(etcd), sweep.id, console)
      .Work();
}

}  // namespace carillon::cli
