// Who takes turns on the GPU under policy exclusive, and for how long: the same
// on all back-ends.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_DEVICE_PARTIES_H_
#define CARILLON_GPU_DAEMON_DISPATCH_DEVICE_PARTIES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/event/device_memory.h"
#include "sim/timing/sharing/device_turns.h"

namespace carillon::gpud {

// For as long as another device waits, times the weight.
inline constexpr Nanoseconds kTurnNs = 1'000'000;

// nullptr: a launch of nobody's.
inline sim::timing::DeviceTurns::Device TurnsDeviceOf(
    const DeviceMemory* device) {
  return reinterpret_cast<uintptr_t>(device);
}

// The devices with launches, in the order in which they were asked for.
class DeviceParties {
 public:
  using Party = sim::timing::DeviceTurns::Party;

  void Clear() { parties_.clear(); }
  Party& Of(const DeviceMemory* device) {
    for (Party& party : parties_) {
      if (party.device == TurnsDeviceOf(device)) return party;
    }
    return parties_.emplace_back(
        Party{.device = TurnsDeviceOf(device),
              .weight = device == nullptr ? 1 : device->share().weight()});
  }
  std::span<const Party> all() const { return parties_; }

 private:
  std::vector<Party> parties_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_DEVICE_PARTIES_H_
