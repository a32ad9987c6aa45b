// Runs grids for their results only, as fast as the host can, without a model
// of time.
#ifndef CARILLON_SIM_EXEC_FUNCTIONAL_H_
#define CARILLON_SIM_EXEC_FUNCTIONAL_H_

#include <cstdint>
#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/turns.h"
#include "sim/exec/wait_release.h"
#include "sim/exec/warp.h"

namespace carillon::sim {

// Checks the launch against CUDA's limits (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"), the kernel's own ones,
// and the size of its parameters. Errors: InvalidArgument.
absl::Status CheckLaunch(const Launch& launch);

// The status of a grid that was stopped because `instructions` warp
// instructions made no progress. Names the place where one warp is. Error:
// DeadlineExceeded.
absl::Status NoProgress(const Warp& warp, uint64_t instructions);
// The status of a grid whose warp waits at a barrier that the others do not
// reach, or that nobody releases. Error: Aborted.
absl::Status WaitsForEver(const Warp& warp);
const Warp& FirstThatWaits(const Block& block);

// Runs one grid after the other, always in the same order. A block whose warps
// only spin lets other blocks begin. Not thread safe.
class FunctionalGpu {
 public:
  // Where the block of RunOneBlock() is.
  enum class At { kBegin, kWait, kEnd };
  struct Options {
    // After so many warp instructions without a store, the end of a barrier or
    // an exit, a grid is taken to spin for ever. 0: no limit.
    uint64_t no_progress_limit = uint64_t{1} << 30;
    // Nobody else writes to the memory that kernels look at. So a grid whose
    // warps only look again for what none of them does, and read no clock, ends
    // much sooner: a turn that ends so counts as kWaitingTurn instructions.
    bool alone = false;
    static constexpr uint64_t kWaitingTurn = 1 << 10;
    // Called now and then; true ends the grid.
    std::function<bool()> cancelled;
    // Called now and then with the number of the grid's blocks that have ended.
    std::function<void(uint64_t)> progress;
    // Brings in releases of the wait-release barrier from outside of the block.
    // False, at kWait: none will come.
    std::function<bool(At, Releases&)> outside;
    // Called before each operation with the warp that executes it next.
    std::function<void(const Warp&)> observer;
    PrintBuffer* printed = nullptr;         // receives what kernels print
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
  // Errors: those of CheckLaunch(); InvalidArgument (a cooperative launch of too
  // many blocks); Internal (what the kernel did wrong, its
  // place in the PTX, lane, warp and block), DeadlineExceeded (no progress),
  // Aborted (a barrier that its warps do not all reach), Cancelled.
  absl::StatusOr<Result> Run(const Launch& launch);
  // Runs one block of a launch that passed CheckLaunch(); with `turns`, by short
  // ones.
  absl::StatusOr<Result> RunOneBlock(const Launch& launch, const Dim3& index,
                                     Turns* turns = nullptr);

 private:
  enum class Turn { kDone, kSpins, kWaits, kFailed };
  void Reset();
  // Each warp of the block runs `rounds` times, for at most `slice` operations,
  // or until all that can run only look again for what others do.
  void RunWarp(Warp& warp, uint64_t& budget);
  Turn RunBlock(Block& block, int rounds, uint64_t slice, uint64_t* executed);
  absl::Status Failure(const Launch& launch, absl::Status status) const;

  Options options_;
  Core core_;
  std::deque<Block> blocks_;  // to be used again
  absl::Status error_;
  // Warp instructions since a store, or since a warp passed a barrier or ended.
  uint64_t idle_ = 0;
  // Turns in a row in which a warp did nothing but look for what others do, and
  // how often a clock had been read when the last of them ended.
  uint64_t waiting_turns_ = 0;
  uint64_t time_reads_ = 0;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_FUNCTIONAL_H_
