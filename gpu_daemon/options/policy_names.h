// The sharing policies as a table: what each is for, what it promises, and
// which back-ends can do it. It is apart from the policies, so that tools can
// read it. docs/policies.md says which to take when.
#ifndef CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_
#define CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace carillon::gpud {

inline constexpr std::string_view kConfiguredPolicy = "configured";
inline constexpr std::string_view kFirstComePolicy = "first_come";
inline constexpr std::string_view kPriorityPolicy = "priority";
inline constexpr std::string_view kP1Policy = "p1";
inline constexpr std::string_view kP2Policy = "p2";
inline constexpr std::string_view kReservationPolicy = "reservation";
inline constexpr std::string_view kDynamicReservationPolicy =
    "dynamic_reservation";
inline constexpr std::string_view kExclusivePolicy = "exclusive";
inline constexpr std::string_view kGpesPolicy = "gpes";
inline constexpr std::string_view kPtbPolicy = "ptb";

// What decides how launches share a GPU; a bit each.
enum class Sharer : uint8_t {
  kKmu = 1,           // gpud's KMU: cpu, and sim in wall time
  kSimulatedGpu = 2,  // sim in simulated time
  kCuda = 4,
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // with the section of its paper
  // Who may wait for ever beside others that never stop launching; empty:
  // nobody, as long as kernels end. Where that depends on who shares, the
  // policy has a row for each.
  std::string_view starves;
  uint8_t sharers = 0;  // who can do it: bits of Sharer
  // Events of one warp may run at once, past the queues in which it chooses.
  bool short_path = false;
  // A higher doorbell is answered before the rest of a lower one's rings.
  bool by_priority = false;
};

// Each back-end's default is the first that it can do.
std::vector<std::string_view> PolicyNames();
std::vector<const PolicyInfo*> PoliciesOf(Sharer sharer);
std::string_view DefaultPolicy(Sharer sharer);

// `name` must be a policy that `sharer` can do; empty: its default. Errors:
// NotFound (no such policy, names all of the sharer's), Unimplemented (not
// this sharer's, names those that are).
absl::Status CheckPolicy(Sharer sharer, std::string_view name);
// Any row of it, for all but `starves` and `sharers`: PoliciesOf() has those.
// Null: there is none.
const PolicyInfo* FindPolicy(std::string_view name);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_OPTIONS_POLICY_NAMES_H_
