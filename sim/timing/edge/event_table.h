// The event kernel table of the KMU: launches that are registered before their
// events (EDGE III-A, III-C).
#ifndef CARILLON_SIM_TIMING_EDGE_EVENT_TABLE_H_
#define CARILLON_SIM_TIMING_EDGE_EVENT_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/warp.h"
#include "sim/timing/config.h"

namespace carillon::sim::timing {

// An id is never given out twice.
using EventId = uint64_t;

struct EventKernel {
  Launch launch;
  uint32_t registers = 0;  // per thread; 0: what the kernel needs
  uint32_t priority = 0;   // larger goes first
};

class EventTable {
 public:
  explicit EventTable(const Config& config) : entries_(config.edge.ekt) {}

  // Errors: ResourceExhausted (the table is full).
  absl::StatusOr<EventId> Add(EventKernel kernel);
  // Errors: NotFound.
  absl::Status Remove(EventId event);
  // nullptr if there is no such event.
  const EventKernel* Find(EventId event) const;

  // The most registers per thread that a registered event has; 0 if there is
  // none.
  uint32_t most_registers() const;

 private:
  struct Entry {
    EventId id = 0;  // 0: free
    EventKernel kernel;
  };
  std::vector<Entry> entries_;
  EventId next_ = 1;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_EVENT_TABLE_H_
