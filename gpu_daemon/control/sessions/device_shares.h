// What the operator lets each device have, by its name, whether it is attached or
// not. The devices have no say in it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SHARES_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SHARES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "gpu_daemon/event/device_memory.h"

namespace carillon::gpud {

// Thread safe.
class DeviceShares {
 public:
  struct Share {
    uint32_t weight = 1;
    std::optional<uint32_t> max_priority;  // none: gpud's --max-priority
  };

  Share Of(const std::string& device) const {
    MutexLock lock(mutex_);
    const auto found = shares_.find(device);
    return found == shares_.end() ? Share() : found->second;
  }
  // What has no value stays.
  void Set(const std::string& device, std::optional<uint32_t> weight,
           std::optional<uint32_t> max_priority) {
    MutexLock lock(mutex_);
    Share& share = shares_[device];
    if (weight) share.weight = *weight;
    if (max_priority) share.max_priority = max_priority;
  }
  // Tells a device's share to who launches for it.
  void Apply(const std::string& device, const DeviceMemory& memory) const {
    const Share share = Of(device);
    memory.share().set_weight(share.weight);
    if (share.max_priority)
      memory.share().set_max_priority(*share.max_priority);
  }
  bool Has(const std::string& device) const {
    MutexLock lock(mutex_);
    return shares_.contains(device);
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return shares_.size();
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, Share> shares_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SHARES_H_
