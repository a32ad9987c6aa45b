#include "tools/bench/launch/launch_summary.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "fmt/format.h"
#include "tools/bench/launch/samples.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

using Pointer = Json::json_pointer;

bool Disturbed(const Json& run) { return run.value("disturbed", false); }

std::vector<const Json*> RunsThatCount(const LaunchCell& cell) {
  const bool any_quiet = std::ranges::any_of(
      cell.runs, [](const Json& r) { return !Disturbed(r); });
  std::vector<const Json*> runs;
  for (const Json& run : cell.runs) {
    if (!any_quiet || !Disturbed(run)) runs.push_back(&run);
  }
  return runs;
}

// The value from every run that counts and has it.
std::vector<Json> At(const LaunchCell& cell, const std::string& path) {
  std::vector<Json> values;
  for (const Json* run : RunsThatCount(cell)) {
    if (run->contains(Pointer(path))) values.push_back((*run)[Pointer(path)]);
  }
  return values;
}

std::vector<double> NumbersAt(const LaunchCell& cell, const std::string& path) {
  std::vector<double> numbers;
  for (const Json& value : At(cell, path)) numbers.push_back(value);
  return numbers;
}

Json RangeAt(const LaunchCell& cell, const std::string& path) {
  return RangeToJson(RangeOf(NumbersAt(cell, path)));
}

// The quotient of two numbers of each run.
Range RatioAt(const LaunchCell& cell, const std::string& of,
              const std::string& to) {
  std::vector<double> ratios;
  for (const Json* run : RunsThatCount(cell)) {
    if (!run->contains(Pointer(of)) || !run->contains(Pointer(to))) continue;
    const double base = (*run)[Pointer(to)];
    if (base > 0) ratios.push_back((*run)[Pointer(of)].get<double>() / base);
  }
  return RangeOf(std::move(ratios));
}

Json Head(const LaunchCell& cell) {
  Json json = {{"path", cell.path}, {"workload", cell.workload}};
  if (!cell.failed.empty()) {
    json["status"] = "failed";
    json["reason"] = cell.failed;
  } else if (!cell.refused.empty()) {
    json["status"] = "refused";
    json["reason"] = cell.refused;
  } else {
    json["status"] = "measured";
  }
  json["disturbed_runs"] = std::ranges::count_if(cell.runs, Disturbed);
  return json;
}

// Collects what `fill` makes of each cell, if anything.
Json Summarize(const std::vector<LaunchCell>& cells,
               const std::function<void(const LaunchCell&, Json&)>& fill) {
  Json all = Json::array();
  for (const LaunchCell& cell : cells) {
    Json json = Head(cell);
    if (!cell.runs.empty()) fill(cell, json);
    all.push_back(std::move(json));
  }
  return all;
}

std::vector<RoundValues> ByRound(const LaunchCell& cell,
                                 const std::string& path) {
  std::vector<RoundValues> rounds;
  for (const Json* run : RunsThatCount(cell)) {
    if (!run->contains(Pointer(path))) continue;
    const size_t round = (*run)["round"].get<size_t>() - 1;
    if (rounds.size() <= round) rounds.resize(round + 1);
    rounds[round].push_back((*run)[Pointer(path)]);
  }
  return rounds;
}

// A cell without runs if there is none.
const LaunchCell& Find(const std::vector<LaunchCell>& cells,
                       std::string_view path, std::string_view workload) {
  static const auto* const none = new LaunchCell;
  const auto found = std::ranges::find_if(cells, [&](const LaunchCell& cell) {
    return cell.path == path && cell.workload == workload;
  });
  return found == cells.end() ? *none : *found;
}

// "inline": whoever polled the doorbell runs the kernel, too. "hand-off": it
// passes it on to a worker thread, or launches it on the GPU.
std::string HowItRuns(const LaunchCell& cell) {
  const auto is_short = [](const Json& run) {
    return run.value("short_path", false);
  };
  return cell.path == "persistent" || std::ranges::all_of(cell.runs, is_short)
             ? "inline"
             : "hand-off";
}

}  // namespace

std::string DescribeRun(const Json& run) {
  std::string text;
  for (const auto& [path, scale, format] :
       {std::tuple("/round_trips/latency/p50", 1e-3, " p50 {:.2f} us"),
        std::tuple("/round_trips/latency/p99", 1e-3, " p99 {:.2f} us"),
        std::tuple("/pipelined/per_second", 1e-3, " {:.1f} k/s"),
        std::tuple("/load_80/latency/p99", 1e-3, " p99 at 80 % {:.1f} us"),
        std::tuple("/gpud_cpu_percent", 1.0, " gpud {:.1f} % of a CPU"),
        std::tuple("/without/round_trips/latency/p50", 1e-3, " p50 {:.2f} us"),
        std::tuple("/compute/round_trips/latency/p50", 1e-3,
                   ", computing beside {:.2f} us"),
        std::tuple("/memory/round_trips/latency/p50", 1e-3,
                   ", using memory {:.2f} us"),
        std::tuple("/idle/p50", 1e-3, " background beside idle path {:.0f} us"),
        std::tuple("/under_load/p50", 1e-3, ", under load {:.0f} us"),
        std::tuple("/stages/due_to_completed/p50", 1e-3, " p50 {:.1f} us"),
        std::tuple("/idle_watts", 1.0, " idle {:.1f} W"),
        std::tuple("/load_watts", 1.0, " load {:.1f} W")}) {
    text += NumberText(run, path, scale, format);
  }
  if (Disturbed(run)) text += " (disturbed)";
  return text;
}

Json DescribeWorkloads() {
  Json all = Json::array();
  const auto dimensions = [](const edge::Dim3& d) {
    return Json::array({d.x, d.y, d.z});
  };
  for (const Workload& workload : LaunchWorkloads()) {
    all.push_back({{"name", workload.name},
                   {"label", workload.label},
                   {"kernel", workload.kernel},
                   {"grid", dimensions(workload.grid)},
                   {"block", dimensions(workload.block)},
                   {"size", workload.size}});
  }
  return all;
}

Json SummarizeLatency(const std::vector<LaunchCell>& cells) {
  return Summarize(cells, [](const LaunchCell& cell, Json& json) {
    json["kernel_runs"] = HowItRuns(cell);
    json["latency"] = SummarizeSamples(At(cell, "/round_trips/latency"));
    json["per_second"] = RangeAt(cell, "/pipelined/per_second");
    Json load = SummarizeSamples(At(cell, "/load_80/latency"));
    load["per_second"] = RangeAt(cell, "/load_80/per_second");
    const std::vector<Json> kept_up = At(cell, "/load_80/kept_up");
    load["runs"] = kept_up.size();
    load["runs_kept_up"] = std::ranges::count(kept_up, Json(true));
    json["load_80"] = std::move(load);
    json["gpud_cpu_ns_per_event"] = {
        {"one_in_flight",
         RangeAt(cell, "/gpud_cpu_ns_per_event/one_in_flight")},
        {"pipelined", RangeAt(cell, "/gpud_cpu_ns_per_event/pipelined")}};
  });
}

Json SummarizeIdle(const std::vector<LaunchCell>& cells) {
  return Summarize(cells, [](const LaunchCell& cell, Json& json) {
    json["gpud_cpu_percent"] = RangeAt(cell, "/gpud_cpu_percent");
  });
}

Json SummarizeCoRunner(const std::vector<LaunchCell>& cells) {
  return Summarize(cells, [](const LaunchCell& cell, Json& json) {
    const auto path_figures = [&](const std::string& at) {
      return Json{
          {"latency", SummarizeSamples(At(cell, at + "/round_trips/latency"))},
          {"per_second", RangeAt(cell, at + "/pipelined/per_second")}};
    };
    json["without"] = path_figures("/without");
    for (const std::string kind : {"compute", "memory"}) {
      const std::string at = "/" + kind;
      Json beside = path_figures(at);
      for (const char* load : {"idle", "round_trips", "pipelined"}) {
        beside["co_runner_slowdown"][load] = RangeToJson(
            RatioAt(cell, "/alone" + at,
                    fmt::format("{}/{}/steps_per_second", at, load)));
      }
      for (const auto& [key, value] :
           {std::pair("latency_p50_ratio", "/round_trips/latency/p50"),
            std::pair("latency_p99_ratio", "/round_trips/latency/p99"),
            std::pair("rate_ratio", "/pipelined/per_second")}) {
        beside[key] = RangeToJson(
            RatioAt(cell, at + value, fmt::format("/without{}", value)));
      }
      json[kind] = std::move(beside);
    }
  });
}

Json SummarizeBackground(const std::vector<LaunchCell>& cells) {
  return Summarize(cells, [](const LaunchCell& cell, Json& json) {
    for (const std::string when : {"alone", "idle", "under_load"}) {
      json["kernel_ns"][when] = SummarizeSamples(At(cell, "/" + when));
    }
    for (const std::string when : {"idle", "under_load"}) {
      json["slowdown"][when] =
          RangeToJson(RatioAt(cell, "/" + when + "/p50", "/alone/p50"));
    }
    json["load_per_second"] = RangeAt(cell, "/load/per_second");
  });
}

Json SummarizeBreakdown(const std::vector<LaunchCell>& cells) {
  return Summarize(cells, [](const LaunchCell& cell, Json& json) {
    const std::vector<Json> kept_up = At(cell, "/kept_up");
    json["kept_up"] = std::ranges::count(kept_up, Json(false)) == 0;
    std::vector<std::string> stages;
    for (const auto& [name, unused] : cell.runs.front()["stages"].items()) {
      stages.push_back(name);
    }
    for (const std::string& stage : stages) {
      const std::string at = "/stages/" + stage;
      Json& one = json["stages"][stage];
      one = SummarizeSamples(At(cell, at));
      one["mean_ns"] = RangeAt(cell, at + "/mean");
    }
  });
}

Json SummarizePower(const std::vector<LaunchCell>& cells,
                    const std::string& why_not) {
  if (cells.empty()) return {{"measured", false}, {"reason", why_not}};
  const auto fill = [](const LaunchCell& cell, Json& json) {
    for (const char* what : {"idle_watts", "load_watts", "load_per_second"}) {
      const std::string at = fmt::format("/{}", what);
      if (!At(cell, at).empty()) json[what] = RangeAt(cell, at);
    }
  };
  return {{"measured", true}, {"cells", Summarize(cells, fill)}};
}

std::vector<Figure> LaunchFigures(const std::vector<LaunchCell>& latency,
                                  const std::vector<LaunchCell>& background,
                                  bool wishes) {
  using Wish = Figure::Wish;
  constexpr const char* kP50 = "/round_trips/latency/p50";
  const LaunchCell& edge = Find(latency, "edge", "warp");
  const LaunchCell& baseline = Find(latency, "baseline", "warp");
  const LaunchCell& grid = Find(latency, "edge", "tb2");
  const LaunchCell& empty = Find(latency, "edge", "empty");
  const LaunchCell& beside = Find(background, "edge", "warp");
  const auto scaled = [](const LaunchCell& cell, const char* path, double by) {
    return Scaled(RangeOf(NumbersAt(cell, path)), by);
  };
  std::vector<Figure> figures = {
      {"edge_warp_p50", "edge, 1 warp, p50", "us", scaled(edge, kP50, 1e-3),
       Wish::kAtMost, 2.5},
      {"edge_warp_p99_at_80_over_p50",
       "edge, 1 warp, p99 at 80 % of the peak rate / p50", "x",
       RatioAt(edge, "/load_80/latency/p99", kP50), Wish::kAtMost, 2},
      {"edge_tb2_p50", "edge, 2 TBs, p50", "us", scaled(grid, kP50, 1e-3),
       Wish::kAtMost, 5},
      {"baseline_over_edge_warp_p50", "baseline / edge, 1 warp, p50", "x",
       RangeOf(PairRatios(ByRound(baseline, kP50), ByRound(edge, kP50))),
       Wish::kAtLeast, 4.4},
      {"edge_empty_rate", "edge, empty events", "M/s",
       scaled(empty, "/pipelined/per_second", 1e-6), Wish::kAtLeast, 1},
      {"edge_idle_background_slowdown",
       "background kernel beside idle edge / alone", "x",
       RatioAt(beside, "/idle/p50", "/alone/p50")},
  };
  std::erase_if(figures, [](const Figure& one) { return one.value.runs == 0; });
  for (Figure& figure : figures) {
    if (!wishes) figure.wish = Wish::kNone;
  }
  return figures;
}

}  // namespace carillon::bench
