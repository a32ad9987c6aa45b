#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "sim/experiments/experiment.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/figure_document.h"
#include "tools/plots/document.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;
using sim::figures::Experiment;
using sim::figures::Experiments;

struct Options {
  std::vector<std::string> names;
  std::string out;
  std::string gpu = "edge_table2";
  uint32_t jobs = std::max(1u, std::thread::hardware_concurrency());
  uint32_t seed = 1;
  bool quick = false;
};

absl::StatusOr<std::vector<const Experiment*>> Choose(
    const std::vector<std::string>& names) {
  std::vector<const Experiment*> chosen;
  for (const std::string& name : names) {
    bool known = false;
    for (const Experiment& experiment : Experiments()) {
      if (name != "all" && name != experiment.name) continue;
      known = true;
      if (std::ranges::find(chosen, &experiment) == chosen.end()) {
        chosen.push_back(&experiment);
      }
    }
    if (known) continue;
    std::vector<std::string_view> all;
    for (const Experiment& experiment : Experiments()) {
      all.push_back(experiment.name);
    }
    return absl::NotFoundError(
        fmt::format("there is no figure {}; there are {}, and all", Quote(name),
                    fmt::join(all, ", ")));
  }
  return chosen;
}

absl::Status List(const Options& options, Console& console) {
  Table table({"FIGURE", ">JOBS", "WHAT IT SHOWS"});
  Json figures = Json::array();
  for (const Experiment& experiment : Experiments()) {
    const size_t jobs =
        experiment.jobs({.quick = options.quick, .seed = options.seed}).size();
    table.AddRow(experiment.name, jobs, experiment.title);
    figures.push_back({{"figure", experiment.name},
                       {"jobs", jobs},
                       {"title", experiment.title}});
  }
  console.Print({{"figures", figures}}, table);
  return absl::OkStatus();
}

// Shows the progress: in place on a terminal, otherwise with a line now and
// then.
class Progress {
 public:
  explicit Progress(Console& console) : console_(console) {}

  void operator()(const sim::figures::JobProgress& job) {
    ++runs_;
    kept_ += job.cached;
    seconds_ += job.seconds;
    if (console_.err_is_terminal()) {
      console_.SayInPlace(fmt::format("{} of {} runs, last {} ({:.1f} s)",
                                      job.done, job.total, job.job.name,
                                      job.seconds));
      return;
    }
    const auto now = Clock::now();
    if (job.done < job.total && now - said_ < std::chrono::seconds(20)) return;
    said_ = now;
    console_.Say(fmt::format("{} of {} runs", job.done, job.total));
  }

  // Says how long all runs took, those of earlier calls included.
  void SayTotal(uint32_t at_once) const {
    const std::chrono::duration<double> now = Clock::now() - begun_;
    console_.Say(fmt::format(
        "{} runs, {} of them kept from before: {:.1f} min now, {} at once; all "
        "of them took {:.1f} min of a processor, so {:.1f} min on 2 cores",
        runs_, kept_, now.count() / 60, at_once, seconds_ / 60,
        seconds_ / 2 / 60));
  }

 private:
  Console& console_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point said_ = Clock::now();
  size_t runs_ = 0;
  size_t kept_ = 0;
  double seconds_ = 0;
};

absl::Status MakeFigures(const Options& options, Console& console) {
  if (options.names.empty()) return List(options, console);
  ASSIGN_OR_RETURN(const auto chosen, Choose(options.names));
  if (!options.out.empty()) {
    RETURN_IF_ERROR(plots::CheckWritable(options.out));
  }
  ASSIGN_OR_RETURN(const auto config, sim::timing::LoadConfig(options.gpu));
  const sim::figures::ExperimentOptions experiment_options{
      .quick = options.quick, .seed = options.seed};

  std::vector<sim::figures::Job> jobs;
  for (const Experiment* experiment : chosen) {
    std::ranges::move(experiment->jobs(experiment_options),
                      std::back_inserter(jobs));
  }
  Progress progress(console);
  ASSIGN_OR_RETURN(
      const auto results,
      sim::figures::RunJobs(
          jobs, config,
          {.threads = options.jobs,
           .cache = options.out.empty() ? "" : options.out + "/runs",
           .progress = [&](const sim::figures::JobProgress& job) {
             progress(job);
           }}));

  Json documents = Json::object();
  for (const Experiment* experiment : chosen) {
    Json document{{"figure", experiment->name},
                  {"title", experiment->title},
                  {"gpu", config.name},
                  {"quick", options.quick},
                  {"seed", options.seed}};
    document.update(experiment->figure(results, experiment_options));
    if (!console.json()) PrintFigure(document, console);
    if (!options.out.empty()) {
      RETURN_IF_ERROR(
          WriteFigure(options.out, experiment->name, document, console));
    }
    documents[std::string(experiment->name)] = std::move(document);
  }
  if (console.json()) console.PrintDocument(documents);
  progress.SayTotal(options.jobs);
  return absl::OkStatus();
}

}  // namespace

Run MakeSimFigure(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("figures FIGURE", options->names,
                  "Which, or all; without any: says which there are");
  arguments.Text(
      "--out DIR", options->out,
      "Folder for JSON, plots, and the runs' results, which are not run "
      "again");
  arguments.Flag("--quick", options->quick,
                 "Small workloads on 2 SMs: shows that it runs, no figures");
  arguments.Number("--jobs", options->jobs, 1, 256, "Runs at once");
  arguments.Number("--seed SEED", options->seed, 0, 1u << 31,
                   "Of workloads and of the events' times");
  arguments.Text("--gpu GPU", options->gpu,
                 "edge_table2, or another: see sim run");
  return [options, &console]() { return MakeFigures(*options, console); };
}

}  // namespace carillon::cli
