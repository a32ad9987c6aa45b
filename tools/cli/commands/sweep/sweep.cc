#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "base/text.h"
#include "base/tls_files.h"
#include "base/unique_fd.h"
#include "mesh/etcd/etcd.h"
#include "mesh/etcd/own_etcd.h"
#include "tools/cli/commands/sweep/commands.h"
#include "tools/cli/sim/figures.h"
#include "tools/cli/sweep/fault_runs.h"
#include "tools/cli/sweep/run_set.h"
#include "tools/cli/sweep/sweep_file.h"
#include "tools/cli/sweep/worker.h"
#include "tools/cli/sweep/worker_group.h"
#include "tools/plots/document.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookPeriod{200};

struct Options {
  std::string out;
  std::vector<std::string> etcd;
  TlsFiles tls;
  uint32_t workers = std::max(1u, std::thread::hardware_concurrency());
  bool slurm = false;
  std::vector<std::string> sbatch_arguments;

  void AddTo(Arguments& arguments) {
    arguments.Text(
        "--out DIR", out,
        "Folder for results, JSON and plots; all workers must see it");
    arguments.Number("--workers", workers, 1, 10000, "How many");
    arguments.Flag("--slurm", slurm, "Workers are an array job of Slurm's");
    arguments
        .Texts("--sbatch ARG", sbatch_arguments,
               "For sbatch, with --slurm: --sbatch=--partition=short")
        .OneAtATime();
    arguments
        .Texts("--etcd URL", etcd,
               "https://HOST:PORT, http://HOST:PORT, for each member once; "
               "without it, one is started for workers on this machine")
        .OneAtATime();
    arguments.Text("--tls-cert FILE", tls.certificate,
                   "For https: the workers' certificate");
    arguments.Text("--tls-key FILE", tls.key, "Its key");
    arguments.Text("--tls-ca FILE", tls.ca, "etcd's CA");
  }
};

absl::Status Check(const Options& options) {
  if (options.out.empty()) {
    return absl::InvalidArgumentError(
        "--out DIR is missing: where workers put their results");
  }
  if (options.slurm && options.etcd.empty()) {
    return absl::InvalidArgumentError(
        "--slurm needs --etcd: workers on other machines claim their runs "
        "there");
  }
  const auto is = [&](std::string_view scheme) {
    return std::ranges::any_of(options.etcd, [&](const std::string& member) {
      return member.starts_with(scheme);
    });
  };
  if (options.slurm && is("unix:")) {
    return absl::InvalidArgumentError(
        "--slurm: workers on other machines cannot open a unix: etcd");
  }
  if (options.tls.any() && !is("https://")) {
    return absl::InvalidArgumentError(
        "--tls-cert, --tls-key and --tls-ca are for an --etcd of https://");
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

// Workers may start elsewhere.
std::string Absolute(const std::string& path) {
  return fs::absolute(path).lexically_normal().string();
}

// Whether a run's result, which is much smaller, has room there.
bool HasRoom(const std::string& directory) {
  constexpr off_t kBytes = 64 << 10;
  std::string path = directory + "/.room-XXXXXX";
  const UniqueFd fd(mkstemp(path.data()));
  if (!fd) return errno != ENOSPC && errno != EDQUOT;
  const int error = posix_fallocate(fd.get(), 0, kBytes);
  unlink(path.c_str());
  return error != ENOSPC && error != EDQUOT;
}

// `status`, or that the folder is full: which may look like anything else, since
// workers have no room to say what they lack either.
absl::Status ExplainFullFolder(const absl::Status& status,
                               const std::string& directory,
                               const RunSet& runs) {
  if (status.ok() || absl::IsCancelled(status) || absl::IsDataLoss(status) ||
      HasRoom(directory)) {
    return status;
  }
  size_t kept = 0;
  for (size_t run = 0; run < runs.size(); ++run) kept += runs.HasResult(run);
  return absl::ResourceExhaustedError(
      fmt::format("{} is full: free space and repeat the command; {} of {} "
                  "results are kept ({})",
                  directory, kept, runs.size(), status.message()));
}

class Sweep {
 public:
  Sweep(const Options& options, const std::string& directory,
        const RunSet& runs, Console& console)
      : options_(options),
        directory_(directory),
        runs_(runs),
        console_(console) {}

  // Until every run has a result.
  absl::Status Run(SweepFile file) {
    RETURN_IF_ERROR(plots::CheckWritable(directory_));
    ASSIGN_OR_RETURN(const auto alone, Lock());
    RETURN_IF_ERROR(PrepareFolders());
    for (size_t run = 0; run < runs_.size(); ++run) {
      if (!runs_.HasResult(run)) left_.push_back(run);
    }
    if (left_.empty()) return absl::OkStatus();
    std::optional<TempDirectory> place;
    std::optional<mesh::OwnEtcd> own;
    file.runs = RunsHash(runs_);
    file.etcd = options_.etcd;
    file.tls = options_.tls;
    for (std::string* const path :
         {&file.tls.certificate, &file.tls.key, &file.tls.ca}) {
      if (!path->empty()) *path = Absolute(*path);
    }
    if (file.etcd.empty()) {
      ASSIGN_OR_RETURN(auto made, TempDirectory::Make());
      const std::string& folder = place.emplace(std::move(made)).path();
      auto started =
          mesh::OwnEtcd::Start({.folder = folder, .log_path = folder + "/log"},
                               [this] { return stop_.Take() > 0; });
      if (absl::IsNotFound(started.status())) {
        return WithHint(
            started.status(),
            HintOf(started.status()) + ", or name one that runs with --etcd");
      }
      RETURN_IF_ERROR(started.status());
      own.emplace(*std::move(started));
      file.etcd = {own->address()};
    } else {
      RETURN_IF_ERROR(CheckEtcd());
    }
    // Workers of a sweep that was cut off may live on: their claims hold.
    const auto before = ReadSweepFile(directory_);
    const bool goes_on =
        before.ok() && before->runs == file.runs && before->etcd == file.etcd;
    file.id = goes_on ? before->id : NewId();
    RETURN_IF_ERROR(WriteSweepFile(directory_, file));
    ASSIGN_OR_RETURN(const auto workers,
                     options_.slurm
                         ? StartSlurmArray(directory_, options_.workers,
                                           options_.sbatch_arguments)
                         : StartHere(directory_, options_.workers));
    return Await(*workers);
  }

 private:
  // So that no other sweep of this machine uses the folder meanwhile.
  absl::StatusOr<UniqueFd> Lock() const {
    const std::string path = directory_ + "/lock";
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) {
      return absl::PermissionDeniedError(
          fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    return absl::FailedPreconditionError(
        fmt::format("another carillon sweep works on {}", directory_));
  }

  // Failures of an earlier sweep are forgotten.
  absl::Status PrepareFolders() const {
    std::error_code error;
    const std::string failed = directory_ + "/failed";
    fs::create_directories(RunsFolder(directory_), error);
    if (!error) fs::create_directories(failed, error);
    for (size_t run = 0; run < runs_.size() && !error; ++run) {
      fs::remove(failed + "/" + runs_.NameOf(run), error);
    }
    if (!error) return absl::OkStatus();
    return absl::PermissionDeniedError(
        fmt::format("cannot use {}: {}", directory_, error.message()));
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

  // Drops what has ended. Errors: a run's failure.
  absl::Status Look() {
    absl::Status failure;
    // Of all: a run may have a result and, of a second worker, another one.
    for (size_t run = 0; run < runs_.size() && failure.ok(); ++run) {
      const absl::Status failed = FailureOf(directory_, runs_.NameOf(run));
      if (failed.ok()) continue;
      failure = absl::Status(
          failed.code(),
          fmt::format("{}: {}", runs_.TitleOf(run), failed.message()));
    }
    std::erase_if(left_, [&](size_t run) { return runs_.HasResult(run); });
    return failure;
  }

  absl::Status Await(WorkerGroup& workers) {
    auto said_at = Clock::now();
    while (true) {
      std::vector<std::string> said;
      // Asked first: what ends between the two questions is no loss.
      ASSIGN_OR_RETURN(const bool working, workers.Working(said));
      if (!said.empty() && !HasRoom(directory_)) {
        return absl::UnavailableError(said.front());
      }
      for (const std::string& line : said) console_.Say(line);
      RETURN_IF_ERROR(Look());
      const std::string progress = fmt::format(
          "{} of {} runs", runs_.size() - left_.size(), runs_.size());
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
  const RunSet& runs_;
  Console& console_;
  std::vector<size_t> left_;   // runs without a result
  testbed::StopSignals stop_;  // before gRPC has threads
};

absl::Status SweepFigures(const Options& options, const FigureChoice& figures,
                          Console& console) {
  if (figures.names.empty()) {
    return WithHint(absl::InvalidArgumentError("no figure is given"),
                    "carillon sim figure lists them");
  }
  RETURN_IF_ERROR(Check(options));
  SweepFile file{.figures = figures};
  // A preset, or a file.
  if (fs::exists(figures.gpu)) file.figures.gpu = Absolute(figures.gpu);
  const std::string directory = Absolute(options.out);
  ASSIGN_OR_RETURN(const auto runs, MakeRunSet(file, directory));
  absl::Status status = Sweep(options, directory, *runs, console).Run(file);
  if (status.ok()) status = MakeFigures(figures, options.out, 1, console);
  return ExplainFullFolder(status, directory, *runs);
}

// A table of verdicts, and how to see again what does not hold.
absl::Status ReportFaults(const FaultRuns& runs, Console& console) {
  struct Verdicts {
    uint64_t ok = 0;
    uint64_t violated = 0;
  };
  std::map<std::string, Verdicts> plans;
  Json violated = Json::array();
  for (size_t run = 0; run < runs.size(); ++run) {
    ASSIGN_OR_RETURN(const auto result, runs.ResultOf(run));
    Verdicts& verdicts = plans[runs.PlanOf(run)];
    if (result.value("verdict", "") == "ok") {
      ++verdicts.ok;
      continue;
    }
    ++verdicts.violated;
    console.Say(fmt::format("{} does not hold; replay with: {}",
                            runs.TitleOf(run), result.value("replay", "")));
    violated.push_back(result);
  }
  Table table({"PLAN", ">OK", ">VIOLATED"});
  Json list = Json::array();
  for (const auto& [plan, verdicts] : plans) {
    table.AddRow(plan, verdicts.ok, verdicts.violated);
    list.push_back(
        {{"plan", plan}, {"ok", verdicts.ok}, {"violated", verdicts.violated}});
  }
  const size_t count = violated.size();
  console.Print({{"plans", list}, {"violated", std::move(violated)}}, table);
  if (count == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("what must hold does not hold in {}",
                                         FormatPlural(count, "run")));
}

absl::Status SweepFaults(const Options& options, FaultChoice faults,
                         const std::string& seeds, Console& console) {
  RETURN_IF_ERROR(Check(options));
  const size_t dash = seeds.find('-');
  const auto first = ReadInteger(seeds.substr(0, dash), 0, UINT64_MAX);
  const auto last = dash == std::string::npos
                        ? first
                        : ReadInteger(seeds.substr(dash + 1), 0, UINT64_MAX);
  if (!first.ok() || !last.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("--seeds {}: one or two numbers are wanted, as 7 or 1-200",
                    Quote(seeds)));
  }
  faults.first_seed = *first;
  faults.last_seed = *last;
  for (std::string& plan : faults.plans) plan = Absolute(plan);
  const std::string directory = Absolute(options.out);
  ASSIGN_OR_RETURN(const auto runs, FaultRuns::Make(faults, directory));
  RETURN_IF_ERROR(ExplainFullFolder(Sweep(options, directory, *runs, console)
                                        .Run({.faults = std::move(faults)}),
                                    directory, *runs));
  return ReportFaults(*runs, console);
}

}  // namespace

Run MakeSweepFaults(Arguments& arguments, Console& console) {
  struct All {
    Options options;
    FaultChoice faults;
    std::string seeds = "1-100";
  };
  auto all = std::make_shared<All>();
  arguments
      .Texts("plan PLAN...", all->faults.plans,
             "Plans with a topology; docs/faults.md says what they hold")
      .Required();
  arguments.Text("--seeds FIRST-LAST", all->seeds,
                 "Each plan runs once with each, in place of its own seed");
  all->options.AddTo(arguments);
  return [all, &console]() {
    return SweepFaults(all->options, all->faults, all->seeds, console);
  };
}

Run MakeSweepFigure(Arguments& arguments, Console& console) {
  struct All {
    Options options;
    FigureChoice figures;
  };
  auto all = std::make_shared<All>();
  arguments.Texts("figures FIGURE", all->figures.names, "Which, or all");
  all->options.AddTo(arguments);
  all->figures.AddOptions(arguments);
  return [all, &console]() {
    return SweepFigures(all->options, all->figures, console);
  };
}

Run MakeSweepWork(Arguments& arguments, Console& console) {
  auto directory = std::make_shared<std::string>();
  arguments.Text("directory DIR", *directory, "The --out of the sweep")
      .Required();
  return [directory, &console]() { return WorkOn(*directory, console); };
}

}  // namespace carillon::cli
