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
#include "base/clock.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::gpud::cuda {
struct Driver;
}

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
  // No task ends for so long: something hangs.
  Nanoseconds patience_ns = 30'000'000'000;
};

// A CUDA context of this process. One thread.
class NarrowDriver {
 public:
  // Errors: those of Driver::Load(); Unimplemented: built without CUDA.
  static absl::StatusOr<std::unique_ptr<NarrowDriver>> Open();
  // On a driver that is loaded; only where CUDA is built in.
  static absl::StatusOr<std::unique_ptr<NarrowDriver>> Open(
      const gpud::cuda::Driver& driver);
  virtual ~NarrowDriver() = default;

  // Runs it, the first time once more in vain before, and checks it. Errors:
  // Unimplemented (a driver that has no code of narrow_tasks.ptx), DataLoss (a
  // wrong result), DeadlineExceeded (something hangs), those of `may_go_on`,
  // Internal (whatever else the driver or a kernel says). After DeadlineExceeded
  // and those of `may_go_on` the GPU may still run it: nothing is freed, and no
  // other run may follow in this process.
  virtual absl::StatusOr<NarrowOutcome> Run(
      const NarrowWorkload& workload, const NarrowDriverRun& run,
      const std::function<absl::Status()>& may_go_on) = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ON_DRIVER_H_
