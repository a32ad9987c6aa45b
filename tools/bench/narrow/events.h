// Narrow tasks as events of a gpud, in wall time, on whichever back-end it has.
#ifndef CARILLON_TOOLS_BENCH_NARROW_EVENTS_H_
#define CARILLON_TOOLS_BENCH_NARROW_EVENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

// How the tasks are given to gpud.
struct NarrowEventsRun {
  std::string_view path;  // the launch path
  // So many tasks at most at once, of which the next begin when all have ended;
  // 0: one after another, as slots are free.
  uint32_t batch = 0;
  // A task's input is brought from the host's memory before it, and its output
  // back behind it, each by an event of kernel echo on the same path.
  bool copies = false;
};

// A workload's data at a gpud. One thread.
class NarrowEvents {
 public:
  // `device` and `workload` must outlive it. Errors: ResourceExhausted (no room
  // for the data).
  static absl::StatusOr<std::unique_ptr<NarrowEvents>> Open(
      edge::Device* device, const NarrowWorkload* workload);
  ~NarrowEvents();

  // Each task is an event. Checks all results. Errors: those of
  // edgeRegisterEvent (InvalidArgument and Unimplemented: the path refuses a
  // kernel), DataLoss (a wrong result), Internal (an event failed),
  // DeadlineExceeded (none ends), those of `may_go_on`.
  absl::StatusOr<NarrowOutcome> Run(
      const NarrowEventsRun& run,
      const std::function<absl::Status()>& may_go_on);

 private:
  class Runner;

  NarrowEvents(edge::Device* device, const NarrowWorkload* workload)
      : device_(*device), workload_(*workload) {}
  absl::Status Copy(const edge::Buffer& from, const edge::Buffer& to);
  // Leaves no input in GPU memory, and no result in output_.
  absl::Status HideInputs();

  edge::Device& device_;
  const NarrowWorkload& workload_;
  std::vector<edge::Buffer> buffers_;
  // The workload's memory three times: the host's, the GPU's, and the host's that
  // gpud and the GPU write.
  edge::Buffer input_, data_, output_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_EVENTS_H_
