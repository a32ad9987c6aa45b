#include "tools/testbed/supervisor/restart_request.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "base/json.h"

namespace carillon::testbed {
namespace {

constexpr int64_t kMaxTimeoutMs = 3'600'000;

}  // namespace

Json ToJson(const RestartRequest& request) {
  return {{"restart", request.processes},
          {"kill", request.kill},
          {"timeout_ms", request.timeout.count()}};
}

absl::StatusOr<RestartRequest> ReadRestartRequest(const Json& json) {
  RestartRequest request;
  int64_t timeout_ms = 0;
  // nlohmann throws; no exception leaves this function.
  try {
    request.processes = json.at("restart").get<std::vector<std::string>>();
    request.kill = json.at("kill").get<bool>();
    if (json.at("timeout_ms").is_number_integer()) {
      timeout_ms = json["timeout_ms"].get<int64_t>();
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        fmt::format("the request is not understood: {}", error.what()));
  }
  if (request.processes.empty()) {
    return absl::InvalidArgumentError("the request names no process");
  }
  if (timeout_ms < 1 || timeout_ms > kMaxTimeoutMs) {
    return absl::InvalidArgumentError(fmt::format(
        "timeout_ms is {}; allowed: 1 to {}", timeout_ms, kMaxTimeoutMs));
  }
  request.timeout = std::chrono::milliseconds(timeout_ms);
  return request;
}

}  // namespace carillon::testbed
