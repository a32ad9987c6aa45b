#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "base/status.h"
#include "sim/exec/functional.h"
#include "tools/cfg_sim/graph.h"
#include "tools/cfg_sim/profile.h"
#include "tools/cfg_sim/walk.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/kernel_arguments.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

using cfg_sim::Activity;
using cfg_sim::Graph;
using cfg_sim::View;

struct Options {
  std::vector<std::string> inputs;
  std::string ptx;
  std::string kernel;
  std::string grid = "1";
  std::string block = "32";
  uint32_t warps = 100'000;
  uint32_t seed = 1;
};

// Active lanes are counted in groups of four, as in the thesis's Figure 3.10.
constexpr uint32_t kGroup = 4;

Json GroupsOf(const Activity& activity) {
  Json groups = Json::array();
  for (uint32_t first = 1; first <= cfg_sim::kLanes; first += kGroup) {
    uint64_t sum = 0;
    for (uint32_t k = first; k < first + kGroup; ++k) {
      sum += activity.with_lanes[k];
    }
    groups.push_back(activity.instructions == 0
                         ? 0.0
                         : static_cast<double>(sum) /
                               static_cast<double>(activity.instructions));
  }
  return groups;
}

// What is told, one row after the other.
class Report {
 public:
  void Add(const std::string& branches, const Activity& activity) {
    rows_.push_back(
        {{"branches", branches},
         {"efficiency", activity.efficiency()},
         {"warps", activity.warps},
         {"instructions_per_warp",
          static_cast<double>(activity.instructions) /
              static_cast<double>(std::max<uint64_t>(activity.warps, 1))},
         {"by_active_lanes", GroupsOf(activity)}});
  }
  void Print(Json document, Console& console) const {
    if (console.json()) {
      document["rows"] = rows_;
      return console.PrintDocument(document);
    }
    std::vector<Column> headings = {"BRANCHES", ">SIMT EFFICIENCY, %",
                                    ">INSTRUCTIONS A WARP"};
    for (uint32_t first = 1; first <= cfg_sim::kLanes; first += kGroup) {
      headings.emplace_back(fmt::format("{}-{}", first, first + kGroup - 1),
                            Align::kRight);
    }
    Table table(headings);
    for (const Json& row : rows_) {
      std::vector<std::string> cells = {
          row["branches"],
          fmt::format("{:.2f}", 100 * row["efficiency"].get<double>()),
          fmt::format("{:.1f}", row["instructions_per_warp"].get<double>())};
      for (const Json& part : row["by_active_lanes"]) {
        cells.push_back(fmt::format("{:.1f}", 100 * part.get<double>()));
      }
      table.AddRow(std::move(cells));
    }
    console.Print(table);
  }

 private:
  Json rows_ = Json::array();
};

Json MeetingPoints(const Graph& graph) {
  Json meets = Json::object();
  for (const cfg_sim::Node& node : graph.nodes) {
    meets[node.name] = node.meets == cfg_sim::kEnd
                           ? Json()
                           : Json(graph.nodes[node.meets].name);
  }
  return meets;
}

absl::Status TellOfDot(const Options& options, Console& console) {
  if (options.inputs.size() != 1) {
    return absl::InvalidArgumentError(
        "name one file in the DOT language, or --from-ptx FILE");
  }
  const std::string& file = options.inputs[0];
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file, "graph"));
  const auto graph = cfg_sim::ReadDot(text);
  if (!graph.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", file, graph.status().message()));
  }
  ASSIGN_OR_RETURN(const Activity activity,
                   cfg_sim::Walk({&*graph, 1}, {.warps = options.warps,
                                                .seed = options.seed}));
  Report report;
  report.Add("as the graph says", activity);
  report.Print({{"graph", graph->name}, {"meets", MeetingPoints(*graph)}},
               console);
  return absl::OkStatus();
}

absl::Status TellOfPtx(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto grid, ParseDimensions(options.grid));
  ASSIGN_OR_RETURN(const auto block, ParseDimensions(options.block));
  sim::Memory memory;
  ASSIGN_OR_RETURN(const auto program, LoadProgram(options.ptx, &memory));
  ASSIGN_OR_RETURN(const auto function,
                   ChooseKernel(*program->module, options.kernel));
  const sim::ProgramFunction& kernel = *program->FindEntry(function->name);
  if (!kernel.refused.empty()) return absl::UnimplementedError(kernel.refused);
  cfg_sim::Profile profile(program.get());
  const bool runs = !options.inputs.empty() || function->parameters.empty();
  std::vector<uint32_t> lanes = {cfg_sim::kLanes};
  if (runs) {
    ASSIGN_OR_RETURN(const auto arguments,
                     ParseKernelArguments(*function, options.inputs, &memory));
    sim::PrintBuffer printed;
    sim::FunctionalGpu gpu(
        &memory,
        {.alone = true,
         .observer = [&](const sim::Warp& warp) { profile.Observe(warp); },
         .printed = &printed});
    RETURN_IF_ERROR(gpu.Run({.program = program.get(),
                             .kernel = &kernel,
                             .grid = grid,
                             .block = block,
                             .parameters = arguments.bytes})
                        .status());
    // The last warp of a block may have fewer threads.
    lanes.clear();
    for (uint64_t left = block.count(); left > 0;) {
      lanes.push_back(
          static_cast<uint32_t>(std::min<uint64_t>(left, cfg_sim::kLanes)));
      left -= lanes.back();
    }
  }
  Report report;
  const auto add = [&](const std::string& name, View view) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Graph> graphs,
                     profile.Graphs(kernel, view));
    for (const Graph& graph : graphs) {
      const absl::Status status = cfg_sim::Check(graph);
      if (!status.ok()) {
        return absl::InvalidArgumentError(fmt::format(
            "{}: with branches {}: {}", graph.name, name, status.message()));
      }
    }
    ASSIGN_OR_RETURN(const Activity activity,
                     cfg_sim::Walk(graphs, {.warps = options.warps,
                                            .seed = options.seed,
                                            .lanes = lanes}));
    report.Add(name, activity);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("all alike", View::kEqual));
  if (runs) {
    RETURN_IF_ERROR(add("alike, none that was never taken", View::kAugmented));
    RETURN_IF_ERROR(add("as measured", View::kMeasured));
    RETURN_IF_ERROR(add("as measured, visit by visit", View::kByVisit));
    report.Add("measured, no walk", profile.Measured());
  }
  report.Print({{"kernel", function->name}}, console);
  return absl::OkStatus();
}

}  // namespace

Run MakeCfgSim(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Texts("inputs INPUT", options->inputs,
                  "A file in the DOT language; with --from-ptx, the kernel's "
                  "arguments, as of `sim run`: then it is run, and its "
                  "branches are measured");
  arguments.Text("--from-ptx FILE", options->ptx,
                 "The graph of a kernel of this PTX text");
  arguments.Text("--kernel KERNEL", options->kernel,
                 "Which; not needed when the file has one");
  arguments.Text("--grid DIM", options->grid, "Thread blocks, to measure");
  arguments.Text("--block DIM", options->block, "Threads of each");
  arguments.Number("--warps COUNT", options->warps, 1, 1u << 30,
                   "How many walk through the graph");
  arguments.Number("--seed SEED", options->seed, 0, 1u << 31,
                   "Of what they draw");
  return [options, &console]() {
    return options->ptx.empty() ? TellOfDot(*options, console)
                                : TellOfPtx(*options, console);
  };
}

}  // namespace carillon::cli
