#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tools/bench/launch/launch_summary.h"
#include "tools/cli/ui/table.h"

namespace carillon::bench {
namespace {

using cli::Align;
using cli::Column;

// Three significant digits.
std::string Short(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string Median(const Json& range, double scale) {
  if (!range.is_object() || range["runs"] == 0) return "-";
  return Short(range["median"].get<double>() * scale);
}

std::string WithRange(const Json& range, double scale) {
  if (!range.is_object() || range["runs"] == 0) return "-";
  return fmt::format("{} [{}..{}]", Median(range, scale),
                     Short(range["low"].get<double>() * scale),
                     Short(range["high"].get<double>() * scale));
}

// A table with a row per cell. A cell without measurements gives its reason in
// the first column, or in a line below.
std::string TableOf(std::string_view title, const Json& cells,
                    std::string_view workload, std::vector<Column> columns,
                    std::vector<std::string> (*row)(const Json&)) {
  columns.insert(columns.begin(), {std::string(workload), Align::kLeft});
  columns.insert(columns.begin(), {"path", Align::kLeft});
  cli::Table table(std::move(columns));
  std::string notes;
  for (const Json& cell : cells) {
    std::vector<std::string> line = {cell["path"], cell["workload"]};
    if (cell["status"] == "measured") {
      for (std::string& text : row(cell)) line.push_back(std::move(text));
    } else {
      line.push_back(cell["status"]);
      notes += fmt::format("  {} {}: {}: {}\n", line[0], line[1], line[2],
                           cell["reason"].get<std::string>());
    }
    table.AddRow(std::move(line));
  }
  return fmt::format("{}\n{}{}\n", title, table.ToString(false), notes);
}

Column Right(const char* header) { return {header, Align::kRight}; }

std::string LatencyTable(const Json& cells) {
  return TableOf(
      "doorbell to completion, one event in flight; medians of the runs "
      "[range]; peak rate; gpud's CPU time. inline: whoever polled the "
      "doorbell runs the kernel; hand-off: a worker thread or a launch does",
      cells, "kernel",
      {{"runs", Align::kLeft},
       Right("p50, us"),
       Right("p90"),
       Right("p99"),
       Right("p99.9"),
       Right("rate, k/s"),
       Right("at 80 %: p50, us"),
       Right("p99"),
       Right("CPU us/event"),
       Right("pipelined")},
      [](const Json& cell) -> std::vector<std::string> {
        const Json& latency = cell["latency"];
        const Json& load = cell["load_80"];
        const Json& cpu = cell["gpud_cpu_ns_per_event"];
        std::string p50 = Median(load["p50_ns"], 1e-3);
        if (load["runs"] != load["runs_kept_up"]) p50 += " (fell behind)";
        return {cell["kernel_runs"],
                WithRange(latency["p50_ns"], 1e-3),
                Median(latency["p90_ns"], 1e-3),
                Median(latency["p99_ns"], 1e-3),
                Median(latency["p999_ns"], 1e-3),
                WithRange(cell["per_second"], 1e-3),
                p50,
                Median(load["p99_ns"], 1e-3),
                Median(cpu["one_in_flight"], 1e-3),
                Median(cpu["pipelined"], 1e-3)};
      });
}

std::string IdleTable(const Json& cells) {
  return TableOf("gpud while an event kernel is registered and nothing rings",
                 cells, "kernel", {Right("% of a CPU")},
                 [](const Json& cell) -> std::vector<std::string> {
                   return {WithRange(cell["gpud_cpu_percent"], 1)};
                 });
}

std::string CoRunnerTable(const Json& cells) {
  return TableOf(
      "CPU-bound co-runners on gpud's CPUs (EDGE Fig. 4a): how much slower "
      "they are, and the path beside them / without",
      cells, "kernel",
      {Right("compute: slower by idle path"), Right("one in flight"),
       Right("peak rate"), Right("path p50 x"), Right("p99 x"), Right("rate x"),
       Right("memory: slower by idle path"), Right("one in flight"),
       Right("peak rate"), Right("path p50 x"), Right("p99 x"),
       Right("rate x")},
      [](const Json& cell) {
        std::vector<std::string> row;
        for (const char* kind : {"compute", "memory"}) {
          const Json& beside = cell[kind];
          for (const char* load : {"idle", "round_trips", "pipelined"}) {
            row.push_back(Median(beside["co_runner_slowdown"][load], 1));
          }
          row.push_back(Median(beside["latency_p50_ratio"], 1));
          row.push_back(Median(beside["latency_p99_ratio"], 1));
          row.push_back(Median(beside["rate_ratio"], 1));
        }
        return row;
      });
}

std::string BackgroundTable(const Json& cells) {
  return TableOf("a background kernel (matmul) beside the path", cells,
                 "events",
                 {Right("alone, us"), Right("path idle, x"),
                  Right("under load, x"), Right("load, k/s")},
                 [](const Json& cell) -> std::vector<std::string> {
                   return {Median(cell["kernel_ns"]["alone"]["p50_ns"], 1e-3),
                           WithRange(cell["slowdown"]["idle"], 1),
                           WithRange(cell["slowdown"]["under_load"], 1),
                           Median(cell["load_per_second"], 1e-3)};
                 });
}

std::string BreakdownTable(const Json& document) {
  return TableOf(
      fmt::format(
          "where the time goes, p50 in us, by packets of an event; {} k "
          "packets/s arrive (EDGE Fig. 5)",
          Short(document["breakdown_packets_per_second"].get<double>() * 1e-3)),
      document["breakdown"], "packets",
      {Right("due->rung"), Right("->seen"), Right("->queued"),
       Right("->dispatched"), Right("->finished"), Right("->completed"),
       Right("in all"), Right("")},
      [](const Json& cell) {
        std::vector<std::string> row;
        for (const auto& [name, stage] : cell["stages"].items()) {
          row.push_back(Median(stage["p50_ns"], 1e-3));
        }
        row.push_back(cell["kept_up"].get<bool>() ? "" : "fell behind");
        return row;
      });
}

std::string PowerTable(const Json& power) {
  if (!power["measured"].get<bool>()) {
    return fmt::format("power: not measured ({})\n\n",
                       power["reason"].get<std::string>());
  }
  return TableOf("power of the whole GPU, watts (EDGE Fig. 4b)", power["cells"],
                 "kernel",
                 {Right("idle"), Right("stream of events"), Right("k/s")},
                 [](const Json& cell) -> std::vector<std::string> {
                   const auto at = [&](const char* key, double scale) {
                     return cell.contains(key) ? Median(cell[key], scale) : "-";
                   };
                   return {at("idle_watts", 1), at("load_watts", 1),
                           at("load_per_second", 1e-3)};
                 });
}

}  // namespace

std::string LaunchTables(const Json& document) {
  const Json& backend = document["backend"];
  std::string text =
      fmt::format("{} back-end: {}\n", backend["name"].get<std::string>(),
                  backend["description"].get<std::string>());
  if (backend["name"] != "cpu" && !backend["gpu"].is_null()) {
    text +=
        fmt::format("GPU: {}, driver {}\n", backend["gpu"].get<std::string>(),
                    backend["driver"].get<std::string>());
  }
  text += "\n";
  for (const auto& [part, table] :
       {std::pair("latency", &LatencyTable), std::pair("idle", &IdleTable),
        std::pair("co_runner", &CoRunnerTable),
        std::pair("background", &BackgroundTable)}) {
    if (document.contains(part)) text += table(document[part]);
  }
  if (document.contains("breakdown")) text += BreakdownTable(document);
  if (document.contains("power")) text += PowerTable(document["power"]);
  const Json& ledger = document["ledger"];
  text += fmt::format(
      "ledger: {} rung, {} done, {} failed, {} aborted: {}\n\n",
      ledger["rung"].get<uint64_t>(), ledger["done"].get<uint64_t>(),
      ledger["failed"].get<uint64_t>(), ledger["aborted"].get<uint64_t>(),
      ledger["balanced"].get<bool>() ? "balanced" : "NOT BALANCED");
  return text;
}

}  // namespace carillon::bench
