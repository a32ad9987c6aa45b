#include "gpu_daemon/dispatch/policy.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gpu_daemon/options/policy_names.h"

namespace carillon::gpud {
namespace {

// As today's GPUs without priorities: the oldest launch that fits.
class FirstCome : public SharingPolicy {
 public:
  std::string_view name() const override { return kFirstComePolicy; }
  void Rank(std::span<KernelLaunch* const> waiting,
            std::vector<size_t>& order) const override {
    order.resize(waiting.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  bool ByPriority() const override { return false; }
};

// The highest priority that fits, the oldest among equals; nothing running is
// disturbed.
class Priority : public SharingPolicy {
 public:
  std::string_view name() const override { return kPriorityPolicy; }
  void Rank(std::span<KernelLaunch* const> waiting,
            std::vector<size_t>& order) const override {
    order.resize(waiting.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (waiting[a]->priority != waiting[b]->priority) {
        return waiting[a]->priority > waiting[b]->priority;
      }
      return a < b;
    });
  }
  bool ByPriority() const override { return true; }
};

struct PolicyEntry {
  std::string_view name;
  std::unique_ptr<SharingPolicy> (*make)();
};

constexpr PolicyEntry kPolicies[] = {
    {kFirstComePolicy,
     [] { return std::unique_ptr<SharingPolicy>(new FirstCome); }},
    {kPriorityPolicy,
     [] { return std::unique_ptr<SharingPolicy>(new Priority); }},
};
static_assert(std::size(kPolicies) == kPolicyNames.size());

}  // namespace

absl::StatusOr<std::unique_ptr<SharingPolicy>> MakePolicy(
    std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  return absl::NotFoundError(
      fmt::format("no sharing policy '{:.64}'; there are: {}", name,
                  fmt::join(PolicyNames(), ", ")));
}

std::vector<std::string> PolicyNames() {
  return {kPolicyNames.begin(), kPolicyNames.end()};
}

}  // namespace carillon::gpud
