// Sums of gpud's ledger.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_EVENT_COUNTS_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_EVENT_COUNTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/admin.pb.h"

namespace carillon::testbed {

// rung - done - failed - aborted; 0 when that is negative.
uint64_t InFlight(const v1::EventCounts& counts);
// DataLoss if more events ended than were rung.
absl::Status CheckLedger(const v1::EventCounts& counts);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_EVENT_COUNTS_H_
