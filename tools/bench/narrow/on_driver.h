// Narrow tasks as a CUDA program launches them, without a gpud: what Pagoda
// (TOPC'19) is compared with.
#ifndef CARILLON_TOOLS_BENCH_NARROW_ON_DRIVER_H_
#define CARILLON_TOOLS_BENCH_NARROW_ON_DRIVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

inline constexpr std::string_view kHyperQ = "hyperq";
inline constexpr std::string_view kFusion = "fusion";

struct NarrowDriverRun {
  // kHyperQ: a launch for each task, in 32 streams. kFusion: one launch whose
  // blocks are the tasks, or one for each phase.
  std::string_view path;
  // Each task's input is brought from the host's memory before it, and its output
  // back behind it, by launches of kernel echo in its stream.
  bool copies = false;
};

// A CUDA context of this process. One thread.
class NarrowDriver {
 public:
  // Errors: those of Driver::Load(); Unimplemented: built without CUDA.
  static absl::StatusOr<std::unique_ptr<NarrowDriver>> Open();
  virtual ~NarrowDriver() = default;

  // Checks all results. Errors: Unimplemented (a driver that has no code of
  // narrow_tasks.ptx), DataLoss (a wrong result), Internal (a kernel failed),
  // those of the driver and of `may_go_on`.
  virtual absl::StatusOr<NarrowOutcome> Run(
      const NarrowWorkload& workload, const NarrowDriverRun& run,
      const std::function<absl::Status()>& may_go_on) = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ON_DRIVER_H_
