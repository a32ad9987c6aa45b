// The testbed of measurements: gpud, and for each of them devices (device_role.h),
// from their start to their end.
#ifndef CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_
#define CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_

#include <cstdint>
#include <memory>
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

  bool operator==(const SharingGpud&) const = default;
};

struct SharingDevicePlan {
  std::string name;
  Json plan;
};

// Not thread safe.
class SharingTestbed {
 public:
  SharingTestbed();
  ~SharingTestbed();

  // What each device saw, in the plans' order; if one was refused a policy, only
  // that one's answer. The devices attach one after the other and begin together.
  // In wall time gpud stays for the next run with the same one, since on a GPU its
  // start takes longer than a run: with the policy that it has been set.
  // Errors: the devices'; FailedPrecondition (gpud does not come up; says what it
  // logged), Cancelled, DeadlineExceeded.
  absl::StatusOr<std::vector<Json>> Run(
      const SharingGpud& gpud, const std::vector<SharingDevicePlan>& plans);

 private:
  struct Running;

  std::unique_ptr<Running> running_;
  uint64_t runs_ = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_TESTBED_H_
