#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/option_table.h"
#include "base/status.h"
#include "base/strict_yaml.h"
#include "base/text.h"
#include "tools/cli/commands/fault/commands.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/failures.h"
#include "tools/testbed/fault_plans/fault_runner.h"
#include "tools/testbed/fault_plans/junit.h"
#include "tools/testbed/fault_plans/shrink.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

using fault::ExpectationResult;
using fault::Plan;

struct Options {
  std::vector<std::string> files;
  testbed::RunnerOptions runner;
  std::string seed;
  std::string junit;
  std::string shrink;
  uint32_t repeat = 1;
  uint32_t tries = 3;
};

// The last run of a plan, or the reason why there was none.
struct Outcome {
  Plan plan;
  absl::Status status;
  testbed::PlanRun run;
  uint32_t runs = 0;

  bool ok() const { return status.ok() && run.ok(); }
};

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}", Quote(path)));
}

std::string VerdictOf(const Outcome& outcome) {
  if (!outcome.status.ok()) return "not run";
  return outcome.run.ok() ? "ok" : "violated";
}

class Runs {
 public:
  Runs(const Options& options, Console& console)
      : options_(options), console_(console) {}

  absl::Status All(const std::vector<Plan>& plans) {
    for (const Plan& plan : plans) {
      Outcome outcome = Repeat(plan);
      Report(outcome);
      const bool interrupted = absl::IsCancelled(outcome.status);
      const bool violated = outcome.status.ok() && !outcome.run.ok();
      outcomes_.push_back(std::move(outcome));
      if (interrupted) break;
      if (violated && !options_.shrink.empty()) {
        RETURN_IF_ERROR(ShrinkLast());
      }
    }
    Summarize();
    RETURN_IF_ERROR(WriteJunit());
    return Verdict();
  }

  absl::StatusOr<std::vector<Plan>> LoadPlans() const {
    if (std::ranges::count(options_.files, kStdin) > 1) {
      return absl::InvalidArgumentError(
          "- is named more than once, and stdin holds one plan");
    }
    std::vector<Plan> plans;
    std::string problems;
    for (const std::string& file : options_.files) {
      auto plan = fault::LoadPlan(file);
      if (!plan.ok() && !absl::IsInvalidArgument(plan.status())) {
        return plan.status();
      }
      if (!plan.ok()) {
        problems += (problems.empty() ? "" : "\n");
        problems += std::string(plan.status().message());
        continue;
      }
      if (!options_.seed.empty()) {
        const auto seed = ReadInteger(options_.seed, 0, UINT64_MAX);
        if (!seed.ok()) {
          return absl::InvalidArgumentError(
              fmt::format("--seed: {}", seed.status().message()));
        }
        plan->seed = *seed;
      }
      if (!options_.runner.backend.empty()) {
        if (!plan->topology) {
          return absl::InvalidArgumentError(fmt::format(
              "--backend: plan {} has no topology: the testbed that "
              "is up has its back-end",
              plan->name));
        }
        testbed::SetGpuText(*plan->topology, "backend",
                            options_.runner.backend);
      }
      plans.push_back(*std::move(plan));
    }
    if (!problems.empty()) return absl::InvalidArgumentError(problems);
    return plans;
  }

 private:
  testbed::Say SayLines() {
    return [this](const std::string& line) { console_.Say(line); };
  }

  // Runs with the plan's seed and those after it, until a run does not hold.
  Outcome Repeat(Plan plan) {
    Outcome outcome;
    for (uint32_t i = 0; i < options_.repeat; ++i, ++plan.seed) {
      console_.Say(fmt::format("plan {} ({}), seed {}", plan.name, plan.file,
                               plan.seed));
      outcome.plan = plan;
      auto run = testbed::RunPlan(plan, options_.runner, SayLines());
      outcome.status = run.status();
      if (!run.ok()) break;
      outcome.run = *std::move(run);
      ++outcome.runs;
      if (!outcome.run.ok()) break;
    }
    return outcome;
  }

  void Report(const Outcome& outcome) {
    if (!outcome.status.ok()) {
      if (options_.files.size() > 1 && !absl::IsCancelled(outcome.status)) {
        console_.Say(fmt::format("plan {} could not be run: {}",
                                 outcome.plan.name, outcome.status.message()));
      }
      return;
    }
    const testbed::PlanRun& run = outcome.run;
    if (!console_.json()) {
      Table table({"EXPECTATION", "EXPECTED", "FOUND", ""});
      for (const ExpectationResult& finding : run.findings) {
        table.AddRow(finding.expectation, finding.expected, finding.found,
                     finding.ok ? "ok" : "VIOLATED");
      }
      console_.Print(table);
      console_.Print(testbed::EventsText(run.timeline) +
                     testbed::FirstViolationText(run.timeline));
      console_.Print(fmt::format(
          "verdict of {}: {}\n", outcome.plan.name,
          run.ok() ? console_.Good("ok") : console_.Bad("violated")));
    }
    if (run.ok()) return;
    console_.Say(fmt::format("replay with: {}",
                             testbed::ReplayLine(run.plan, options_.runner)));
    if (!run.kept.empty()) {
      console_.Say(
          fmt::format("kept in {}: look with carillon postmortem --dir {}",
                      run.kept, run.kept));
    }
  }

  absl::Status ShrinkLast() {
    const Outcome& last = outcomes_.back();
    // A smaller plan may fail in a different way, which does not count as this
    // failure.
    std::set<std::string> failed;
    for (const ExpectationResult& finding : last.run.findings) {
      if (!finding.ok && !finding.expectation.ends_with(": struck")) {
        failed.insert(finding.expectation);
      }
    }
    if (failed.empty()) {
      console_.Say("nothing to shrink: only strikes were not as expected");
      return absl::OkStatus();
    }
    absl::Status interrupted;
    testbed::RunnerOptions quiet = options_.runner;
    quiet.save = false;
    const auto fails = [&](const Plan& plan) {
      for (uint32_t i = 0; i < options_.tries && interrupted.ok(); ++i) {
        const auto run =
            testbed::RunPlan(plan, quiet, [](const std::string&) {});
        if (absl::IsCancelled(run.status())) interrupted = run.status();
        if (!run.ok()) continue;
        for (const ExpectationResult& finding : run->findings) {
          if (finding.ok || !failed.contains(finding.expectation)) continue;
          console_.Say(fmt::format("  {}: still {}: {}",
                                   FormatPlural(plan.faults.size(), "fault"),
                                   finding.expectation, finding.found));
          return true;
        }
      }
      console_.Say(fmt::format("  {}: holds",
                               FormatPlural(plan.faults.size(), "fault")));
      return false;
    };
    console_.Say(fmt::format("shrinking plan {}", last.run.plan.name));
    Plan smallest = fault::Shrink(last.run.plan, fails);
    if (!interrupted.ok()) return interrupted;
    RETURN_IF_ERROR(WriteFile(options_.shrink, fault::ToYaml(smallest)));
    console_.Say(fmt::format("the smallest plan that still fails is in {}",
                             options_.shrink));
    return absl::OkStatus();
  }

  Json ToJson(const Outcome& outcome) const {
    Json json = {
        {"plan", outcome.plan.name},
        {"file", outcome.plan.file},
        {"seed", outcome.plan.seed},
        {"verdict", VerdictOf(outcome)},
        {"runs", outcome.runs},
        {"replay", testbed::ReplayLine(outcome.plan, options_.runner)}};
    if (!outcome.status.ok()) {
      json["error"] = ErrorToJson(outcome.status);
      return json;
    }
    const testbed::PlanRun& run = outcome.run;
    json["took_ns"] = run.took_ns;
    json["kept"] = run.kept;
    json["expectations"] = Json::array();
    for (const ExpectationResult& finding : run.findings) {
      json["expectations"].push_back({{"expectation", finding.expectation},
                                      {"expected", finding.expected},
                                      {"found", finding.found},
                                      {"ok", finding.ok}});
    }
    json["events"] = testbed::EventsJson(run.timeline.report.total);
    json["strikes"] = Json::array();
    for (const testbed::StruckStep& strike : run.timeline.strikes) {
      json["strikes"].push_back({{"time_ns", strike.time_ns},
                                 {"fault", strike.fault},
                                 {"process", strike.process},
                                 {"pid", strike.pid}});
    }
    json["violations"] = testbed::ViolationsJson(run.timeline);
    json["around_first"] = testbed::StepsJson(
        run.timeline, testbed::AroundFirstViolation(run.timeline));
    return json;
  }

  void Summarize() {
    if (console_.json()) {
      Json runs = Json::array();
      for (const Outcome& outcome : outcomes_) runs.push_back(ToJson(outcome));
      console_.PrintDocument({{"plans", std::move(runs)}});
      return;
    }
    if (options_.files.size() < 2) return;
    Table table({"PLAN", "VERDICT", ">TOOK", "FILE"});
    for (const Outcome& outcome : outcomes_) {
      table.AddRow(outcome.plan.name, VerdictOf(outcome),
                   FormatSeconds(outcome.run.took_ns), outcome.plan.file);
    }
    console_.Print("\n");
    console_.Print(table);
  }

  absl::Status WriteJunit() const {
    if (options_.junit.empty()) return absl::OkStatus();
    std::vector<fault::JunitSuite> suites;
    for (const Outcome& outcome : outcomes_) {
      fault::JunitSuite suite{.name = outcome.plan.name,
                              .error = std::string(outcome.status.message()),
                              .took_ns = outcome.run.took_ns,
                              .findings = outcome.run.findings};
      if (outcome.status.ok()) {
        suite.details = fmt::format(
            "{}{}replay with: {}\n", testbed::EventsText(outcome.run.timeline),
            testbed::FirstViolationText(outcome.run.timeline),
            testbed::ReplayLine(outcome.plan, options_.runner));
      }
      suites.push_back(std::move(suite));
    }
    return WriteFile(options_.junit, fault::ToJunit(suites));
  }

  absl::Status Verdict() const {
    std::vector<std::string> violated;
    for (const Outcome& outcome : outcomes_) {
      if (!outcome.status.ok()) return outcome.status;
      if (!outcome.run.ok()) violated.push_back(outcome.plan.name);
    }
    if (violated.empty()) return absl::OkStatus();
    return absl::DataLossError(
        fmt::format("what must hold does not hold with plan{} {}",
                    violated.size() == 1 ? "" : "s", JoinWords(violated)));
  }

  const Options& options_;
  Console& console_;
  std::vector<Outcome> outcomes_;
};

}  // namespace

Run MakeFaultRun(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Texts("plan PLAN...", options->files,
             "Plans, - for stdin; docs/faults.md says what "
             "they hold")
      .Required();
  arguments.Text(
      "--name NAME", options->runner.testbed,
      "Of the plan's testbed; without a topology in the plan: the one "
      "that is up");
  arguments.Choice("--backend auto|cpu|cuda|sim", options->runner.backend,
                   {"auto", "cpu", "cuda", "sim"},
                   "Instead of the one in the plan's topology");
  arguments.Text("--seed N", options->seed, "Instead of the plan's");
  arguments.Number("--repeat", options->repeat, 1, 1'000'000,
                   "Run each so often, with a seed one higher each time, until "
                   "one does not hold");
  arguments.Text(
      "--shrink FILE", options->shrink,
      "Cut a plan that does not hold down, and write the smallest one "
      "that still does not");
  arguments.Number("--tries", options->tries, 1, 1000,
                   "Runs of each smaller plan before it counts as one that "
                   "holds");
  arguments.Text("--keep DIR", options->runner.keep,
                 "Folder for the files of runs that do not hold");
  arguments.Text("--junit FILE", options->junit,
                 "Write the verdicts as JUnit XML");
  arguments.Seconds("--timeout", options->runner.timeout_s, 0.1, 3600,
                    "How long the next process may take to be ready");
  return [options, &console]() -> absl::Status {
    Runs runs(*options, console);
    ASSIGN_OR_RETURN(const auto plans, runs.LoadPlans());
    // Blocks Ctrl-C, which must not end this process between two testbeds. Made
    // before gRPC starts a thread, and after stdin was read, which takes as long
    // as others like.
    const testbed::StopSignals between;
    return runs.All(plans);
  };
}

}  // namespace carillon::cli
