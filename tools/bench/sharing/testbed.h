// A testbed for one measurement: gpud and devices (device_role.h), from their
// start to their end.
#ifndef CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_
#define CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace carillon::bench {

struct SharingGpud {
  std::string program;
  // Beside its directory: "--backend", "cpu", ...
  std::vector<std::string> flags;
  // It lives in simulated time, which begins when all devices are there.
  bool simulated = false;
};

struct SharingDevicePlan {
  std::string name;
  Json plan;
};

// What each device saw, in the plans' order; if one was refused a policy, only
// that one's answer. The devices attach one after the other and begin together.
// Errors: the devices'; FailedPrecondition (gpud does not come up; says what it
// logged), Cancelled, DeadlineExceeded.
absl::StatusOr<std::vector<Json>> RunDevices(
    const SharingGpud& gpud, const std::vector<SharingDevicePlan>& plans);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_
