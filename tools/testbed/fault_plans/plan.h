// A fault plan: which faults strike a testbed, how long it is watched, and what
// must hold then. docs/faults.md shows the file.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/strict_yaml.h"
#include "shm/faults/fault.h"
#include "tools/testbed/fault_plans/comparison.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::fault {

inline constexpr size_t kMaxAbout = 500;       // characters
inline constexpr uint32_t kMaxClients = 4096;  // of RunTimes

struct PlannedFault {
  faults::Fault fault;
  Comparison struck = AtLeast(1);

  bool operator==(const PlannedFault&) const = default;
};

struct RunTimes {
  // The limit until which the faults must have struck as often as they should.
  Nanoseconds within_ns = 30'000'000'000;
  // How long the load goes on after the last strike. Faults without a limit
  // strike for as long before that.
  Nanoseconds for_ns = 2'000'000'000;
  // The limit until which everything must come to rest at the end.
  Nanoseconds settle_ns = 5'000'000'000;
  // The requests in flight at each NIC, from a memcached client that checks
  // every byte of every reply; 0: no load.
  uint32_t clients = 16;

  bool operator==(const RunTimes&) const = default;
};

// What is counted, with an expected number.
enum class Count {
  kOk,
  kFailed,
  kLost,
  kDuplicated,
  kUnexpected,
  kOutOfOrder,
  kContradicted,
  kWrong,
  kIndeterminate,
  kInFlight,
  kBadReplies,
  kBadExits,
  kLeaks,
};
inline constexpr size_t kCounts = 13;
struct CountInfo {
  std::string_view name;  // "out_of_order"
  std::string_view summary;
  Comparison expected;  // when the plan does not say
};
const CountInfo& InfoOf(Count count);

using ByName = std::vector<std::pair<std::string, Comparison>>;

struct Expectations {
  Expectations();  // what holds for every plan

  Comparison& of(Count count) { return counts[static_cast<size_t>(count)]; }
  const Comparison& of(Count count) const {
    return counts[static_cast<size_t>(count)];
  }

  std::array<Comparison, kCounts> counts;
  // Indeterminate events by the reason (ledger::UnknownName), each reason that
  // is not named none; empty: counts has their sum.
  ByName indeterminate;
  // How many events each process must end after the last strike.
  ByName progress;
  // The processes that must run at the end.
  std::vector<std::string> running;
  ByName restarts;

  bool operator==(const Expectations&) const = default;
};

struct Plan {
  std::string file;  // the file that it was read from
  std::string name;
  std::string about;
  // At most one of these: a file (as the plan names it), or the plan's own
  // topology. Without either, the plan runs on a testbed that is up.
  std::string topology_file;
  std::string topology_yaml;
  std::optional<testbed::Topology> topology;  // read, of either
  uint64_t seed = 0;
  std::vector<PlannedFault> faults;
  RunTimes run;
  Expectations expect;
};

// The faults as they are injected, each with its own stream of the plan's seed.
std::vector<faults::Fault> FaultsOf(const Plan& plan);

struct PlanReading {
  // Complete only if there are no problems.
  Plan plan;
  std::vector<Problem> problems;
};

// `path` is where the text comes from; topologies are looked for beside it.
PlanReading ReadPlan(std::string_view text, const std::string& path);
// Errors: NotFound, PermissionDenied, InvalidArgument (a folder).
absl::StatusOr<PlanReading> ReadPlanFile(const std::string& path);
// Errors: those of ReadPlanFile(), and InvalidArgument with one line per
// problem.
absl::StatusOr<Plan> LoadPlan(const std::string& path);

// Whether the text is meant as a plan, and not as a topology.
bool LooksLikePlan(std::string_view text);

// The plan as a file, from which ReadPlan() makes the same plan.
std::string ToYaml(const Plan& plan);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_PLAN_H_
