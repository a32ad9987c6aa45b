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

// A column, and where its value is in a cell.
struct Shown {
  std::string header;
  std::string at;
  double scale = 1;
  std::string (*text)(const Json& range, double scale) = &Median;
  // Follows the value; may be null.
  std::string (*remark)(const Json& cell) = nullptr;
  Align align = Align::kRight;
};

std::string Word(const Json& word, double) {
  return word.is_string() ? word.get<std::string>() : "-";
}

std::string TextOf(const Json& cell, const Shown& shown) {
  const Json::json_pointer at(shown.at);
  return shown.text(cell.contains(at) ? cell[at] : Json(), shown.scale) +
         (shown.remark == nullptr ? "" : shown.remark(cell));
}

// A table with a row per cell. A cell without measurements gives its reason in
// the first column, or in a line below.
std::string TableOf(std::string_view title, const Json& cells,
                    std::string_view workload,
                    const std::vector<Shown>& values) {
  std::vector<Column> columns = {{"path", Align::kLeft},
                                 {std::string(workload), Align::kLeft}};
  for (const Shown& value : values) {
    columns.push_back({value.header, value.align});
  }
  cli::Table table(std::move(columns));
  std::string notes;
  for (const Json& cell : cells) {
    std::vector<std::string> line = {cell["path"], cell["workload"]};
    if (cell["status"] == "measured") {
      for (const Shown& value : values) line.push_back(TextOf(cell, value));
    } else {
      line.push_back(cell["status"]);
      notes += fmt::format("  {} {}: {}: {}\n", line[0], line[1], line[2],
                           cell["reason"].get<std::string>());
    }
    table.AddRow(std::move(line));
  }
  return fmt::format("{}\n{}{}\n", title, table.ToString(false), notes);
}

std::string LatencyTable(const Json& cells) {
  const auto behind = [](const Json& cell) -> std::string {
    const Json& load = cell["load_80"];
    return load["runs"] != load["runs_kept_up"] ? " (fell behind)" : "";
  };
  return TableOf(
      "doorbell to completion, one event in flight; medians of the runs "
      "[range]; peak rate; gpud's CPU time. inline: whoever polled the "
      "doorbell runs the kernel; hand-off: a worker thread or a launch does",
      cells, "kernel",
      {{"runs", "/kernel_runs", 1, &Word, nullptr, Align::kLeft},
       {"p50, us", "/latency/p50_ns", 1e-3, &WithRange},
       {"p90", "/latency/p90_ns", 1e-3},
       {"p99", "/latency/p99_ns", 1e-3},
       {"p99.9", "/latency/p999_ns", 1e-3},
       {"rate, k/s", "/per_second", 1e-3, &WithRange},
       {"at 80 %: p50, us", "/load_80/p50_ns", 1e-3, &Median, behind},
       {"p99", "/load_80/p99_ns", 1e-3},
       {"CPU us/event", "/gpud_cpu_ns_per_event/one_in_flight", 1e-3},
       {"pipelined", "/gpud_cpu_ns_per_event/pipelined", 1e-3}});
}

std::string IdleTable(const Json& cells) {
  return TableOf("gpud while an event kernel is registered and nothing rings",
                 cells, "kernel",
                 {{"% of a CPU", "/gpud_cpu_percent", 1, &WithRange}});
}

std::string CoRunnerTable(const Json& cells) {
  std::vector<Shown> columns;
  for (const char* kind : {"compute", "memory"}) {
    const auto at = [&](const char* value) {
      return fmt::format("/{}/{}", kind, value);
    };
    columns.insert(columns.end(),
                   {{fmt::format("{}: slower by idle path", kind),
                     at("co_runner_slowdown/idle")},
                    {"one in flight", at("co_runner_slowdown/round_trips")},
                    {"peak rate", at("co_runner_slowdown/pipelined")},
                    {"path p50 x", at("latency_p50_ratio")},
                    {"p99 x", at("latency_p99_ratio")},
                    {"rate x", at("rate_ratio")}});
  }
  return TableOf(
      "CPU-bound co-runners on gpud's CPUs (EDGE Fig. 4a): how much slower "
      "they are, and the path beside them / without",
      cells, "kernel", columns);
}

std::string BackgroundTable(const Json& cells) {
  return TableOf("a background kernel (matmul) beside the path", cells,
                 "events",
                 {{"alone, us", "/kernel_ns/alone/p50_ns", 1e-3},
                  {"path idle, x", "/slowdown/idle", 1, &WithRange},
                  {"under load, x", "/slowdown/under_load", 1, &WithRange},
                  {"load, k/s", "/load_per_second", 1e-3}});
}

std::string BreakdownTable(const Json& document) {
  return TableOf(
      fmt::format(
          "where the time goes, p50 in us, by packets of an event; {} k "
          "packets/s arrive (EDGE Fig. 5)",
          Short(document["breakdown_packets_per_second"].get<double>() * 1e-3)),
      document["breakdown"], "packets",
      {{"due->rung", "/stages/due_to_rung/p50_ns", 1e-3},
       {"->seen", "/stages/rung_to_seen/p50_ns", 1e-3},
       {"->queued", "/stages/seen_to_queued/p50_ns", 1e-3},
       {"->dispatched", "/stages/queued_to_dispatched/p50_ns", 1e-3},
       {"->finished", "/stages/dispatched_to_finished/p50_ns", 1e-3},
       {"->completed", "/stages/finished_to_completed/p50_ns", 1e-3},
       {"in all", "/stages/due_to_completed/p50_ns", 1e-3},
       {"", "/kept_up", 1, [](const Json& kept_up, double) -> std::string {
          return kept_up == true ? "" : "fell behind";
        }}});
}

std::string PowerTable(const Json& power) {
  if (!power["measured"].get<bool>()) {
    return fmt::format("power: not measured ({})\n\n",
                       power["reason"].get<std::string>());
  }
  return TableOf("power of the whole GPU, watts (EDGE Fig. 4b)", power["cells"],
                 "kernel",
                 {{"idle", "/idle_watts"},
                  {"stream of events", "/load_watts"},
                  {"k/s", "/load_per_second", 1e-3}});
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
  if (document.contains("driver")) {
    text += document["driver"].get<std::string>() + "\n";
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
