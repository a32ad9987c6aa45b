#include "gpu_daemon/options/backend_options.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"

namespace carillon::gpud {
namespace {

Sharer SharerOf(std::string_view backend, const BackendOptions& options) {
  if (backend == kCudaBackend) return Sharer::kCuda;
  return options.timing.empty() ? Sharer::kKmu : Sharer::kSimulatedGpu;
}

absl::Status CheckSharing(Sharer sharer, const BackendOptions& options) {
  if (const auto status = CheckPolicy(sharer, options.policy); !status.ok()) {
    return absl::Status(
        status.code(),
        fmt::format("--policy: {}", std::string(status.message())));
  }
  if (options.reserved_sms == 0 || sharer == Sharer::kCuda) {
    return absl::OkStatus();
  }
  if (options.policy == kReservationPolicy ||
      options.policy == kDynamicReservationPolicy) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(fmt::format(
      "--reserve-sms: it goes with the policies {} and {} here (policy), and "
      "without one with --backend cuda (backend){}",
      kReservationPolicy, kDynamicReservationPolicy,
      sharer == Sharer::kSimulatedGpu
          ? "; the policy configured reserves edge.reserve_sms of a file for "
            "--timing (timing)"
          : ""));
}

absl::Status CheckLink(std::string_view backend,
                       const BackendOptions& options) {
  const RemoteOptions& remote = options.remote;
  if (backend != kRemoteBackend) {
    if (remote.address.empty() && remote.host.empty() && remote.peer.empty() &&
        !remote.tls.any()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--link, and what begins like it: they go with --backend remote "
        "(backend)");
  }
  for (const auto& [flag, value] :
       {std::pair("--link", &remote.address),
        std::pair("--link-host", &remote.host),
        std::pair("--link-peer", &remote.peer),
        std::pair("--link-cert", &remote.tls.certificate),
        std::pair("--link-key", &remote.tls.key),
        std::pair("--link-ca", &remote.tls.ca)}) {
    if (!value->empty()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: --backend remote needs it: the link to the other host's linkd "
        "(docs/mesh.md)",
        flag));
  }
  if (!remote.engine.Complaint().empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--link-engine: {}", remote.engine.Complaint()));
  }
  const BackendOptions defaults;
  for (const auto& [flag, given] :
       {std::pair("--policy", !options.policy.empty()),
        std::pair("--workers", options.workers != 0),
        std::pair("--reserve-sms", options.reserved_sms != 0),
        std::pair("--heap", options.heap_bytes != defaults.heap_bytes)}) {
    if (!given) continue;
    return absl::UnimplementedError(fmt::format(
        "{}: the kernels of --backend remote (backend) run on the other host, "
        "whose gpud has this option",
        flag));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceLatencies> ReadDeviceLatencies(std::string_view text) {
  DeviceLatencies latencies;
  if (text.empty()) return latencies;
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ',');
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format(
          "--device-latencies: '{}' is not NAME=TIME, like fpga0=2us", word));
    }
    const auto latency = ParseDuration(word.substr(equals + 1));
    if (!latency.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--device-latencies: {}: {}", word.substr(0, equals),
                      std::string(latency.status().message())));
    }
    if (*latency != 0) latencies[word.substr(0, equals)] = *latency;
  }
  return latencies;
}

absl::StatusOr<std::vector<std::string>> ReadDeviceOrder(
    std::string_view text) {
  std::vector<std::string> order;
  if (text.empty()) return order;
  order = absl::StrSplit(std::string(text), ',');
  std::set<std::string_view> seen;
  for (const std::string& name : order) {
    if (name.empty() || !seen.insert(name).second) {
      return absl::InvalidArgumentError(
          fmt::format("--device-order: '{}': each name once, like fpga0,host0",
                      std::string(text)));
    }
  }
  return order;
}

absl::Status CheckFor(std::string_view backend, const BackendOptions& options) {
  RETURN_IF_ERROR(CheckLink(backend, options));
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
  if (backend != kCudaBackend && options.preempt_us != 0) {
    return absl::UnimplementedError(
        "--preempt-us: it goes with --backend cuda (backend): elsewhere a "
        "slice "
        "of the policy gpes is as many blocks as the GPU holds at once");
  }
  if (options.timing.empty() && !options.event_log.empty()) {
    return absl::InvalidArgumentError(
        "--event-log: it goes with --timing (timing): in wall time, let "
        "devices trace their events");
  }
  if (!options.timing.empty() && options.workers != 0) {
    return absl::InvalidArgumentError(
        "--workers: it does not go with --timing (timing): one thread is the "
        "simulated GPU");
  }
  if (!options.timing.empty() && options.gpu != GpuModel{}) {
    return absl::InvalidArgumentError(
        "the GPU's model (--sms, --blocks-per-sm, ...; model) does not go with "
        "--timing (timing), whose configuration has its own: change a copy of "
        "that one");
  }
  if (backend == kCpuBackend ||
      (backend == kSimBackend && options.timing.empty())) {
    if (options.reserved_sms >= options.gpu.sms) {
      return absl::InvalidArgumentError(fmt::format(
          "--reserve-sms: {} of {} SMs for events: each side needs one; have "
          "more --sms (sms)",
          options.reserved_sms, options.gpu.sms));
    }
  }
  RETURN_IF_ERROR(ReadDeviceLatencies(options.device_latencies).status());
  RETURN_IF_ERROR(ReadDeviceOrder(options.device_order).status());
  if (options.timing.empty() && !options.device_order.empty()) {
    return absl::InvalidArgumentError(
        "--device-order: it goes with --timing (timing): in wall time, devices "
        "come when they come");
  }
  if (options.timing.empty() && !options.device_latencies.empty()) {
    return absl::InvalidArgumentError(
        "--device-latencies: it goes with --timing (timing): in wall time, a "
        "link takes what it takes");
  }
  // Who "auto" is, its own Create() knows (backends/registry.cc).
  if (backend == kAutoBackend) {
    if (options.policy.empty() || FindPolicy(options.policy) != nullptr) {
      return absl::OkStatus();
    }
  }
  return CheckSharing(SharerOf(backend, options), options);
}

}  // namespace carillon::gpud
