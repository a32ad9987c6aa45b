#include "tools/cli/sweep/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/results/whole_file.h"
#include "base/status.h"
#include "base/tls_files.h"
#include "mesh/etcd/etcd.h"
#include "tools/cli/sweep/claims.h"
#include "tools/cli/sweep/run_set.h"
#include "tools/cli/sweep/sweep_file.h"

namespace carillon::cli {
namespace {

constexpr std::chrono::seconds kPatience{60};
// How soon a worker without work sees that a run was done, or is free again.
constexpr std::chrono::milliseconds kPeriod{200};

std::string FailurePath(const std::string& directory, const std::string& run) {
  return fmt::format("{}/failed/{}", directory, run);
}

// "HOST:PID"
std::string OwnName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), getpid());
}

class Worker {
 public:
  Worker(const std::string& directory, RunSet& runs, Claims& claims,
         Console& console)
      : directory_(directory),
        runs_(runs),
        claims_(claims),
        console_(console) {}

  absl::Status Work() {
    std::vector<size_t> left(runs_.size());
    std::iota(left.begin(), left.end(), size_t{0});
    // Workers that begin elsewhere seldom want the same run.
    std::ranges::rotate(left, left.begin() + getpid() % std::ssize(left));
    while (!left.empty()) {
      const size_t before = left.size();
      std::vector<size_t> later;
      for (const size_t run : left) {
        ASSIGN_OR_RETURN(const bool ended, TryRun(run));
        if (!ended) later.push_back(run);
      }
      left = std::move(later);
      if (left.size() == before) std::this_thread::sleep_for(kPeriod);
    }
    return absl::OkStatus();
  }

 private:
  bool HasEnded(size_t run) const {
    return runs_.HasResult(run) ||
           !FailureOf(directory_, runs_.NameOf(run)).ok();
  }

  // False: another worker has claimed it.
  absl::StatusOr<bool> TryRun(size_t run) {
    if (HasEnded(run)) return true;
    const std::string name = runs_.NameOf(run);
    ASSIGN_OR_RETURN(const bool taken, claims_.Take(name, kPatience));
    if (!taken) return false;
    // Who had the claim until now may have ended it.
    if (!HasEnded(run)) {
      console_.Say(fmt::format("runs {}", runs_.TitleOf(run)));
      const absl::Status status = runs_.Run(run);
      if (!status.ok()) {
        RETURN_IF_ERROR(ReplaceFile(
            FailurePath(directory_, name),
            fmt::format("{} {}\n", status.raw_code(), status.message())));
      }
    }
    claims_.Release(name);
    return true;
  }

  const std::string& directory_;
  RunSet& runs_;
  Claims& claims_;
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
  ASSIGN_OR_RETURN(const auto runs, MakeRunSet(sweep, directory));
  if (RunsHash(*runs) != sweep.runs) {
    return absl::FailedPreconditionError(
        fmt::format("{} is of another build of carillon, or a plan was changed "
                    "since: begin "
                    "the sweep anew",
                    SweepFilePath(directory)));
  }
  if (runs->size() == 0) return absl::OkStatus();
  TlsPems pems;
  if (sweep.tls.any()) {
    ASSIGN_OR_RETURN(pems, ReadTlsFiles(sweep.tls, "--tls-ca"));
  }
  ASSIGN_OR_RETURN(auto etcd, mesh::Etcd::Make(sweep.etcd, pems));
  Claims claims(std::move(etcd), sweep.id, OwnName());
  return Worker(directory, *runs, claims, console).Work();
}

}  // namespace carillon::cli
