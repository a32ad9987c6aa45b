// Runs grids for what they compute, as fast as the host can, without a model of
// time.
#ifndef CARILLON_SIM_EXEC_FUNCTIONAL_H_
#define CARILLON_SIM_EXEC_FUNCTIONAL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/warp.h"

namespace carillon::sim {

// CUDA's limits (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability"), what the kernel itself asks for, and the size of its
// parameters. Errors: InvalidArgument.
absl::Status CheckLaunch(const Launch& launch);

// Why a grid is ended, with the place where one of its warps is.
// DeadlineExceeded: `instructions` of warps came to nothing.
absl::Status NoProgress(const Warp& warp, uint64_t instructions);
// Aborted: the warp is at a barrier that others do not reach, or that nobody
// releases.
absl::Status WaitsForEver(const Warp& warp);
// Of a block in which all do.
const Warp& FirstThatWaits(const Block& block);

// One after the other; a block whose warps only spin lets others begin. Always
// in the same order. Not thread safe.
class FunctionalGpu {
 public:
  struct Options {
    // Warp instructions without a store, a barrier's end or an exit, after
    // which a grid is taken to spin for ever. 0: no limit.
    uint64_t no_progress_limit = uint64_t{1} << 30;
    // Asked now and then; true ends the grid.
    std::function<bool()> cancelled;
    // Told now and then how many of the grid's blocks have ended.
    std::function<void(uint64_t)> progress;
    std::string* printed = nullptr;         // receives what kernels print
    std::function<uint64_t()> nanoseconds;  // %globaltimer
  };

  FunctionalGpu(const Memory* memory, Options options);

  void set_no_progress_limit(uint64_t limit) {
    options_.no_progress_limit = limit;
  }

  struct Result {
    uint64_t warp_instructions = 0;
    uint64_t blocks = 0;
  };
  // Errors: those of CheckLaunch(); Internal (what the kernel did wrong, its
  // place in the PTX, lane, warp and block), DeadlineExceeded (no progress),
  // Aborted (a barrier that its warps do not all reach), Cancelled.
  absl::StatusOr<Result> Run(const Launch& launch);
  // One block of a launch that CheckLaunch() has found good.
  absl::StatusOr<Result> RunOneBlock(const Launch& launch, const Dim3& index);

 private:
  enum class Turn { kDone, kSpins, kWaits, kFailed };
  void Prepare(const Launch& launch);
  Turn RunBlock(Block& block, uint64_t* executed);
  absl::Status Failure(const Launch& launch, absl::Status status) const;

  Options options_;
  Core core_;
  std::deque<Block> blocks_;  // to be used again
  absl::Status error_;
  // Since something was stored, or a warp got past a barrier or ended:
  uint64_t idle_ = 0;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_FUNCTIONAL_H_
