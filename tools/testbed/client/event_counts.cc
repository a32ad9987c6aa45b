#include "tools/testbed/client/event_counts.h"

#include <fmt/format.h>

namespace carillon::testbed {

uint64_t InFlight(const v1::EventCounts& counts) {
  const uint64_t ended = counts.done() + counts.failed() + counts.aborted();
  return counts.rung() > ended ? counts.rung() - ended : 0;
}

absl::Status CheckLedger(const v1::EventCounts& counts) {
  const uint64_t ended = counts.done() + counts.failed() + counts.aborted();
  if (ended <= counts.rung()) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "the ledger is wrong: {} events rung, but {} ended ({} done, {} failed, "
      "{} aborted)",
      counts.rung(), ended, counts.done(), counts.failed(), counts.aborted()));
}

}  // namespace carillon::testbed
