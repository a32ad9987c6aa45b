#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "sim/experiments/experiment.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/figures.h"

namespace carillon::cli {
namespace {

using sim::figures::Experiment;
using sim::figures::Experiments;

struct Options {
  FigureChoice choice;
  std::string out;
  uint32_t jobs = std::max(1u, std::thread::hardware_concurrency());
};

absl::Status List(const FigureChoice& choice, Console& console) {
  Table table({"FIGURE", ">JOBS", "WHAT IT SHOWS"});
  Json figures = Json::array();
  for (const Experiment& experiment : Experiments()) {
    const size_t jobs =
        experiment.jobs({.quick = choice.quick, .seed = choice.seed}).size();
    table.AddRow(experiment.name, jobs, experiment.title);
    figures.push_back({{"figure", experiment.name},
                       {"jobs", jobs},
                       {"title", experiment.title}});
  }
  console.Print({{"figures", figures}}, table);
  return absl::OkStatus();
}

}  // namespace

Run MakeSimFigure(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("figures FIGURE", options->choice.names,
                  "Which, or all; without any: says which there are");
  arguments.Text(
      "--out DIR", options->out,
      "Folder for JSON, plots, and the runs' results, which are not run "
      "again");
  arguments.Number("--jobs", options->jobs, 1, 256, "Runs at once");
  options->choice.AddOptions(arguments);
  return [options, &console]() {
    if (options->choice.names.empty()) return List(options->choice, console);
    return MakeFigures(options->choice, options->out, options->jobs, console);
  };
}

}  // namespace carillon::cli
