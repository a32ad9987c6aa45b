#include "tools/cli/sim/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "sim/experiments/run_jobs.h"
#include "tools/cli/sim/figure_document.h"
#include "tools/plots/document.h"

namespace carillon::cli {
namespace {

using Clock = std::chrono::steady_clock;
using sim::figures::Experiment;
using sim::figures::Experiments;

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

sim::figures::ExperimentOptions OptionsOf(const FigureChoice& choice) {
  return {.quick = choice.quick, .seed = choice.seed};
}

}  // namespace

void FigureChoice::AddOptions(Arguments& arguments) {
  arguments.Flag("--quick", quick,
                 "Small workloads on 2 SMs: shows that it runs, no figures");
  arguments.Number("--seed SEED", seed, 0, 1u << 31,
                   "Of workloads and of the events' times");
  arguments.Text("--gpu GPU", gpu, "edge_table2, or another: see sim run");
}

absl::StatusOr<FigureRuns> ChooseFigures(const FigureChoice& choice) {
  FigureRuns runs;
  ASSIGN_OR_RETURN(runs.experiments, Choose(choice.names));
  ASSIGN_OR_RETURN(runs.config, sim::timing::LoadConfig(choice.gpu));
  std::set<std::string> names;
  for (const Experiment* experiment : runs.experiments) {
    for (sim::figures::Job& job : experiment->jobs(OptionsOf(choice))) {
      if (names.insert(job.name).second) runs.jobs.push_back(std::move(job));
    }
  }
  return runs;
}

absl::Status MakeFigures(const FigureChoice& choice, const std::string& folder,
                         uint32_t runs_at_once, Console& console) {
  ASSIGN_OR_RETURN(const auto runs, ChooseFigures(choice));
  if (!folder.empty()) RETURN_IF_ERROR(plots::CheckWritable(folder));
  Progress progress(console);
  ASSIGN_OR_RETURN(const auto results,
                   sim::figures::RunJobs(
                       runs.jobs, runs.config,
                       {.threads = runs_at_once,
                        .cache = folder.empty() ? "" : RunsFolder(folder),
                        .progress = [&](const sim::figures::JobProgress& job) {
                          progress(job);
                        }}));

  Json documents = Json::object();
  for (const Experiment* experiment : runs.experiments) {
    Json document{{"figure", experiment->name},
                  {"title", experiment->title},
                  {"gpu", runs.config.name},
                  {"quick", choice.quick},
                  {"seed", choice.seed}};
    document.update(experiment->figure(results, OptionsOf(choice)));
    if (!console.json()) PrintFigure(document, console);
    if (!folder.empty()) {
      RETURN_IF_ERROR(WriteFigure(folder, experiment->name, document, console));
    }
    documents[std::string(experiment->name)] = std::move(document);
  }
  if (console.json()) console.PrintDocument(documents);
  progress.SayTotal(runs_at_once);
  return absl::OkStatus();
}

}  // namespace carillon::cli
