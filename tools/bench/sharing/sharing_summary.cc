#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "tools/bench/sharing/measurement.h"

namespace carillon::bench {
namespace {

// What was hoped for before the first run.
struct Hope {
  double bound;
  bool at_most;  // or at least
};
// Figures are GPES's, where `exclusive` stands for its Gdev.
constexpr Hope kPendingUnderGpes = {0.05, true};     // Fig. 8, below 0.05
constexpr Hope kPendingUnderOthers = {0.9, false};   // Fig. 8, 0.98
constexpr Hope kLossToSlices = {5, true};            // Fig. 5, 4 % to 400
constexpr Hope kCopySlower = {7, true};              // Fig. 6, 7 % in 1,024
constexpr Hope kTardinessToExclusive = {0.2, true};  // Fig. 10, 0.12
constexpr Hope kPendingToExclusive = {0.47, true};   // Fig. 11, 53 % less
constexpr Hope kSlowedUnderGpes = {49, true};        // Fig. 12, 49 %
constexpr Hope kSlowedUnderExclusive = {90, false};
constexpr Hope kWaitInBlocks = {2, true};  // a slice and a block

void Add(Json& summary, std::string what, const Json& value, Hope hope) {
  const double number = value.get<double>();
  summary.push_back(
      {{"what", std::move(what)},
       {"hoped", fmt::format("{} {}", hope.at_most ? "<=" : ">=", hope.bound)},
       {"is", value},
       {"met", hope.at_most ? number <= hope.bound : number >= hope.bound}});
}

// If both were measured.
void AddOverExclusive(Json& summary, std::string what,
                      const std::map<std::string, double>& by_policy,
                      Hope hope) {
  const auto gpes = by_policy.find("gpes");
  const auto exclusive = by_policy.find("exclusive");
  if (gpes == by_policy.end() || exclusive == by_policy.end()) return;
  if (exclusive->second <= 0) return;
  Add(summary, std::move(what), Rounded(gpes->second / exclusive->second),
      hope);
}

void AddPending(Json& summary, const Json& rows) {
  for (const Json& row : rows) {
    const auto policy = row["policy"].get<std::string>();
    if (row["status"] != "measured" || row["waves"] != 32 ||
        policy == "priority" || policy == "ptb") {
      continue;
    }
    Add(summary,
        fmt::format("pending of an urgent kernel beside two of 32 waves, over "
                    "one's time alone, worst: {}",
                    policy),
        row["worst"],
        policy == "gpes" ? kPendingUnderGpes : kPendingUnderOthers);
  }
}

void AddLosses(Json& summary, const Json& rows) {
  for (const Json& row : rows) {
    if (row["status"] != "measured" || row["policy"] != "gpes") continue;
    const std::string of =
        row.contains("block_us")
            ? fmt::format("blocks of {} us", row["block_us"].get<uint64_t>())
            : row["kernel"].get<std::string>();
    Add(summary, fmt::format("background alone loses to slices, {}, %", of),
        row["loss_percent"], kLossToSlices);
  }
}

void AddCopies(Json& summary, const Json& rows) {
  for (const Json& row : rows) {
    if (row["chunks"] != 256) continue;
    Add(summary, "a copy in 256 chunks is slower, %", row["slower_percent"],
        kCopySlower);
  }
}

void AddVideo(Json& summary, const Json& rows) {
  double longest = 0;
  std::map<std::string, double> tardiness;
  for (const Json& row : rows) {
    if (row["status"] != "measured") continue;
    longest = row["competitor"].get<double>();
    tardiness[row["policy"]] = row["tardiness"].get<double>();
  }
  AddOverExclusive(
      summary,
      fmt::format("tardiness of a video beside kernels of {} frames, under "
                  "gpes, over that under exclusive",
                  longest),
      tardiness, kTardinessToExclusive);
}

void AddOrders(Json& summary, const Json& rows) {
  std::map<std::string, double> pending;
  for (const Json& row : rows) {
    if (row["status"] == "measured" && row["order"] == "mmul.srad.nn") {
      pending[row["policy"]] = row["pending"].get<double>();
    }
  }
  AddOverExclusive(
      summary, "pending of mmul.srad.nn under gpes, over that under exclusive",
      pending, kPendingToExclusive);
}

void AddFloods(Json& summary, const Json& rows) {
  for (const Json& row : rows) {
    if (row["status"] != "measured" || row["flood"] != "LARGE") continue;
    const bool sliced = row["policy"] == "gpes";
    if (!sliced && row["policy"] != "exclusive") continue;
    Add(summary,
        fmt::format("slowed down by LARGE, at priority {}, {}, %",
                    row["priority"].get<int>(),
                    row["policy"].get<std::string>()),
        row["slowed_percent"],
        sliced ? kSlowedUnderGpes : kSlowedUnderExclusive);
  }
}

void AddWaits(Json& summary, const Json& cells, uint32_t preempt_us) {
  for (const Json& cell : cells) {
    if (cell["policy"] != "gpes" || cell["status"] != "measured" ||
        cell["rate"] != "low" || cell["part"] != "block length") {
      continue;
    }
    const double block = cell["block_us"].get<double>();
    const double wait = cell["preemption_us"]["p99"].get<double>();
    if (preempt_us != 0) {
      Add(summary,
          fmt::format("p99 wait of an event under gpes, blocks of {} us, in us "
                      "(--preempt-us and a block)",
                      block),
          Rounded(wait), {preempt_us + block, true});
      continue;
    }
    Add(summary,
        fmt::format("p99 wait of an event under gpes, blocks of {} us, in "
                    "blocks (a slice and a block: 2)",
                    block),
        Rounded(wait / block), kWaitInBlocks);
  }
}

}  // namespace

Json SharingSummary(const Json& document, uint32_t preempt_us) {
  Json summary = Json::array();
  AddPending(summary, document["pending"]);
  AddLosses(summary, document["losses"]);
  AddCopies(summary, document["copies"]);
  AddVideo(summary, document["video"]);
  AddOrders(summary, document["orders"]);
  AddFloods(summary, document["floods"]);
  AddWaits(summary, document["cells"], preempt_us);
  return summary;
}

}  // namespace carillon::bench
