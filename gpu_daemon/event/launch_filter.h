// Names the launches that a call is about: every launch, those of one device or
// of one event kernel, or one background kernel. Copies count as background
// kernels.
#ifndef CARILLON_GPU_DAEMON_EVENT_LAUNCH_FILTER_H_
#define CARILLON_GPU_DAEMON_EVENT_LAUNCH_FILTER_H_

#include <cstdint>
#include <variant>

#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/memory_copy.h"

namespace carillon::gpud {

// Holds an address of what it names, which must live as long as the filter.
class LaunchFilter {
 public:
  static LaunchFilter All() { return LaunchFilter(Everything()); }
  // The device's events and its background kernels.
  static LaunchFilter Of(const DeviceMemory& device) {
    return LaunchFilter(&device);
  }
  static LaunchFilter Of(const EventKernel& event) {
    return LaunchFilter(&event);
  }
  // The background kernel of that KernelLaunch::token; 0 names none.
  static LaunchFilter OfToken(uint64_t token) { return LaunchFilter(token); }

  // Whether the events of this event kernel are meant.
  bool Matches(const EventKernel& event) const {
    if (const auto* device = std::get_if<const DeviceMemory*>(&which_)) {
      return &event.memory() == *device;
    }
    if (const auto* one = std::get_if<const EventKernel*>(&which_)) {
      return &event == *one;
    }
    return std::holds_alternative<Everything>(which_);
  }
  bool Matches(const KernelLaunch& launch) const {
    return launch.is_event() ? Matches(*launch.event)
                             : MatchesCall(launch.memory.get(), launch.token);
  }
  bool Matches(const MemoryCopy& copy) const {
    return MatchesCall(copy.memory.get(), copy.token);
  }
  // Whether it may name events at all.
  bool names_events() const {
    return !std::holds_alternative<uint64_t>(which_);
  }
  // The device, if this filter is about all that one device has launched.
  const DeviceMemory* device() const {
    const auto* device = std::get_if<const DeviceMemory*>(&which_);
    return device == nullptr ? nullptr : *device;
  }

 private:
  struct Everything {};
  using Which = std::variant<Everything, const DeviceMemory*,
                             const EventKernel*, uint64_t>;
  explicit LaunchFilter(Which which) : which_(which) {}

  // What a call of the control plane has started: not an event.
  bool MatchesCall(const DeviceMemory* memory, uint64_t token) const {
    if (const auto* device = std::get_if<const DeviceMemory*>(&which_)) {
      return memory == *device;
    }
    if (const auto* one = std::get_if<uint64_t>(&which_)) {
      return *one != 0 && token == *one;
    }
    return std::holds_alternative<Everything>(which_);
  }

  Which which_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_LAUNCH_FILTER_H_
