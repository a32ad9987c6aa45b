// Who gets the next free thread-block slot, and whose doorbell is answered
// first. A sharing policy is one class and one line in policy.cc.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_
#define CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/kernel_launch.h"

namespace carillon::gpud {

class SharingPolicy {
 public:
  virtual ~SharingPolicy() = default;
  virtual std::string_view name() const = 0;

  // The launches that have blocks left to place, in the order of arrival (never
  // empty). Returns the indices to try, best first, in `order`; one that is
  // left out must wait. Called under the KMU's lock: no blocking, no allocation
  // beyond `order`.
  virtual void Rank(std::span<KernelLaunch* const> waiting,
                    std::vector<size_t>& order) const = 0;

  // Whether priorities count before Rank() is asked: a higher doorbell is
  // answered before the rest of a lower one's rings, the highest pending launch
  // is the next of the KDU's, and a launch that waits there for its first block
  // gives way to a higher one. Otherwise all of this goes by arrival.
  virtual bool ByPriority() const = 0;
};

// "first_come" or "priority". NotFound, naming the nearest.
absl::StatusOr<std::unique_ptr<SharingPolicy>> MakePolicy(
    std::string_view name);
std::vector<std::string> PolicyNames();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_POLICY_H_
