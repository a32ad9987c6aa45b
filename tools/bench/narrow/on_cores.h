// Narrow tasks on this machine's cores, in wall time: as events of a gpud, and by
// plain threads.
#ifndef CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_
#define CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

// A workload's data at a gpud. One thread.
class NarrowEvents {
 public:
  // `device` and `workload` must outlive it. Errors: ResourceExhausted (no room
  // for the data).
  static absl::StatusOr<std::unique_ptr<NarrowEvents>> Open(
      edge::Device* device, const NarrowWorkload* workload);
  ~NarrowEvents();

  // Each task is an event of a launch path; `batch` of them at most at once, of
  // which the next begin when all have ended; 0: one after another, as slots are
  // free. Checks all results. Errors: those of edgeRegisterEvent (InvalidArgument
  // and Unimplemented: the path refuses a kernel), DataLoss (a wrong result),
  // Internal (an event failed), DeadlineExceeded (none ends), those of
  // `may_go_on`.
  absl::StatusOr<NarrowOutcome> Run(
      std::string_view path, uint32_t batch,
      const std::function<absl::Status()>& may_go_on);

 private:
  class Runner;

  NarrowEvents(edge::Device* device, const NarrowWorkload* workload)
      : device_(*device), workload_(*workload) {}

  edge::Device& device_;
  const NarrowWorkload& workload_;
  std::vector<edge::Buffer> buffers_;
  edge::Buffer input_, data_, output_;
};

// `threads` threads take the tasks in their order and run each as the cpu
// back-end does. Errors: DataLoss (a wrong result), Internal (a kernel failed).
absl::StatusOr<NarrowOutcome> RunByThreads(const NarrowWorkload& workload,
                                           uint32_t threads);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ON_CORES_H_
