// Who gets the next free thread-block slot, and whose doorbell is answered
// first, on back-ends whose blocks gpud itself places: one class and one line in
// policy.cc for each policy, beside its line in the table of
// gpu_daemon/options/policy_names.cc. Those of cuda are in
// backends/cuda/paths/launch_gate.cc.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_
#define CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/options/policy_names.h"

namespace carillon::gpud {

// Launches of one device that no KDU entry has.
struct PendingLaunches {
  const DeviceMemory* device = nullptr;
  uint64_t oldest = 0;  // arrival
  uint32_t events = 0;
};

// What a policy sees of the KMU: all launches, those that run as well.
struct KmuView {
  // In the order of arrival. has_blocks(): some are left to place; running():
  // so many are on SMs.
  std::span<const std::unique_ptr<KernelLaunch>> kdu;
  // Only with SharingPolicy::needs_plan(): by device, and the time.
  std::span<const PendingLaunches> pending = {};
  Nanoseconds now_ns = 0;
};

// A launch whose next block may go to these SMs.
struct Candidate {
  KernelLaunch* launch = nullptr;
  SmRange sms;
};

// Calls come under the KMU's lock: they do not block. A policy may be taken up
// at any moment, whatever runs, and nothing that has begun may stay for ever
// without a block: its KDU entry is needed.
class SharingPolicy {
 public:
  explicit SharingPolicy(const PolicyInfo& info) : info_(info) {}
  virtual ~SharingPolicy() = default;
  const PolicyInfo& info() const { return info_; }

  // Launches of a higher precedence get KDU entries first, also those of others
  // that wait there for their first block; of one precedence, the oldest.
  virtual uint32_t Precedence(const KernelLaunch&) const { return 0; }
  // Whether the KDU takes the launch beside what it has, and has room for.
  virtual bool Admits(const KernelLaunch&,
                      std::span<const std::unique_ptr<KernelLaunch>>) const {
    return true;
  }
  virtual bool needs_plan() const { return false; }
  // With needs_plan(): before each Rank(). True: what has not begun leaves the
  // KDU, and is chosen anew.
  virtual bool Plan(const KmuView&) { return false; }

  // Appends what may have its next block placed to `order`, best first.
  virtual void Rank(const KmuView& view, std::vector<Candidate>& order) = 0;

 private:
  const PolicyInfo& info_;
};

// `reserved_sms`: for events, by the policies that reserve; 0: half of them.
// Errors: those of CheckPolicy(); InvalidArgument (a reservation that leaves
// nothing for one side).
absl::StatusOr<std::unique_ptr<SharingPolicy>> MakePolicy(
    std::string_view name, const GpuModel& gpu = {}, uint32_t reserved_sms = 0);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_
