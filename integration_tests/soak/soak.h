// A testbed under load whose processes are killed hundreds of times, each time
// at a named point, and which must be as before after every kill:
//
//   round    one kill: undisturbed work, the kill, the wait until every process
//            works again, a time under load, and the verdict
//   verdict  of a round: what was lost or doubled, what leaks, what hangs
//   figures  how long it takes to notice deaths and to recover; they decide
//            nothing
//
// The testbed has gpud, nic0, fpga0 and cpu_host0, which are killed in turn,
// and nic1, which is never killed.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_SOAK_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_SOAK_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "integration_tests/soak/figures.h"
#include "integration_tests/soak/resource_use.h"
#include "integration_tests/soak/segments.h"
#include "integration_tests/soak/targets.h"
#include "integration_tests/testbed.h"

namespace carillon::soak {

struct Options {
  uint32_t kills = 20;
  uint64_t seed = 1;
  // The roles and points of the kills. Empty: all.
  std::vector<std::string> only;
  // The time under load before a kill, and the least after it; twice as long
  // after gpud's death.
  std::chrono::milliseconds before{600};
  std::chrono::milliseconds after{800};
  // What takes longer counts as a hang.
  std::chrono::milliseconds bound{20'000};
  // Called with a line per round, and with what is wrong.
  std::function<void(const std::string&)> say;
  // For tests: called before each kill.
  std::function<void(testing::FaultTestbed&)> disturb;
};

struct TargetResult {
  Target target;
  uint32_t kills = 0;
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t other_violations = 0;
  uint64_t failed = 0;  // events that ended so, and are told so
  uint32_t leaks = 0;   // sentences
  uint32_t hangs = 0;
  Sample served_ms;  // from the kill until everybody gets on again
};

// A resource that could leak.
struct LeakRow {
  std::string what;  // "nic1: descriptors"
  Trend trend;
};

// A figure over all rounds, and over those on a quiet machine: other programs
// used at most kQuietShare of its CPUs before the kill.
inline constexpr double kQuietShare = 0.1;
struct Figure {
  void Add(double value, bool is_quiet) {
    all.Add(value);
    if (is_quiet) quiet.Add(value);
  }

  Sample all;
  Sample quiet;
};

struct Figures {
  Sample others;  // their share of all CPUs, before each kill
  Figure bare_wake_us;
  // Deaths of devices.
  Figure device_bare_us;  // until a bare pidfd wakes
  Figure gpud_closed_us;  // until gpud has closed the session
  // Deaths of gpud.
  Figure gpud_bare_us;
  Figure devices_knew_us;
  Figure first_session_ms;
  Figure first_end_ms;
  Figure full_rate_ms;
  // Deaths whose full rate did not return within the round.
  uint32_t never_full = 0;
  // nic1's good replies per second, in windows of `after` behind another
  // device's death, and in those before it.
  Figure with_death;
  Figure without_death;
  Figure ratio;
};

struct Result {
  std::vector<TargetResult> targets;
  uint32_t kills = 0;
  uint64_t rung = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t bad_replies = 0;
  uint64_t replies = 0;
  // Wrong results of frames, kernels and scheduled events.
  uint64_t wrong_results = 0;
  std::array<uint64_t, ledger::kUnknowns> unknown{};
  std::vector<LeakRow> leaks;
  Figures figures;
  double seconds = 0;
  // One sentence for each failure; empty: the soak has passed.
  std::vector<std::string> wrong;
};

// Brings the testbed up, kills, judges, and takes it down. Ends early if
// something hangs. No wait is longer than `bound`.
Result Soak(const Options& options);

std::string ReportText(const Options& options, const Result& result);

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_SOAK_H_
