#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/tls_files.h"
#include "mesh/etcd/etcd.h"
#include "sim/experiments/result_folder.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/figures.h"
#include "tools/cli/sweep/own_etcd.h"
#include "tools/cli/sweep/sweep_file.h"
#include "tools/cli/sweep/worker.h"
#include "tools/cli/sweep/worker_group.h"
#include "tools/plots/document.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using sim::figures::Job;
using sim::figures::ResultFolder;

constexpr std::chrono::milliseconds kLookPeriod{200};

struct Options {
  FigureChoice figures;
  std::string out;
  std::vector<std::string> etcd;
  TlsFiles tls;
  uint32_t workers = std::max(1u, std::thread::hardware_concurrency());
  bool slurm = false;
  std::vector<std::string> sbatch_arguments;
};

absl::Status Check(const Options& options) {
  if (options.figures.names.empty()) {
    return WithHint(absl::InvalidArgumentError("no figure is given"),
                    "carillon sim figure lists them");
  }
  if (options.out.empty()) {
    return absl::InvalidArgumentError(
        "--out DIR is missing: where workers put their results");
  }
  if (options.slurm && options.etcd.empty()) {
    return absl::InvalidArgumentError(
        "--slurm needs --etcd: workers on other machines claim their runs "
        "there");
  }
  if (!options.slurm && !options.sbatch_arguments.empty()) {
    return absl::InvalidArgumentError("--sbatch needs --slurm");
  }
  return absl::OkStatus();
}

std::string NewId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

class Sweep {
 public:
  Sweep(const Options& options, FigureRuns runs, Console& console)
      : options_(options),
        // Workers may start elsewhere.
        directory_(fs::absolute(options.out).lexically_normal().string()),
        runs_(std::move(runs)),
        results_(RunsFolder(directory_), runs_.config),
        console_(console) {}

  absl::Status Run() {
    RETURN_IF_ERROR(plots::CheckWritable(directory_));
    RETURN_IF_ERROR(results_.Prepare());
    RETURN_IF_ERROR(ForgetFailures());
    left_ = MissingOf(runs_.jobs);
    if (left_.empty()) return absl::OkStatus();
    std::optional<OwnEtcd> own;
    std::vector<std::string> etcd = options_.etcd;
    if (etcd.empty()) {
      ASSIGN_OR_RETURN(auto started, OwnEtcd::Start());
      own.emplace(std::move(started));
      etcd = {own->address()};
    } else {
      RETURN_IF_ERROR(CheckEtcd());
    }
    RETURN_IF_ERROR(WriteSweepFile(directory_, {.id = NewId(),
                                                .figures = options_.figures,
                                                .etcd = std::move(etcd),
                                                .tls = options_.tls}));
    ASSIGN_OR_RETURN(const auto workers,
                     options_.slurm
                         ? StartSlurmArray(directory_, options_.workers,
                                           options_.sbatch_arguments)
                         : StartHere(directory_, options_.workers));
    return Await(*workers);
  }

 private:
  absl::Status ForgetFailures() const {
    std::error_code error;
    const std::string folder = directory_ + "/failed";
    fs::create_directories(folder, error);
    for (const Job& job : runs_.jobs) {
      if (!error) fs::remove(folder + "/" + results_.NameOf(job), error);
    }
    if (!error) return absl::OkStatus();
    return absl::PermissionDeniedError(
        fmt::format("cannot use {}: {}", folder, error.message()));
  }

  // What is wrong with it is to be told here, and not in workers' logs.
  absl::Status CheckEtcd() const {
    TlsPems pems;
    if (options_.tls.any()) {
      ASSIGN_OR_RETURN(pems, ReadTlsFiles(options_.tls, "--tls-ca"));
    }
    ASSIGN_OR_RETURN(const auto etcd, mesh::Etcd::Make(options_.etcd, pems));
    return etcd->List("/carillon/v1/none").status();
  }

  std::vector<const Job*> MissingOf(const std::vector<Job>& jobs) const {
    std::vector<const Job*> missing;
    for (const Job& job : jobs) {
      if (!results_.Find(job)) missing.push_back(&job);
    }
    return missing;
  }

  // Drops what has ended. Errors: a run's failure.
  absl::Status Look() {
    absl::Status failure;
    std::erase_if(left_, [&](const Job* job) {
      if (results_.Find(*job)) return true;
      const absl::Status failed = FailureOf(directory_, results_.NameOf(*job));
      if (!failed.ok()) failure.Update(failed);
      return false;
    });
    return failure;
  }

  absl::Status Await(WorkerGroup& workers) {
    auto said_at = Clock::now();
    const size_t total = runs_.jobs.size();
    while (true) {
      std::vector<std::string> said;
      // Asked first: what ends between the two questions is no loss.
      ASSIGN_OR_RETURN(const bool working, workers.Working(said));
      for (const std::string& line : said) console_.Say(line);
      RETURN_IF_ERROR(Look());
      const std::string progress =
          fmt::format("{} of {} runs", total - left_.size(), total);
      console_.SayInPlace(progress);
      if (left_.empty()) return absl::OkStatus();
      if (!working) {
        return absl::UnavailableError(fmt::format(
            "{}, and no worker is left; {}/workers has what they wrote",
            progress, directory_));
      }
      if (!console_.err_is_terminal() &&
          Clock::now() - said_at >= std::chrono::seconds(20)) {
        console_.Say(progress);
        said_at = Clock::now();
      }
      if (stop_.Take() > 0) return absl::CancelledError();
      std::this_thread::sleep_for(kLookPeriod);
    }
  }

  const Options& options_;
  const std::string directory_;
  const FigureRuns runs_;
  const ResultFolder results_;
  Console& console_;
  std::vector<const Job*> left_;
  testbed::StopSignals stop_;  // before gRPC has threads
};

absl::Status SweepFigures(const Options& options, Console& console) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(auto runs, ChooseFigures(options.figures));
  RETURN_IF_ERROR(Sweep(options, std::move(runs), console).Run());
  return MakeFigures(options.figures, options.out, 1, console);
}

}  // namespace

Run MakeSweepFigure(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("figures FIGURE", options->figures.names, "Which, or all");
  arguments.Text("--out DIR", options->out,
                 "Folder for results, JSON and plots; all workers must see it");
  arguments.Number("--workers", options->workers, 1, 10000, "How many");
  arguments.Flag("--slurm", options->slurm,
                 "Workers are an array job of Slurm's");
  arguments
      .Texts("--etcd URL", options->etcd,
             "https://HOST:PORT, http://HOST:PORT, for each member once; "
             "without it, one is started for workers on this machine")
      .OneAtATime();
  arguments.Text("--tls-cert FILE", options->tls.certificate,
                 "For https: the workers' certificate");
  arguments.Text("--tls-key FILE", options->tls.key, "Its key");
  arguments.Text("--tls-ca FILE", options->tls.ca, "etcd's CA");
  options->figures.AddOptions(arguments);
  arguments
      .Texts("--sbatch ARG", options->sbatch_arguments,
             "For sbatch, with --slurm: --sbatch=--partition=short")
      .OneAtATime();
  return [options, &console]() { return SweepFigures(*options, console); };
}

Run MakeSweepWork(Arguments& arguments, Console& console) {
  auto directory = std::make_shared<std::string>();
  arguments.Text("directory DIR", *directory, "The --out of the sweep")
      .Required();
  return [directory, &console]() { return WorkOn(*directory, console); };
}

}  // namespace carillon::cli
