#include "gpu_daemon/event/backend_options.h"

#include <fmt/format.h>

namespace carillon::gpud {
namespace {

// The simulated GPU's configuration file says what is an option elsewhere.
absl::Status CheckForSimulatedTime(const BackendOptions& options) {
  if (options.reserved_sms != 0) {
    return absl::UnimplementedError(
        "in simulated time the configuration reserves SMs: leave out "
        "--reserve-sms (reserve_sms), and set edge.reserve_sms in a file for "
        "--timing");
  }
  if (options.policy != kFirstComePolicy) {
    return absl::UnimplementedError(fmt::format(
        "--policy {}: in simulated time the configuration says how kernels "
        "share the GPU: edge.event_priority and its like, in a file for "
        "--timing",
        options.policy));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFor(std::string_view backend, const BackendOptions& options) {
  if (backend != kSimBackend && !options.timing.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "--timing {} (timing) goes with --backend sim: no other GPU has a time "
        "of its own",
        options.timing));
  }
  if (options.timing.empty() && !options.event_log.empty()) {
    return absl::InvalidArgumentError(
        "--event-log (event_log) goes with --timing: in wall time, let devices "
        "trace their events");
  }
  if (!options.timing.empty()) return CheckForSimulatedTime(options);
  if (options.reserved_sms != 0 && backend == kCpuBackend) {
    return absl::UnimplementedError(
        "the cpu back-end reserves no SMs: leave out --reserve-sms "
        "(reserve_sms), or use --backend cuda");
  }
  if (options.reserved_sms != 0 && backend == kSimBackend) {
    return absl::UnimplementedError(
        "the sim back-end reserves no SMs for functional runs: leave out "
        "--reserve-sms (reserve_sms)");
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
