#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tools/bench/sharing/sharing_run.h"
#include "tools/cli/ui/table.h"

namespace carillon::bench {
namespace {

std::string Text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return "-";
  return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                                 : fmt::format("{}", value.get<int64_t>());
}

// A row's reason in place of its numbers, where it has none.
bool AddRefused(const Json& row, std::vector<std::string>& cells) {
  if (row.value("status", "measured") == "measured") return false;
  cells.push_back(
      fmt::format("{}: {}", Text(row["status"]), Text(row["reason"])));
  return true;
}

std::string CellsTable(const Json& cells) {
  cli::Table table({"part", "load", "rate", ">block us", ">kernel us", "policy",
                    ">events", ">resp p50", ">p99", ">wait p50", ">p99",
                    ">pending", ">tardy max", ">late %", ">jitter", ">ANTT",
                    ">STP", ">kept"});
  for (const Json& cell : cells) {
    std::vector<std::string> row;
    for (const char* key :
         {"part", "load", "rate", "block_us", "kernel_us", "policy"}) {
      row.push_back(Text(cell[key]));
    }
    if (!AddRefused(cell, row)) {
      for (const char* at :
           {"/response_us/samples", "/response_us/p50", "/response_us/p99",
            "/preemption_us/p50", "/preemption_us/p99", "/pending_us/mean",
            "/tardiness_us/max", "/late_percent", "/jitter_us/mean", "/antt",
            "/stp"}) {
        const Json::json_pointer pointer(at);
        row.push_back(cell.contains(pointer) ? Text(cell[pointer]) : "-");
      }
      // What it keeps is less than that where events ended before it.
      row.push_back((cell["outlived_events"].get<bool>() ? "<" : "") +
                    Text(cell["background_kept"]));
    }
    table.AddRow(std::move(row));
  }
  return fmt::format("events beside a background; times in us\n{}\n",
                     table.ToString(false));
}

std::string RowsTable(std::string_view title, const Json& rows,
                      std::vector<cli::Column> columns,
                      const std::vector<const char*>& keys) {
  cli::Table table(std::move(columns));
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const char* key : keys) {
      if (row.contains(key)) {
        cells.push_back(Text(row[key]));
      } else if (AddRefused(row, cells)) {
        break;
      } else {
        cells.push_back("-");
      }
    }
    table.AddRow(std::move(cells));
  }
  return fmt::format("{}\n{}\n", title, table.ToString(false));
}

}  // namespace

std::string SharingTables(const Json& document) {
  std::string text = CellsTable(document["cells"]);
  text += RowsTable(
      "an urgent kernel beside two that are queued: pending, of the time that "
      "one of them takes alone",
      document["pending"], {"policy", ">waves", ">block us", ">worst", ">mean"},
      {"policy", "waves", "block_us", "worst", "mean"});
  text += RowsTable(
      "a background alone, in slices of a wave (gpes), or as "
      "persistent blocks (ptb)",
      document["losses"],
      {"policy", "kernel", ">block us", ">waves", ">loss %"},
      {"policy", "kernel", "block_us", "waves", "loss_percent"});
  text += RowsTable(
      "a copy in chunks, and an urgent one beside it", document["copies"],
      {">bytes", ">chunks", ">us", ">slower %", ">pending", ">urgent us"},
      {"bytes", "chunks", "took_us", "slower_percent", "urgent_pending",
       "urgent_response_us"});
  text += RowsTable(
      "a video beside a competitor whose kernels take so many frames; in "
      "periods",
      document["video"],
      {">competitor", "policy", ">frames", ">tardy", ">max", ">jitter"},
      {"competitor", "policy", "frames", "tardiness", "tardiness_max",
       "jitter"});
  text += RowsTable(
      "three applications of one priority: pending of all, over their time "
      "alone",
      document["orders"], {"order", "policy", ">pending"},
      {"order", "policy", "pending"});
  text += RowsTable("an application beside one that floods the GPU",
                    document["floods"],
                    {"flood", "policy", ">its priority", ">slowed %"},
                    {"flood", "policy", "priority", "slowed_percent"});
  cli::Table summary({"what was hoped for", ">is", "", ">hoped"});
  for (const Json& row : document["summary"]) {
    summary.AddRow({Text(row["what"]), Text(row["is"]),
                    row["met"].get<bool>() ? "met" : "not met",
                    Text(row["hoped"])});
  }
  text += summary.ToString(false) + "\n";
  for (const Json& condition : document["conditions"]) {
    text += fmt::format("- {}\n", Text(condition));
  }
  for (const Json& other : document["others"]) {
    text += fmt::format("- {} {}: {}\n", Text(other["name"]),
                        Text(other["status"]), Text(other["reason"]));
  }
  return text;
}

}  // namespace carillon::bench
