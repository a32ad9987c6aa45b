#include "tools/bench/narrow/cells.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/bench/narrow/narrow_run.h"
#include "tools/cli/ui/table.h"

namespace carillon::bench {
namespace {

std::vector<RoundValues> ValuesOf(const NarrowCell& cell,
                                  double NarrowSummary::*field) {
  std::vector<RoundValues> values;
  for (const auto& round : cell.rounds) {
    RoundValues one;
    for (const NarrowSummary& summary : round) one.push_back(summary.*field);
    values.push_back(std::move(one));
  }
  return values;
}

Range RangeOf(const NarrowCell& cell, double NarrowSummary::*field,
              double scale) {
  std::vector<double> runs;
  for (const RoundValues& round : ValuesOf(cell, field)) {
    runs.insert(runs.end(), round.begin(), round.end());
  }
  return Scaled(bench::RangeOf(std::move(runs)), scale);
}

// No runs if one of them was not measured.
Range Ratio(const NarrowCell* of, const NarrowCell* to,
            double NarrowSummary::*field = &NarrowSummary::tasks_per_second) {
  if (of == nullptr || to == nullptr) return {};
  return bench::RangeOf(PairRatios(ValuesOf(*of, field), ValuesOf(*to, field)));
}

// What the paper's Fig. 8 has of irregular tasks, over HyperQ.
std::string_view PaperOfIrregular(std::string_view path) {
  if (path == "pagoda") return " (paper: 1.8)";
  if (path == "fusion") return " (paper: 0.9)";
  return "";
}

}  // namespace

void NarrowCell::Add(size_t round, NarrowOutcome outcome) {
  const NarrowSummary summary = Summarize(outcome);
  if (rounds.size() <= round) rounds.resize(round + 1);
  rounds[round].push_back(summary);
  fmt::print(stderr, "  {} {} {}{}: {} tasks/s\n", part, workload, path,
             threads == 0 ? "" : fmt::format(" {} threads", threads),
             Short(summary.tasks_per_second));
  outcome.tasks.clear();
  last = std::move(outcome);
}

void NarrowCell::Refuse(const absl::Status& why) {
  refused = std::string(why.message());
  fmt::print(stderr, "  {} {} {}: {}\n", part, workload, path, refused);
}

void NarrowCell::Fail(const absl::Status& why) {
  failed = why;
  fmt::print(stderr, "  {} {} {}: {}\n", part, workload, path, why.message());
}

const NarrowCell* NarrowReport::Find(std::string_view part,
                                     std::string_view workload,
                                     std::string_view path,
                                     uint32_t threads) const {
  for (const NarrowCell& cell : cells) {
    if (cell.part == part && cell.workload == workload && cell.path == path &&
        cell.threads == threads && cell.measured()) {
      return &cell;
    }
  }
  return nullptr;
}

Range NarrowReport::OverBase(const NarrowCell& cell) const {
  return Ratio(&cell, Find(cell.part, cell.workload, base, cell.threads));
}

Json NarrowReport::ToJson(const NarrowCell& cell) const {
  Json json = {{"part", cell.part},
               {"workload", cell.workload},
               {"path", cell.path},
               {"tasks", cell.tasks}};
  if (cell.threads != 0) json["threads"] = cell.threads;
  if (!cell.refused.empty()) {
    json["status"] = "refused";
    json["reason"] = cell.refused;
    return json;
  }
  if (!cell.failed.ok()) {
    json["status"] = "failed";
    json["reason"] = std::string(cell.failed.message());
    return json;
  }
  json["status"] = "measured";
  json["tasks_per_second"] =
      RangeToJson(RangeOf(cell, &NarrowSummary::tasks_per_second, 1));
  json["total_us"] = RangeToJson(RangeOf(cell, &NarrowSummary::total_ns, 1e-3));
  json["response_mean_us"] =
      RangeToJson(RangeOf(cell, &NarrowSummary::mean_ns, 1e-3));
  json["response_p99_us"] =
      RangeToJson(RangeOf(cell, &NarrowSummary::p99_ns, 1e-3));
  const Range ratio = OverBase(cell);
  if (ratio.runs != 0) json["over_baseline"] = RangeToJson(ratio);
  if (simulated()) {
    json["launches"] = cell.last.launches;
    json["warp_instructions"] = cell.last.warp_instructions;
    json["simulated_in_s"] = cell.last.wall_seconds;
  }
  return json;
}

// Over all workloads that both were measured with.
Range NarrowReport::Geomean(std::string_view part, std::string_view of,
                            std::string_view to,
                            double NarrowSummary::*field) const {
  double sum = 0;
  size_t count = 0;
  for (const std::string& name : workloads) {
    const Range ratio =
        Ratio(Find(part, name, of), Find(part, name, to), field);
    if (ratio.runs == 0) continue;
    sum += std::log(ratio.median);
    ++count;
  }
  if (count == 0) return {};
  const double mean = std::exp(sum / static_cast<double>(count));
  return {.runs = 1, .median = mean, .low = mean, .high = mean};
}

std::vector<Figure> NarrowReport::FiguresOf(const std::string& part) const {
  std::vector<Figure> figures;
  const bool irregular = part == "irregular";
  const std::string with = part == "copies" ? " with copies"
                           : irregular      ? ", irregular tasks"
                                            : "";
  const std::string suffix = part == "copies" ? "_with_copies"
                             : irregular      ? "_irregular"
                                              : "";
  for (const std::string& path : paths) {
    if (path == base) continue;
    const Range mean = Geomean(part, path, base);
    if (mean.runs == 0) continue;
    Figure figure{
        .name = fmt::format("geomean_{}_over_{}{}", path, base, suffix),
        .what = fmt::format("{} over {}{}, tasks/s, geomean{}", path, base,
                            with, irregular ? PaperOfIrregular(path) : ""),
        .unit = "x",
        .value = mean};
    // Pagoda's Fig. 6.
    if (simulated() && path == "pagoda" && part == "copies") {
      figure.wish = Figure::Wish::kAtLeast;
      figure.target = 1.76;
    }
    figures.push_back(std::move(figure));
  }
  if (irregular) AddResponses(figures);
  const Range batching = Geomean(part, "pagoda", "pagoda_batches");
  if (batching.runs == 0) return figures;
  Figure figure{.name = "geomean_pagoda_over_pagoda_batches" + suffix,
                .what = "what batches cost Pagoda" + with,
                .unit = "x",
                .value = batching};
  // Fig. 10 has 1.29.
  if (simulated()) {
    figure.wish = Figure::Wish::kAtLeast;
    figure.target = 1.2;
  }
  figures.push_back(std::move(figure));
  return figures;
}

void NarrowReport::AddResponses(std::vector<Figure>& figures) const {
  for (const char* const path : {"fusion", "batches"}) {
    const Range mean =
        Geomean("irregular", path, "pagoda", &NarrowSummary::mean_ns);
    if (mean.runs == 0) continue;
    figures.push_back(
        {.name = fmt::format("response_{}_over_pagoda_irregular", path),
         .what = fmt::format("{}'s mean response over pagoda's, irregular "
                             "tasks, geomean (paper: 1.4 to 5.4)",
                             path),
         .unit = "x",
         .value = mean});
  }
}

BenchResult NarrowReport::ToResult() const {
  BenchResult result;
  Json rows = Json::array();
  for (const NarrowCell& cell : cells) {
    rows.push_back(ToJson(cell));
    if (cell.failed.ok()) continue;
    // A wrong result is the worst.
    if (result.status.ok() || absl::IsDataLoss(cell.failed)) {
      result.status = cell.failed;
    }
  }
  Json absent = Json::array();
  for (const auto& [path, reason, part] : left_out) {
    absent.push_back({{"path", path}, {"reason", reason}});
    if (!part.empty()) absent.back()["part"] = part;
  }
  result.extra = {{"backend", backend},      {"conditions", conditions},
                  {"batch", batch},          {"seed", seed},
                  {"paths", paths},          {"base", base},
                  {"left_out", absent},      {"workloads", workloads},
                  {"cells", std::move(rows)}};
  if (!driver.empty()) result.extra["driver"] = driver;
  for (const char* const part : {"tasks", "copies", "irregular"}) {
    if (!driver.empty()) break;  // no figures
    for (Figure& figure : FiguresOf(part)) {
      result.figures.push_back(std::move(figure));
    }
  }
  result.extra_table = Tables();
  return result;
}

std::string NarrowReport::Tables() const {
  std::string text;
  if (!driver.empty()) text += fmt::format("{}\n\n", driver);
  for (const std::string& part : NarrowParts()) {
    cli::Table table({"workload", "path", ">threads", ">tasks", ">tasks/s",
                      ">mean us", ">p99 us",
                      cli::Column("over " + base, cli::Align::kRight)});
    std::string notes;
    for (const NarrowCell& cell : cells) {
      if (cell.part != part) continue;
      if (!cell.measured()) {
        notes += fmt::format("{} on {}: {}\n", cell.workload, cell.path,
                             cell.refused.empty()
                                 ? std::string(cell.failed.message())
                                 : cell.refused);
        continue;
      }
      const auto median = [&](double NarrowSummary::*field, double scale) {
        return Short(RangeOf(cell, field, scale).median);
      };
      const Range ratio = OverBase(cell);
      table.AddRow(
          cell.workload, cell.path,
          cell.threads == 0 ? "" : std::to_string(cell.threads), cell.tasks,
          median(&NarrowSummary::tasks_per_second, 1),
          median(&NarrowSummary::mean_ns, 1e-3),
          median(&NarrowSummary::p99_ns, 1e-3),
          ratio.runs == 0 ? "-" : fmt::format("{:.2f}x", ratio.median));
    }
    if (table.empty() && notes.empty()) continue;
    text += fmt::format("{}\n{}{}\n", part, table.ToString(false), notes);
  }
  for (const auto& [path, reason, part] : left_out) {
    text += fmt::format("{}without {}: {}\n", part.empty() ? "" : part + " ",
                        path, reason);
  }
  return text + (left_out.empty() ? "" : "\n");
}

}  // namespace carillon::bench
