#include "tools/cli/testing/tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/testing/bazel.h"
#include "tools/cli/testing/build_events.h"

namespace carillon::cli {
namespace {

using Outcome = TestCase::Outcome;

// Bazel: "tests were asked for, but there are none".
constexpr int kNoTests = 4;

class Counter {
 public:
  Counter(const std::vector<AllowedSkip>& allowed, Tally& tally)
      : allowed_(allowed), tally_(tally) {}

  void Count(const TestRun& run) {
    configuration_ = run.configuration;
    const int failed_before = tally_.failed;
    size_t not_run = 0;
    for (const TargetResult& target : run.targets) {
      if (run.interrupted() && target.status == kNotRun) {
        ++not_run;
      } else {
        Count(target);
      }
    }
    if (run.interrupted()) {
      tally_.not_run.push_back(
          run.targets.empty()
              ? fmt::format("all targets ({})", configuration_)
              : fmt::format("{} of {} targets ({})", not_run,
                            run.targets.size(), configuration_));
      return;
    }
    const bool none = run.exit_code == kNoTests && run.targets.empty();
    if (run.exit_code != 0 && !none && tally_.failed == failed_before) {
      Fail("bazel", "", fmt::format("exit code {}", run.exit_code));
    }
  }

 private:
  void Count(const TargetResult& target) {
    const int failed_before = tally_.failed;
    if (!target.attempts.empty()) {
      for (const TestCase& test : target.attempts.back()) Count(target, test);
    }
    const bool passed = !target.attempts.empty() &&
                        (target.status == "PASSED" || target.status == "FLAKY");
    // A crash after the last case, or a leak that a sanitizer found, is none of
    // the cases' failure.
    if (!passed && tally_.failed == failed_before) {
      Fail(target.label, "", target.status);
    }
    if (passed) NameRetried(target);
  }

  void Count(const TargetResult& target, const TestCase& test) {
    switch (test.outcome) {
      case Outcome::kPassed:
        ++tally_.passed;
        return;
      case Outcome::kFailed:
        Fail(target.label, test.name,
             fmt::format("{}: {}", target.status, test.reason));
        return;
      case Outcome::kSkipped:
        break;
    }
    const bool allowed =
        std::any_of(allowed_.begin(), allowed_.end(), [&](const auto& skip) {
          return skip.Allows(configuration_, target.label, test.name,
                             test.reason);
        });
    if (!allowed) {
      Fail(target.label, test.name,
           fmt::format("skipped, which is not allowed: {}", test.reason));
      return;
    }
    ++tally_.skipped;
    tally_.skips.push_back(Line(target.label, test.name, test.reason));
  }

  // Of an attempt that crashed, only the target is known.
  void NameRetried(const TargetResult& target) {
    const size_t named_before = tally_.retried.size();
    for (size_t i = 0; i + 1 < target.attempts.size(); ++i) {
      const auto& cases = target.attempts[i];
      for (const TestCase& test : cases) {
        if (test.outcome != Outcome::kFailed) continue;
        tally_.retried.push_back(
            Line(target.label, test.name,
                 fmt::format("failed at attempt {}: {}", i + 1, test.reason)));
      }
    }
    if (target.status == "FLAKY" && tally_.retried.size() == named_before) {
      tally_.retried.push_back(Line(target.label, "", target.status));
    }
  }

  void Fail(const std::string& label, const std::string& test,
            const std::string& what) {
    ++tally_.failed;
    tally_.failures.push_back(Line(label, test, what));
  }

  std::string Line(const std::string& label, const std::string& test,
                   const std::string& what) const {
    return fmt::format(
        "{}{}{}{}: {}", label, test.empty() ? "" : " ", test,
        configuration_ == "default" ? "" : fmt::format(" ({})", configuration_),
        what);
  }

  const std::vector<AllowedSkip>& allowed_;
  Tally& tally_;
  std::string configuration_;
};

}  // namespace

bool TestRun::interrupted() const { return exit_code == kBazelInterrupted; }

Tally CountCases(const std::vector<TestRun>& runs,
                 const std::vector<AllowedSkip>& allowed) {
  Tally tally;
  Counter counter(allowed, tally);
  for (const TestRun& run : runs) counter.Count(run);
  return tally;
}

std::vector<AllowedSkip> StaleSkips(const std::vector<TestRun>& runs,
                                    const std::vector<AllowedSkip>& allowed) {
  std::vector<AllowedSkip> stale = allowed;
  std::erase_if(stale, [&](const AllowedSkip& skip) {
    return std::ranges::any_of(runs, [&](const TestRun& run) {
      return std::ranges::any_of(run.targets, [&](const TargetResult& target) {
        return skip.AllowsTarget(target.label);
      });
    });
  });
  return stale;
}

}  // namespace carillon::cli
