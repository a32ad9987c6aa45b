// Flight recorders that are full, for those who measure what reading them takes.
#ifndef CARILLON_TOOLS_TESTBED_PERFETTO_FULL_RECORDERS_H_
#define CARILLON_TOOLS_TESTBED_PERFETTO_FULL_RECORDERS_H_

#include <string>

#include "absl/status/status.h"

namespace carillon::perfetto {

// Leaves, in a testbed's folder of recorders, those of gpud and of four devices
// that rang one event after the other, 65,536 records each. Errors: as
// FlightRecorder::Create().
absl::Status FillRecorders(const std::string& folder);

}  // namespace carillon::perfetto

#endif  // CARILLON_TOOLS_TESTBED_PERFETTO_FULL_RECORDERS_H_
