// Runs several grids at the same time, one warp after the other. A seed chooses
// which warp is next and how far it runs, so that interleavings can be explored
// by the thousand, and each of them run again.
#ifndef CARILLON_SIM_EXEC_INTERLEAVED_H_
#define CARILLON_SIM_EXEC_INTERLEAVED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/seeded_random.h"
#include "sim/exec/warp.h"
#include "sim/exec/weak_memory.h"

namespace carillon::sim {

// Not thread safe. Time advances only within Step(). The same seed and the same
// calls between the same steps give the same run, instruction by instruction,
// unless other processes write to memory that the kernels read.
//
// A grid's blocks begin in order, each on the SM with the most free threads. A
// block that finds no room waits until others end, and blocks of grids with the
// same or a lower priority wait behind it, if they share SMs, as on a GPU.
class InterleavedGpu {
 public:
  struct Options {
    uint64_t seed = 0;
    // A warp's turn has at most so many instructions. Its length is drawn; half
    // of the turns have one.
    uint64_t longest_turn = 1 << 10;
    // The other turns: more where speed matters more than orders.
    uint64_t shortest_turn = 1;
    // Stores arrive late and loads give old values, as weak_memory.h says, and a
    // warp's diverged lanes advance in an order that the seed chooses.
    bool weak_memory = false;
    uint32_t sms = 4;
    // What an SM has. A block takes its threads, rounded up to warps, and its
    // shared memory with the 1 KiB that CUDA adds.
    uint32_t threads_per_sm = 2048;
    uint32_t blocks_per_sm = 32;
    uint32_t shared_bytes_per_sm = 228 << 10;
    // Set: the ready warp for which it gives the least goes next, in place of
    // one that the seed chooses.
    std::function<double(const Warp&)> due;
    PrintBuffer* printed = nullptr;         // receives what kernels print
    std::function<uint64_t()> nanoseconds;  // %globaltimer
    // As Core::launch_graph. It may call nothing of this object.
    std::function<uint32_t(const Warp&, uint64_t exec, uint64_t stream)>
        launch_graph;
    // Called after each operation with the lanes that executed it. It may call
    // Begin(), and nothing else of this object.
    std::function<void(const Warp&, const Op&, LaneMask)> executed;
  };

  InterleavedGpu(const Memory* memory, Options options);
  ~InterleavedGpu();

  // SMs that follow each other.
  struct SmRange {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  // What ends a grid: OK, what a kernel did wrong (Internal, as
  // FunctionalGpu::Run() says it), a barrier that its warps do not all reach
  // (Aborted), or Stop() (Cancelled).
  using Ended = std::function<void(absl::Status)>;

  // Begins a grid beside those that run, and returns its number. Its blocks get
  // room on these SMs (all, unless they are named) before those of grids with a lower
  // priority. `ended` is called once,
  // from Step() or Stop(), when nothing of the grid executes any more; it may
  // call this object. The launch's program must live until then. `since`: it is
  // behind a stream's wait, and this is of ReadAhead() when that began. Errors:
  // those of CheckLaunch(); ResourceExhausted (no SM has room for one block);
  // OutOfRange (there are no such SMs).
  absl::StatusOr<uint64_t> Begin(
      const Launch& launch, int priority, Ended ended, SmRange sms,
      std::optional<WeakMemory::Time> since = std::nullopt);
  absl::StatusOr<uint64_t> Begin(const Launch& launch, int priority,
                                 Ended ended) {
    return Begin(launch, priority, std::move(ended), {.count = options_.sms});
  }
  // The GPU sees what is there now; returns when that is. Requires weak memory, and
  // that both are multiples of 16. Errors: those of Memory::At().
  absl::StatusOr<WeakMemory::Time> ReadAhead(DeviceAddress address,
                                             uint64_t bytes);
  // Ends a grid at once, at whatever instruction its warps are. Errors:
  // NotFound (it has ended).
  absl::Status Stop(uint64_t grid);

  enum class Turn : uint8_t {
    kIdle,  // there is no grid
    // Each warp ran for a while, and none stored anything, passed a barrier or
    // ended: all of them wait. The caller may sleep before the next step.
    kWaits,
    kRan,
  };
  // Lets one warp run for a turn. Segments that were mapped or freed since the
  // last step are looked at anew; who frees one knows that no kernel uses it.
  Turn Step();

  size_t grids() const { return grids_.size(); }
  // Warp instructions executed so far.
  uint64_t clock() const { return clock_; }

 private:
  struct Sm {
    uint32_t threads = 0;  // free ones, and so on
    uint32_t blocks = 0;
    uint32_t shared_bytes = 0;
  };
  struct Need {
    uint32_t threads = 0;
    uint32_t shared_bytes = 0;
  };
  struct Grid;
  struct Resident {
    Block block;
    Grid* grid = nullptr;
    uint32_t sm = 0;
    WeakMemory::BlockState weak;
  };
  struct Runner {
    Resident* resident = nullptr;
    uint32_t warp = 0;
    // Instructions since it stored anything or passed a barrier.
    uint64_t idle = 0;
    // Instructions in the period.
    uint64_t waited = 0;
    uint64_t period = 0;
  };

  static bool Fits(const Need& need, const Sm& sm);
  Sm WholeSm() const;
  // Starts blocks until one finds no room.
  void StartBlocks();
  bool StartBlock(Grid& grid);
  // The index in runners_ of a ready warp; runners_.size() if there is none.
  size_t ChooseWarp();
  size_t NextDue();
  // Whether each ready warp ran long enough in this period to be one that waits.
  bool AllWait() const;
  // Runs the warp for one turn; returns whether it did more than wait.
  bool RunTurn(Runner& runner);
  // Ends the block, or its grid, if the turn ended it or made it wait for ever.
  void Settle(Resident& resident);
  void Remove(Resident& resident);
  void End(Grid& grid, absl::Status status);

  const Memory* const memory_;
  const Options options_;
  SeededRandom random_;
  uint64_t clock_ = 0;
  // Begins anew when any warp does more than wait, and after Turn::kWaits.
  uint64_t period_ = 0;
  uint64_t last_grid_ = 0;
  std::unique_ptr<WeakMemory> weak_;  // null: memory is as the host's
  std::vector<Sm> sms_;
  // Those that began and have not ended, by priority, then by age.
  std::vector<std::unique_ptr<Grid>> grids_;
  std::vector<std::unique_ptr<Resident>> residents_;
  std::vector<std::unique_ptr<Resident>> unused_;  // to be used again
  std::vector<Runner> runners_;  // the warps of the resident blocks
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_INTERLEAVED_H_
