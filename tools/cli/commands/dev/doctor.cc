#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/doctor/checks.h"

namespace carillon::cli {
namespace {

absl::Status Examine(Console& console) {
  Json document = Json::array();
  int problems = 0;
  for (const Check& check : Checks()) {
    const CheckResult finding = check.look();
    if (finding.verdict == Verdict::kProblem) ++problems;
    document.push_back({{"check", check.name},
                        {"verdict", VerdictName(finding.verdict)},
                        {"text", finding.text},
                        {"advice", finding.advice}});
    if (console.json()) continue;
    std::string verdict = fmt::format("{:<8}", VerdictName(finding.verdict));
    if (finding.verdict == Verdict::kGood) verdict = console.Good(verdict);
    if (finding.verdict == Verdict::kProblem) verdict = console.Bad(verdict);
    console.Print(
        fmt::format("{} {:<18} {}\n", verdict, check.name, finding.text));
    if (!finding.advice.empty()) {
      console.Print(fmt::format("{:27} -> {}\n", "", finding.advice));
    }
  }
  if (console.json()) {
    console.PrintDocument(
        {{"ok", problems == 0}, {"checks", std::move(document)}});
  }
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} found", FormatPlural(problems, "problem")));
}

}  // namespace

Run MakeDoctor(Arguments& arguments, Console& console) {
  return [&console] { return Examine(console); };
}

}  // namespace carillon::cli
