// How a supervisor learns that a process it started is ready.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_READINESS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_READINESS_H_

#include <sys/types.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace carillon::testbed {

struct DeviceReadiness {
  bool ready = false;
  std::string note;  // where it serves
  // The attached process; 0 if not known.
  pid_t pid = 0;
};

// A call takes at most about a second, and may fail as long as nobody serves.
class ReadinessProbe {
 public:
  virtual ~ReadinessProbe() = default;
  // OK once gpud answers its health check. `note` describes it for people.
  virtual absl::Status Gpud(std::string* note) = 0;
  // The attached devices by name.
  virtual absl::StatusOr<std::map<std::string, DeviceReadiness>> Devices() = 0;
  // OK unless the link to the GPU's host is down; Unavailable: why.
  virtual absl::Status Link() = 0;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_READINESS_H_
