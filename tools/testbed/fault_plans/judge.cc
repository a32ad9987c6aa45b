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
  const auto number = [](const auto& sentences) -> std::optional<uint64_t> {
    if (!sentences) return std::nullopt;
    return sentences->size();
  };
  return {total.ok,
          total.failed,
          total.of(Fault::kLost),
          total.of(Fault::kDuplicated),
          total.of(Fault::kUnexpected),
          total.of(Fault::kOutOfOrder),
          total.of(Fault::kContradicted),
          total.of(Fault::kWrong),
          total.indeterminate(),
          evidence.in_flight,
          evidence.bad_replies,
          number(evidence.bad_exits),
          number(evidence.leaks)};
}

// What a bad number is made of, or empty.
std::string Details(Count count, const Evidence& evidence) {
  if (count == Count::kLeaks) return JoinWords(*evidence.leaks);
  if (count == Count::kBadExits) return JoinWords(*evidence.bad_exits);
  if (count != Count::kIndeterminate) return "";
  std::vector<std::string> reasons;
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    const auto reason = ledger::Unknown(i);
    const uint64_t events = evidence.report.total.of(reason);
    if (events == 0) continue;
    reasons.push_back(fmt::format("{} {}", events, UnknownName(reason)));
  }
  return JoinWords(reasons);
}

ExpectationResult Compare(std::string expectation, const Comparison& expected,
                          uint64_t found) {
  return {.expectation = std::move(expectation),
          .expected = expected.ToString(),
          .found = fmt::format("{}", found),
          .ok = expected.Holds(found)};
}

// A reason that the plan does not name must have no events.
void JudgeReasons(const ByName& expected, const ledger::Counts& total,
                  std::vector<ExpectationResult>* findings) {
  if (expected.empty()) return;
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    const auto reason = ledger::Unknown(i);
    const std::string name(UnknownName(reason));
    const auto named =
        std::ranges::find(expected, name, &ByName::value_type::first);
    const uint64_t found = total.of(reason);
    if (named == expected.end() && found == 0) continue;
    findings->push_back(
        Compare("indeterminate: " + name,
                named == expected.end() ? Exactly(0) : named->second, found));
  }
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
    const bool by_reason =
        Count(i) == Count::kIndeterminate && !expect.indeterminate.empty();
    if (!found || by_reason) continue;
    findings.push_back(
        Compare(std::string(InfoOf(Count(i)).name), expect.counts[i], *found));
    if (*found == 0) continue;
    if (const auto details = Details(Count(i), evidence); !details.empty()) {
      findings.back().found += ": " + details;
    }
  }
  JudgeReasons(expect.indeterminate, evidence.report.total, &findings);
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
