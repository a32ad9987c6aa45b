#include "gpu_daemon/options/backend_options.h"

#include <fmt/format.h>

namespace carillon::gpud {
namespace {

// The simulated GPU's configuration file says what is an option elsewhere.
absl::Status CheckForSimulatedTime(const BackendOptions& options) {
  if (options.reserved_sms != 0) {
    return absl::UnimplementedError(
        "--reserve-sms: in simulated time the configuration reserves SMs; "
        "leave it out, and set edge.reserve_sms in a file for --timing "
        "(timing)");
  }
  if (options.policy != kFirstComePolicy) {
    return absl::UnimplementedError(fmt::format(
        "--policy: '{}' is not for simulated time, where the configuration "
        "says how kernels share the GPU: edge.event_priority and its like, in "
        "a file for --timing (timing)",
        options.policy));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFor(std::string_view backend, const BackendOptions& options) {
  if (backend != kSimBackend && !options.timing.empty()) {
    return absl::InvalidArgumentError(
        "--timing: it goes with --backend sim (backend): no other GPU has a "
        "time of its own");
  }
  if (backend != kCudaBackend && options.driver != kNvidiaDriver) {
    return absl::InvalidArgumentError(
        "--driver: it goes with --backend cuda (backend): no other back-end "
        "runs on a driver");
  }
  if (backend == kCudaBackend && options.heap_bytes != kDefaultHeapBytes) {
    return absl::UnimplementedError(
        "--heap: the cuda back-end leaves the heap of malloc() as CUDA makes "
        "it; leave it out");
  }
  if (options.timing.empty() && !options.event_log.empty()) {
    return absl::InvalidArgumentError(
        "--event-log: it goes with --timing (timing): in wall time, let "
        "devices trace their events");
  }
  if (!options.timing.empty()) return CheckForSimulatedTime(options);
  if (options.reserved_sms != 0 &&
      (backend == kCpuBackend || backend == kSimBackend)) {
    return absl::UnimplementedError(fmt::format(
        "--reserve-sms: the {} back-end reserves no SMs; leave it out, or use "
        "--backend cuda (backend)",
        backend));
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
