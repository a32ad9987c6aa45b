#include "tools/testbed/fault_plans/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
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

// In the order of Count; empty what could not be measured.
std::array<std::optional<uint64_t>, kCounts> Found(const Evidence& evidence) {
  using ledger::Fault;
  const ledger::Counts& total = evidence.report.total;
  std::optional<uint64_t> leaks;
  if (evidence.leaks) leaks = evidence.leaks->size();
  return {total.ok,
          total.failed,
          total.of(Fault::kLost),
          total.of(Fault::kDuplicated),
          total.of(Fault::kUnexpected),
          total.of(Fault::kOutOfOrder),
          total.of(Fault::kContradicted),
          total.indeterminate(),
          evidence.in_flight,
          evidence.bad_replies,
          leaks};
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
  const auto all_found = Found(evidence);
  for (size_t i = 0; i < kCounts; ++i) {
    const auto& found = all_found[i];
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
    const bool runs = std::ranges::count(evidence.running, process) != 0;
    findings.push_back({.expectation = process,
                        .expected = "runs",
                        .found = runs ? "runs" : "does not run",
                        .ok = runs});
  }
  return findings;
}

bool Holds(const std::vector<ExpectationResult>& findings) {
  return std::ranges::all_of(findings, &ExpectationResult::ok);
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
