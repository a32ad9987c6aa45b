#include <fmt/format.h>

#include "integration_tests/soak/soak.h"

namespace carillon::soak {
namespace {

std::string TargetsTable(const Result& result) {
  std::string text = fmt::format(
      "{:<10} {:<18} {:>5} {:>5} {:>7} {:>6} {:>6} {:>6} {:>5} {:>10} {:>9}\n",
      "ROLE", "POINT", "KILLS", "LOST", "DOUBLED", "OTHER", "FAILED", "LEAKS",
      "HANGS", "SERVED ms", "WORST ms");
  for (const TargetResult& row : result.targets) {
    if (row.kills == 0 && row.hangs == 0) continue;
    text += fmt::format(
        "{:<10} {:<18} {:>5} {:>5} {:>7} {:>6} {:>6} {:>6} {:>5} {:>10.0f} "
        "{:>9.0f}\n",
        row.target.role, faults::InfoOf(row.target.point).name, row.kills,
        row.lost, row.duplicated, row.other_violations, row.failed, row.leaks,
        row.hangs, row.served_ms.median(), row.served_ms.Percentile(1));
  }
  return text;
}

std::string LeaksTable(const Result& result) {
  std::string text = fmt::format("{:<34} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
                                 "AFTER EACH KILL", "FIRST", "LEAST", "MOST",
                                 "LAST", "PER 100");
  for (const LeakRow& row : result.leaks) {
    text += fmt::format(
        "{:<34} {:>12.0f} {:>12.0f} {:>12.0f} {:>12.0f} {:>12.2f}\n", row.what,
        row.trend.first(), row.trend.least(), row.trend.most(),
        row.trend.last(), row.trend.SlopePer100());
  }
  return text;
}

std::string Line(const std::string& what, const Sample& sample,
                 const char* unit) {
  return fmt::format(
      "{:<52} {:>5} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {}\n", what,
      sample.size(), sample.Percentile(0), sample.median(),
      sample.Percentile(0.99), sample.Percentile(1), unit);
}

std::string Ratio(const std::string& what, const Sample& of, const Sample& to) {
  if (to.median() == 0) return "";
  return fmt::format("  {}: {:.2f} times in the median, {:.2f} at p99\n", what,
                     of.median() / to.median(),
                     of.Percentile(0.99) / to.Percentile(0.99));
}

std::string FiguresText(const Result& result) {
  const Figures& all = result.figures;
  std::string text =
      fmt::format("{:<52} {:>5} {:>10} {:>10} {:>10} {:>10}\n", "FIGURES", "N",
                  "LEAST", "MEDIAN", "P99", "WORST");
  text += Line("a bare pidfd's wake, of a process of one thread",
               all.bare_wake_us, "us");
  text +=
      Line("device killed, a bare pidfd of it wakes", all.device_bare_us, "us");
  text += Line("device killed, gpud has closed its session", all.gpud_closed_us,
               "us");
  text += Ratio("over the bare wake of the same deaths", all.gpud_closed_us,
                all.device_bare_us);
  text += Line("gpud killed, a bare pidfd of it wakes", all.gpud_bare_us, "us");
  text += Line("gpud killed, a device knows", all.devices_knew_us, "us");
  text += Ratio("over the bare wake of the same deaths", all.devices_knew_us,
                all.gpud_bare_us);
  text +=
      Line("gpud killed, the next one ends an event", all.first_end_ms, "ms");
  text += Line("gpud killed, 90 % of the rate before", all.full_rate_ms, "ms");
  text += fmt::format("  not within its round: {}\n", all.never_full);
  text += Line("nic1's replies, before another device's death",
               all.without_death, "1/s");
  text += Line("nic1's replies, behind another device's death", all.with_death,
               "1/s");
  text += fmt::format(
      "  ratio of neighbouring windows: {:.2f} ({:.2f} to "
      "{:.2f})\n",
      all.ratio.median(), all.ratio.Percentile(0), all.ratio.Percentile(1));
  return text;
}

}  // namespace

std::string ReportText(const Options& options, const Result& result) {
  std::string unknown;
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    if (result.unknown[i] == 0) continue;
    unknown +=
        fmt::format(", {} {}", result.unknown[i],
                    ledger::UnknownName(static_cast<ledger::Unknown>(i)));
  }
  std::string text = fmt::format(
      "{}\n{}\n{}\n"
      "{} of {} kills in {:.0f} s, seed {}\n"
      "events: {} rung, {} done, {} failed and reported{}\n"
      "{} replies checked, {} wrong; {} wrong results of frames and kernels\n",
      TargetsTable(result), LeaksTable(result), FiguresText(result),
      result.kills, options.kills, result.seconds, options.seed, result.rung,
      result.done, result.failed, unknown, result.replies, result.bad_replies,
      result.wrong_results);
  for (const std::string& sentence : result.wrong) {
    text += "wrong: " + sentence + "\n";
  }
  text +=
      fmt::format("verdict: {}\n", result.wrong.empty() ? "ok" : "violated");
  return text;
}

}  // namespace carillon::soak
