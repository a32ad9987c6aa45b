// Compares what a plan expects with what was found.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUDGE_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUDGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::fault {

// What was found. Nothing is expected of what could not be measured.
struct Evidence {
  ledger::Report report;
  std::map<std::string, uint64_t> struck;  // indexed by the fault's name
  std::optional<uint64_t> in_flight;
  std::optional<uint64_t> bad_replies;
  // One sentence each.
  std::optional<std::vector<std::string>> bad_exits;
  std::optional<std::vector<std::string>> leaks;
  // How many events each process ended after the last strike.
  std::map<std::string, uint64_t> progress;
  std::map<std::string, uint32_t> restarts;
  std::vector<std::string> running;
};

struct ExpectationResult {
  std::string expectation;  // "lost", "nic-dies: struck", "restarts of nic0"
  std::string expected;
  std::string found;
  bool ok = false;

  bool operator==(const ExpectationResult&) const = default;
};

// One finding for each expectation, those of the faults first.
std::vector<ExpectationResult> Judge(const Plan& plan,
                                     const Evidence& evidence);
bool Holds(const std::vector<ExpectationResult>& findings);

// By process: the events that devices took and gpud ended at `since` or later.
std::map<std::string, uint64_t> ProgressSince(ledger::Recordings recordings,
                                              Nanoseconds since);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUDGE_H_
