// Figures of results that are made by hand, so that each number is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/experiments/experiment.h"

namespace carillon::sim::figures {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::string Overridden(const Job& job, std::string_view key) {
  for (const auto& [name, value] : job.overrides) {
    if (name == key) return value;
  }
  return "";
}

bool Preempts(const Job& job) { return Overridden(job, "edge.path") == "warp"; }

// A run of so many cycles, whose events had these latencies and times.
Json ResultOf(double cycles, std::vector<double> scheduling,
              std::vector<double> turnaround = {}) {
  return {{"cycles", cycles},
          {"events",
           {{"scheduling", std::move(scheduling)},
            {"turnaround", std::move(turnaround)},
            {"preemption", Json::array()}}},
          {"statistics",
           {{"preemptions", 4},
            {"flush_cycles", 100},
            {"flush_waits", {{"Barrier", 25}, {"Pipeline", 50}}},
            {"barriers_skipped", 1}}}};
}

class Figures : public testing::Test {
 protected:
  static const Experiment& Named(std::string_view name) {
    return *std::ranges::find(Experiments(), name, &Experiment::name);
  }
  // The figure, where each job's result is what `result` says.
  static Json Make(std::string_view name,
                   const std::function<Json(const Job&)>& result) {
    Results results;
    for (const Job& job : Named(name).jobs({})) results[job.name] = result(job);
    return Named(name).figure(results, {});
  }
  // The row that begins with these cells; without any, at() of it throws.
  static std::vector<Json> Row(const Json& rows,
                               const std::vector<Json>& begin) {
    for (const Json& row : rows) {
      const std::vector<Json> cells(row.begin(), row.end());
      if (std::ranges::equal(begin, std::span(cells).first(begin.size()))) {
        return cells;
      }
    }
    ADD_FAILURE() << "no row begins with " << Json(begin);
    return {};
  }
  static Json TableOf(const Json& figure, std::string_view title) {
    for (const Json& table : figure["tables"]) {
      if (table["title"] == title) return table["rows"];
    }
    ADD_FAILURE() << "no table " << title;
    return Json::array();
  }
  static Json Summary(const Json& figure, std::string_view what) {
    for (const Json& row : figure["summary"]) {
      if (row["what"] == what) return row;
    }
    ADD_FAILURE() << "no summary " << what;
    return {{"ours", {}}, {"median", {}}, {"geometric_mean", {}}, {"unit", {}}};
  }
  // {"ours", "median", "geometric_mean"}
  static std::vector<double> Ours(const Json& figure, std::string_view what) {
    const Json row = Summary(figure, what);
    std::vector<double> ours;
    for (const char* key : {"ours", "median", "geometric_mean"}) {
      ours.push_back(row[key].is_null() ? -1 : row[key].get<double>());
    }
    return ours;
  }
};

using Cells = std::vector<Json>;

// --- Figs. 12 and 1.

// Draining takes 1,000 cycles and preemption 10 beside MM, 20 with 32
// registers, 100 and 50 beside CONV1, 8 and 4 beside BP, where MemC and IPSec
// take 16 by preemption, and 30 and 30 beside BFS.
Json Latency(const Job& job) {
  const bool preempts = Preempts(job);
  double cycles = 0;
  if (job.background == "MM") {
    cycles = !preempts ? 1000 : job.background_registers == 32 ? 20 : 10;
  } else if (job.background == "CONV1") {
    cycles = preempts ? 50 : 100;
  } else if (job.background == "BP") {
    const bool large = job.event == "MemC" || job.event == "IPSec";
    const bool may = Overridden(job, "edge.larger_events") == "1";
    cycles = !preempts ? 8 : large && !may ? 16 : 4;
  } else {
    cycles = 30;
  }
  // The mean is `cycles`, the tail 7/4 of it.
  return ResultOf(1, {cycles / 4, cycles * 7 / 4});
}

TEST_F(Figures, Fig12SaysInWhichPairsPreemptionLoses) {
  const Json figure = Make("fig12", &Latency);
  const Json pairs = TableOf(figure, "Each pair");
  // CONV1 and MM twice.
  EXPECT_EQ(pairs.size(), 24u);
  const auto row = [&](const char* background, Json registers,
                       const char* event) {
    std::vector<Json> cells =
        Row(pairs, {background, std::move(registers), event});
    cells.erase(cells.begin(),
                cells.begin() + std::min<long>(3, std::ssize(cells)));
    return cells;
  };
  EXPECT_THAT(row("MM", 28, "IPv4"), ElementsAre(1000, 10, 100, 100, "wins"));
  EXPECT_THAT(row("MM", 32, "IPv6"), ElementsAre(1000, 20, 50, 50, "wins"));
  EXPECT_THAT(row("BP", nullptr, "IPv4"), ElementsAre(8, 4, 2, 2, "wins"));
  EXPECT_THAT(row("BP", nullptr, "MemC"),
              ElementsAre(8, 16, 0.5, 0.5, "loses"));
  EXPECT_THAT(row("BFS", nullptr, "MemC"), ElementsAre(30, 30, 1, 1, "draws"));
  for (const char* registers : {"28", "32"}) {
    const Json slower =
        Summary(figure, std::string(registers) +
                            " registers: preemption is slower than draining");
    EXPECT_EQ(slower["ours"], 2);
    EXPECT_EQ(slower["unit"], "of 16 pairs");
  }
}

TEST_F(Figures, Fig12HasMediansAndGeometricMeansBesideRatiosOfMeans) {
  const Json figure = Make("fig12", &Latency);
  // Of means: 4 * (1000 + 100 + 8 + 30) / (4 * (10 + 50 + 30) + 2 * (4 + 16)).
  // The pairs' own: 4 of 100, 4 of 2, 2 of 2, 2 of 0.5, 4 of 1.
  EXPECT_THAT(Ours(figure, "28 registers: preemption over draining, mean, all"),
              ElementsAre(11.4, 2, 3.76));
  EXPECT_THAT(Ours(figure, "28 registers: preemption over draining, tail, all"),
              ElementsAre(11.4, 2, 3.76));
  // With 32 registers MM has 4 of 50.
  EXPECT_THAT(Ours(figure, "32 registers: preemption over draining, mean, all"),
              ElementsAre(10.3, 2, 3.16));
  EXPECT_THAT(
      Ours(figure,
           "28 registers: preemption over draining, mean, CONV1 and MM"),
      ElementsAre(18.3, 51, 14.1));
  // BP's MemC and IPSec now have 2, too.
  EXPECT_THAT(Ours(figure,
                   "28 registers: preemption over draining, mean, all, with "
                   "more registers than the victim's"),
              ElementsAre(12.1, 2, 4.47));
  const std::vector<Json> row =
      Row(TableOf(figure, "All pairs"), {28, "mean, all"});
  EXPECT_EQ(row, Cells({28, "mean, all", 11.4, 2, 3.76, 0.5, 100, 16, 10}));
}

TEST_F(Figures, Fig12ShowsBothNumbersOfRegisters) {
  const Json figure = Make("fig12", &Latency);
  std::set<std::string> titles;
  for (const Json& panel : figure["panels"]) {
    titles.insert(panel["title"].get<std::string>().substr(0, 9));
  }
  for (const char* title : {"MM, 28 re", "MM, 32 re", "CONV1, 28", "CONV1, 32",
                            "BP: mean ", "BFS: mean"}) {
    EXPECT_EQ(titles.count(title), 1u) << title;
  }
  std::set<uint32_t> registers;
  for (const Job& job : Named("fig12").jobs({})) {
    if (job.background == "CONV1") registers.insert(job.background_registers);
    if (job.background == "BP") {
      EXPECT_EQ(job.background_registers, 0u);
    }
  }
  EXPECT_THAT(registers, UnorderedElementsAre(28, 32));
}

TEST_F(Figures, Fig1AddsThePairsWaitsToTheLaunch) {
  // 700 cycles are a microsecond.
  const Json figure = Make("fig1", [](const Job& job) {
    if (!Preempts(job))
      return ResultOf(1, {job.background == "MM" ? 7000.0 : 700});
    const bool slow = job.background == "MM" && job.background_registers == 32;
    return ResultOf(1, {slow ? 2100.0 : 0});
  });
  // Draining: 1 us in three of four pairs, 10 us beside MM. The baseline is 6
  // and 15 us, 8.25 in the mean; EDGE is 1.1 us.
  EXPECT_THAT(Ours(figure, "28 registers: EDGE over the baseline"),
              ElementsAre(7.5, 5.45, 6.86));
  EXPECT_THAT(Ours(figure, "28 registers: EDGE over EDGE without preemption"),
              ElementsAre(3.95, 1.91, 2.89));
  // With 32 registers EDGE is 4.1 us beside MM, 1.85 in the mean.
  EXPECT_THAT(Ours(figure, "32 registers: EDGE over the baseline"),
              ElementsAre(4.46, 5.45, 4.94));
  EXPECT_EQ(Row(TableOf(figure, "Microseconds"), {32, "EDGE"}),
            Cells({32, "EDGE", 1.1, 0.75, 1.85, 1.1, 1.53}));
}

// --- Fig. 13.

bool Reserves(const Job& job) {
  return !Overridden(job, "edge.reserve_sms").empty() &&
         Overridden(job, "edge.reservation").empty();
}

// Alone an event takes 100 cycles and a background 1,000. Two events beside a
// background take 400 each by draining, 300 on reserved SMs, 200 where these
// are taken in turn, and 150 by preemption, 250 with 32 registers. Beside MM
// everything takes ten times as long.
Json Slowdown(const Job& job) {
  if (job.background.empty()) return ResultOf(100, {});
  if (job.event.empty()) return ResultOf(1000, {});
  const bool spread = Overridden(job, "dispatch.event_turn") == "own";
  double cycles = Reserves(job)                    ? (spread ? 200 : 300)
                  : !Preempts(job)                 ? 400
                  : job.background_registers == 32 ? 250
                                                   : 150;
  if (job.background == "MM") cycles *= 10;
  return ResultOf(Reserves(job) ? 2000 : 1500, {}, {cycles - 50, cycles + 50});
}

TEST_F(Figures, Fig13HasReservationWithBothTurnsOfTheTbScheduler) {
  const Json figure = Make("fig13", &Slowdown);
  const Json rows = TableOf(figure, "high event rate");
  const auto row = [&](const char* way) {
    return Row(rows, {"BP", nullptr, "MemC", way});
  };
  // ANTT: (2 * 3 + 2) / 3.
  EXPECT_EQ(row("reservation"), Cells({"BP", nullptr, "MemC", "reservation", 2,
                                       300, 3, 2000, 2, 2.67}));
  EXPECT_EQ(row("reservation, spread"),
            Cells({"BP", nullptr, "MemC", "reservation, spread", 2, 200, 2,
                   2000, 2, 2}));
  EXPECT_EQ(row("draining").at(6), 4);
  std::set<std::string> bars;
  for (const Json& bar : figure["panels"][0]["bars"]) {
    bars.insert(bar["label"].get<std::string>());
  }
  EXPECT_THAT(bars, UnorderedElementsAre("draining", "reservation",
                                         "reservation, spread", "preemption"));
}

TEST_F(Figures, Fig13HasMediansAndGeometricMeansBesideRatiosOfMeans) {
  const Json figure = Make("fig13", &Slowdown);
  // Three backgrounds with 4 events each by a slowdown of 4, and MM with 40.
  const std::vector<Json> averages =
      Row(TableOf(figure, "All pairs"), {"low", 28, "draining"});
  EXPECT_EQ(averages.at(3), 13);
  EXPECT_EQ(averages.at(4), 4);
  EXPECT_EQ(averages.at(5), 7.11);
  EXPECT_EQ(averages.at(6), 1.5);
  // Preemption is the same everywhere with 28 registers. With 32 CONV1 has 2.5
  // instead of 1.5, and MM 25 instead of 15.
  EXPECT_THAT(
      Ours(figure, "28 registers, low: events, preemption over draining"),
      ElementsAre(2.67, 2.67, 2.67));
  EXPECT_THAT(
      Ours(figure, "32 registers, low: events, preemption over draining"),
      ElementsAre(1.7, 2.13, 2.07));
  EXPECT_THAT(
      Ours(figure, "32 registers, high: events, preemption over reservation"),
      ElementsAre(1.28, 1.6, 1.55));
  EXPECT_THAT(Ours(figure,
                   "32 registers, high: events, preemption over reservation, "
                   "spread"),
              ElementsAre(0.852, 1.07, 1.03));
  EXPECT_THAT(Ours(figure, "28 registers, high: MemC's slowdown, preemption"),
              ElementsAre(4.88, 1.5, 2.67));
}

TEST_F(Figures, Fig13LeavesOutPairsWithoutEvents) {
  const Json figure = Make("fig13", [](const Job& job) {
    Json result = Slowdown(job);
    if (job.background == "BP") result["events"]["turnaround"] = Json::array();
    return result;
  });
  const std::vector<Json> averages =
      Row(TableOf(figure, "All pairs"), {"low", 28, "draining"});
  EXPECT_EQ(averages.at(3), 16);
  const std::vector<Json> ratios =
      Row(TableOf(figure, "Ratios over all pairs"),
          {28, "low: events, preemption over draining"});
  EXPECT_EQ(ratios.at(7), 12);
}

// --- Beyond.

std::set<std::string> PairsOf(const std::vector<Job>& jobs) {
  std::set<std::string> pairs;
  for (const Job& job : jobs) {
    if (job.background.empty() || job.event.empty()) continue;
    pairs.insert(job.background + "/" + job.event);
  }
  return pairs;
}

TEST_F(Figures, BeyondIsJudgedByPairsAndSeedsThatItsRuleHasNotSeen) {
  const std::vector<Job> rule = Named("beyond_rule").jobs({.seed = 7});
  const std::vector<Job> judged = Named("beyond").jobs({.seed = 7});
  EXPECT_THAT(PairsOf(rule),
              ElementsAre("BFS/IPSec", "BFS/IPv6", "BP/IPv4", "BP/MemC",
                          "CONV1/IPSec", "CONV1/IPv6", "MM/IPv4", "MM/MemC"));
  EXPECT_THAT(
      PairsOf(judged),
      ElementsAre("BFS/IPv4", "BFS/MemC", "BP/IPSec", "BP/IPv6", "CONV1/IPv4",
                  "CONV1/MemC", "HOTSP/IPv4", "HOTSP/MemC", "HRTWL/IPSec",
                  "HRTWL/IPv6", "MM/IPSec", "MM/IPv6", "SC/IPv4", "SC/MemC",
                  "SRAD/IPSec", "SRAD/IPv6"));
  std::set<uint32_t> rule_seeds, seeds;
  for (const Job& job : rule) {
    rule_seeds.insert(job.seed);
    EXPECT_FALSE(job.arrivals.any_start);
  }
  for (const Job& job : judged) {
    seeds.insert(job.seed);
    EXPECT_EQ(job.arrivals.any_start,
              !job.background.empty() && !job.event.empty());
  }
  EXPECT_THAT(rule_seeds, ElementsAre(7));
  EXPECT_THAT(seeds, ElementsAre(8, 9, 10));
}

std::string LoadOf(const Job& job) {
  return Overridden(job, "edge.reservation") == "dynamic"
             ? Overridden(job, "edge.reserve_load")
             : "";
}

TEST_F(Figures, BeyondRuleChoosesTheLeastGeometricMeanOfAntts) {
  // One event beside a background, which is slowed down as much: that is the
  // ANTT. The rule of 4 is the best of half of the pairs by far, and so by the
  // geometric mean, though not by the mean.
  const Json figure = Make("beyond_rule", [](const Job& job) {
    if (job.background.empty() || job.event.empty()) return ResultOf(100, {});
    const std::string load = LoadOf(job);
    const bool short_event = job.event == "IPv4" || job.event == "IPv6";
    const double slowdown = load == "4"    ? (short_event ? 1 : 9)
                            : load.empty() ? 8
                                           : 4;
    return ResultOf(100 * slowdown, {}, {100 * slowdown});
  });
  EXPECT_THAT(Ours(figure, "ANTT, n / (n + 4)"), ElementsAre(5, 5, 3));
  EXPECT_THAT(Ours(figure, "ANTT, n / (n + 8)"), ElementsAre(4, 4, 4));
  EXPECT_EQ(
      Summary(figure, "events that all else weighs, of the best rule")["ours"],
      4);
  EXPECT_EQ(Summary(figure, "the same, of the rule that beyond judges")["ours"],
            2);
}

// The judged rule has an ANTT of 1, 2 and 4 for its three seeds; the others
// have 4, but draining has 2, and preemption with 32 registers 8.
Json Judged(const Job& job) {
  if (job.background.empty() || job.event.empty()) return ResultOf(100, {});
  double slowdown = 4;
  if (!LoadOf(job).empty()) {
    slowdown = job.seed == 2 ? 1 : job.seed == 3 ? 2 : 4;
  } else if (!Preempts(job) && !Reserves(job)) {
    slowdown = 2;
  } else if (Preempts(job) && job.background_registers == 32) {
    slowdown = 8;
  }
  return ResultOf(100 * slowdown, {}, {100 * slowdown});
}

TEST_F(Figures, BeyondComparesEachPairAndSeed) {
  const Json figure = Make("beyond", &Judged);
  const Json ratios =
      TableOf(figure, "ANTT of dynamic + preemption against the others");
  // Of means: 4 / (7 / 3).
  EXPECT_EQ(Row(ratios, {"the other half, 28 registers", "low", "preemption"}),
            Cells({"the other half, 28 registers", "low", "preemption", 1.71, 2,
                   2, 1, 4, 24, 16}));
  EXPECT_EQ(Row(ratios, {"other backgrounds", "high", "draining"}),
            Cells({"other backgrounds", "high", "draining", 0.857, 1, 1, 0.5, 2,
                   24, 8}));
  // Half of the pairs, those of CONV1 and MM, now have twice as much.
  EXPECT_EQ(Row(ratios, {"the other half, 32 registers", "low", "preemption"}),
            Cells({"the other half, 32 registers", "low", "preemption", 2.57, 3,
                   2.83, 1, 8, 24, 20}));
  EXPECT_THAT(Ours(figure,
                   "other backgrounds: low: ANTT, dynamic + preemption over "
                   "reservation, spread"),
              ElementsAre(1.71, 2, 2));
}

TEST_F(Figures, BeyondShowsTheRangeOfSeeds) {
  const Json figure = Make("beyond", &Judged);
  EXPECT_EQ(Row(TableOf(figure, "ANTT of each pair"),
                {"other backgrounds", "low", "SC", nullptr, "MemC",
                 "dynamic + preemption"}),
            Cells({"other backgrounds", "low", "SC", nullptr, "MemC",
                   "dynamic + preemption", 3, 2, 1, 4}));
  const std::vector<Json> all =
      Row(TableOf(figure, "All pairs and seeds"),
          {"other backgrounds", "low", "dynamic + preemption"});
  EXPECT_EQ(all.at(3), 24);
  // ANTT: mean, median, geometric mean, least, most.
  ASSERT_EQ(all.size(), 15u);
  EXPECT_EQ(Cells(all.begin() + 10, all.end()), Cells({2.33, 2, 2, 1, 4}));
}

}  // namespace
}  // namespace carillon::sim::figures
