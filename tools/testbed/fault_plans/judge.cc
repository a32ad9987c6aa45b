#include "tools/testbed/fault_plans/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace carillon::fault {
namespace {

template <class Value>
Value ValueOf(const std::map<std::string, Value>& values,
              const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? Value() : found->second;
}

// Empty if it could not be measured.
std::optional<uint64_t> Found(const Evidence& evidence, Count count) {
  const ledger::Counts& total = evidence.report.total;
  switch (count) {
    case Count::kOk:
      return total.ok;
    case Count::kFailed:
      return total.failed;
    case Count::kLost:
      return total.of(ledger::Fault::kLost);
    case Count::kDuplicated:
      return total.of(ledger::Fault::kDuplicated);
    case Count::kUnexpected:
      return total.of(ledger::Fault::kUnexpected);
    case Count::kOutOfOrder:
      return total.of(ledger::Fault::kOutOfOrder);
    case Count::kContradicted:
      return total.of(ledger::Fault::kContradicted);
    case Count::kIndeterminate:
      return total.indeterminate();
    case Count::kInFlight:
      return evidence.in_flight;
    case Count::kBadReplies:
      return evidence.bad_replies;
    case Count::kLeaks:
      if (!evidence.leaks) return std::nullopt;
      return evidence.leaks->size();
  }
  return std::nullopt;
}

ExpectationResult Compare(std::string expectation, const Comparison& expected,
                          uint64_t found) {
  return {.expectation = std::move(expectation),
          .expected = expected.ToString(),
          .found = fmt::format("{}", found),
          .ok = expected.Holds(found)};
}

}  // namespace

std::vector<ExpectationResult> Judge(const Plan& plan,
                                     const Evidence& evidence) {
  std::vector<ExpectationResult> findings;
  for (const PlannedFault& planned : plan.faults) {
    findings.push_back(Compare(planned.fault.name + ": struck", planned.struck,
                               ValueOf(evidence.struck, planned.fault.name)));
  }
  const Expectations& expect = plan.expect;
  for (size_t i = 0; i < kCounts; ++i) {
    const auto found = Found(evidence, Count(i));
    if (!found) continue;
    findings.push_back(
        Compare(std::string(InfoOf(Count(i)).name), expect.counts[i], *found));
    if (Count(i) == Count::kLeaks && *found != 0) {
      findings.back().found += ": " + JoinWords(*evidence.leaks);
    }
  }
  for (const auto& [process, comparison] : expect.progress) {
    findings.push_back(Compare(fmt::format("progress of {}", process),
                               comparison,
                               ValueOf(evidence.progress, process)));
  }
  for (const auto& [process, comparison] : expect.restarts) {
    findings.push_back(Compare(fmt::format("restarts of {}", process),
                               comparison,
                               ValueOf(evidence.restarts, process)));
  }
  for (const std::string& process : expect.running) {
    const bool runs =
        std::find(evidence.running.begin(), evidence.running.end(), process) !=
        evidence.running.end();
    findings.push_back({.expectation = process,
                        .expected = "runs",
                        .found = runs ? "runs" : "does not run",
                        .ok = runs});
  }
  return findings;
}

bool Holds(const std::vector<ExpectationResult>& findings) {
  return std::all_of(
      findings.begin(), findings.end(),
      [](const ExpectationResult& finding) { return finding.ok; });
}

std::map<std::string, uint64_t> ProgressSince(ledger::Recordings recordings,
                                              Nanoseconds since) {
  std::map<std::string, uint64_t> progress;
  // By ring and generation: the devices whose kernels complete events
  // themselves.
  std::map<std::pair<uint16_t, uint32_t>, std::string> ended_by_kernels;
  for (const shm::FlightRecording& recording : recordings) {
    for (const shm::FlightRecord& record : recording.records) {
      if (record.step == shm::Step::kRingMade && record.status == 0) {
        ended_by_kernels[{record.event_id, record.generation}] = recording.name;
      }
    }
  }
  for (const shm::FlightRecording& recording : recordings) {
    progress[recording.name];
    for (const shm::FlightRecord& record : recording.records) {
      if (record.time_ns < since) continue;
      const bool taken = record.step == shm::Step::kTaken;
      if (taken || record.step == shm::Step::kEnded ||
          record.step == shm::Step::kEndNoted) {
        ++progress[recording.name];
      }
      if (!taken) continue;
      const auto gpud =
          ended_by_kernels.find({record.event_id, record.generation});
      if (gpud != ended_by_kernels.end()) ++progress[gpud->second];
    }
  }
  return progress;
}

}  // namespace carillon::fault
