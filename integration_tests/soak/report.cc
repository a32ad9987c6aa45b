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
  if (sample.size() == 0) return "";
  return fmt::format(
      "{:<50} {:>5} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {}\n", what,
      sample.size(), sample.Percentile(0), sample.median(),
      sample.Percentile(0.99), sample.Percentile(1), unit);
}

std::string Lines(const std::string& what, const Figure& figure,
                  const char* unit) {
  return Line(what, figure.all, unit) +
         Line("  on a quiet machine", figure.quiet, unit);
}

std::string Ratio(const Sample& of, const Sample& to, const char* when) {
  if (to.size() == 0 || to.median() == 0) return "";
  return fmt::format(
      "  over the bare wake of the same deaths{}: {:.2f} times in the median, "
      "{:.2f} at p99\n",
      when, of.median() / to.median(),
      of.Percentile(0.99) / to.Percentile(0.99));
}

std::string Ratios(const Figure& of, const Figure& to) {
  return Ratio(of.all, to.all, "") +
         Ratio(of.quiet, to.quiet, ", on a quiet machine");
}

std::string FiguresText(const Result& result) {
  const Figures& all = result.figures;
  std::string text =
      fmt::format("{:<50} {:>5} {:>10} {:>10} {:>10} {:>10}\n", "FIGURES", "N",
                  "LEAST", "MEDIAN", "P99", "WORST");
  text += Line("others' share of all CPUs, before a kill", all.others, "");
  text += fmt::format("  a machine is quiet below {}\n", kQuietShare);
  text += Lines("a bare pidfd's wake, of a process of one thread",
                all.bare_wake_us, "us");
  text += Lines("device killed, a bare pidfd of it wakes", all.device_bare_us,
                "us");
  text += Lines("device killed, gpud has closed its session",
                all.gpud_closed_us, "us");
  text += Ratios(all.gpud_closed_us, all.device_bare_us);
  text +=
      Lines("gpud killed, a bare pidfd of it wakes", all.gpud_bare_us, "us");
  text += Lines("gpud killed, a device knows", all.devices_knew_us, "us");
  text += Ratios(all.devices_knew_us, all.gpud_bare_us);
  text += Lines("gpud killed, the next one has a session", all.first_session_ms,
                "ms");
  text +=
      Lines("gpud killed, the next one ends an event", all.first_end_ms, "ms");
  text += Lines("gpud killed, 90 % of the rate before", all.full_rate_ms, "ms");
  text += fmt::format("  not within its round: {}\n", all.never_full);
  text += Lines("nic1's replies, before another device's death",
                all.without_death, "1/s");
  text += Lines("nic1's replies, behind another device's death", all.with_death,
                "1/s");
  text += Lines("  ratio of these neighbouring windows", all.ratio, "");
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
