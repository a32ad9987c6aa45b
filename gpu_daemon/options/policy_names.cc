#include "gpu_daemon/options/policy_names.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace carillon::gpud {
namespace {

constexpr uint8_t Bits(Sharer a) { return static_cast<uint8_t>(a); }
constexpr uint8_t kSimulatedGpu = Bits(Sharer::kSimulatedGpu);
constexpr uint8_t kEmulated = Bits(Sharer::kKmu) | kSimulatedGpu;
constexpr uint8_t kCuda = Bits(Sharer::kCuda);
constexpr uint8_t kEverywhere = kEmulated | kCuda;

constexpr std::string_view kLower = "lower priorities";
constexpr std::string_view kNoEvents =
    "background kernels, and events of lower priorities";
// On CUDA a stream goes to the highest priority among the background kernels
// that may begin (Background::Fill()).
constexpr std::string_view kLowerBackground =
    "background kernels of lower priorities";
constexpr std::string_view kLowerBackgroundOfADevice =
    "background kernels of lower priorities than others of their device";

constexpr std::string_view kReservationSummary =
    "events have SMs of their own, and no others: --reserve-sms, or half "
    "(EDGE IV-A)";
constexpr std::string_view kExclusiveSummary =
    "devices take turns by their weights, and nothing is sliced (Gdev, as in "
    "GPES IV-C)";

constexpr PolicyInfo kPolicies[] = {
    {kConfiguredPolicy,
     "as the file of --timing says: edge.event_priority, edge.reserve_sms",
     "whoever that file lets wait", kSimulatedGpu, true, true},
    {kFirstComePolicy, "the oldest launch that fits (EDGE II)", "", kEmulated,
     true, false},
    {kPriorityPolicy,
     "the highest priority that fits; nothing that runs is disturbed (EDGE II)",
     kLower, kEverywhere, true, true},
    {kP1Policy,
     "no other block starts while an event's waits for a place (EDGE IV-B, "
     "thesis 5.4.1)",
     kNoEvents, kEmulated, false, true},
    {kP2Policy,
     "no other block starts until all events have ended (thesis 5.4.1)",
     kNoEvents, kEmulated, false, true},
    {kReservationPolicy, kReservationSummary, "", kEmulated, false, false},
    {kReservationPolicy, kReservationSummary, kLowerBackground, kCuda, false,
     false},
    {kDynamicReservationPolicy,
     "SMs of events' own, as many as their load asks for (EDGE IV-A, its "
     "future work)",
     "", kEmulated, false, false},
    {kExclusivePolicy, kExclusiveSummary, "", kEmulated, false, false},
    {kExclusivePolicy, kExclusiveSummary, kLowerBackgroundOfADevice, kCuda,
     false, false},
    {kGpesPolicy,
     "one slice of a kernel at a time, the highest priority next (GPES IV-A, "
     "IV-C)",
     kLower, kEverywhere, false, true},
    {kPtbPolicy,
     "persistent blocks, which leave the GPU between two blocks when somebody "
     "more urgent comes",
     kLower, kCuda, false, true},
};

std::string_view NameOf(Sharer sharer) {
  switch (sharer) {
    case Sharer::kKmu:
      return "the cpu back-end, and sim in wall time,";
    case Sharer::kSimulatedGpu:
      return "the sim back-end in simulated time";
    case Sharer::kCuda:
      return "the cuda back-end";
  }
  return "";
}

std::string NamesOf(Sharer sharer) {
  std::vector<std::string_view> names;
  for (const PolicyInfo* policy : PoliciesOf(sharer)) {
    names.push_back(policy->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const PolicyInfo& policy : kPolicies) {
    if (names.empty() || names.back() != policy.name) {
      names.push_back(policy.name);
    }
  }
  return names;
}

std::vector<const PolicyInfo*> PoliciesOf(Sharer sharer) {
  std::vector<const PolicyInfo*> policies;
  for (const PolicyInfo& policy : kPolicies) {
    if ((policy.sharers & Bits(sharer)) != 0) policies.push_back(&policy);
  }
  return policies;
}

std::string_view DefaultPolicy(Sharer sharer) {
  return PoliciesOf(sharer).front()->name;
}

const PolicyInfo* FindPolicy(std::string_view name) {
  for (const PolicyInfo& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

absl::Status CheckPolicy(Sharer sharer, std::string_view name) {
  if (name.empty()) return absl::OkStatus();
  if (FindPolicy(name) == nullptr) {
    return absl::NotFoundError(
        fmt::format("no sharing policy '{:.64}'; {} can do: {}", name,
                    NameOf(sharer), NamesOf(sharer)));
  }
  const auto can_do = PoliciesOf(sharer);
  if (std::ranges::find(can_do, name, &PolicyInfo::name) != can_do.end()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("sharing policy '{}': {} can do: {}", name, NameOf(sharer),
                  NamesOf(sharer)));
}

}  // namespace carillon::gpud
