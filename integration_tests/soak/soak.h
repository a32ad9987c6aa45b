// A testbed under load whose processes are killed hundreds of times, each time
// at a named point, and which must be as it was after every kill:
//
//   round    one kill: undisturbed for a while, the kill, until everybody gets
//            on, for a while under load, then judged
//   verdict  of a round: what was lost or doubled, what leaks, what hangs
//   figures  how long deaths take to be noticed and to be overcome; they decide
//            nothing
//
// The testbed has gpud, nic0, fpga0 and cpu_host0, which are killed in turn,
// and nic1, which never is.
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
  // Roles and points: only these are killed, only there. Empty: all.
  std::vector<std::string> only;
  // Under load before a kill and, at least, behind it; twice as long behind
  // gpud's.
  std::chrono::milliseconds before{600};
  std::chrono::milliseconds after{800};
  // Whatever takes longer hangs.
  std::chrono::milliseconds bound{20'000};
  // Takes a line a round, and what is wrong.
  std::function<void(const std::string&)> say;
  // For tests: called before each kill.
  std::function<void(testing::FaultTestbed&)> disturb;
};

// Of one target, over all rounds.
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

// Of a kind of thing that could leak.
struct LeakRow {
  std::string what;  // "nic1: descriptors"
  Trend trend;
};

// Of all rounds, and of those on a quiet machine: others used at most
// kQuietShare of its CPUs before the kill.
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
  uint32_t never_full = 0;  // not within the round
  // nic1's good replies a second, in windows of `after` behind the death of
  // another device, and in those before.
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
  uint64_t wrong_results = 0;  // of frames, kernels and scheduled events
  std::array<uint64_t, ledger::kUnknowns> unknown{};
  std::vector<LeakRow> leaks;
  Figures figures;
  double seconds = 0;
  // What must not be, a sentence each; empty: the soak has passed.
  std::vector<std::string> wrong;
};

// Brings the testbed up, kills, judges, takes it down. Ends early where
// something hangs. Bounded: no wait is longer than `bound`.
Result Soak(const Options& options);

// The tables of a result.
std::string ReportText(const Options& options, const Result& result);

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_SOAK_H_
