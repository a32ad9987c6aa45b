// What the scheduler warps of all MTBs do together, on launch paths `pagoda` and
// `pagoda_ring`: none begins before all are on the GPU, and column 0 looks for a
// trap until the last one has nothing to do. For CPU and GPU code; a Port is
// edge_dispatch.h's, with Trap().
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_CREW_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_CREW_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

// A scheduler warp's own.
template <class Port>
class MtbCrew {
 public:
  CARILLON_EDGE MtbCrew(Port& port, const PagodaRingTable& table,
                        MtbBlock& block, uint32_t column)
      : port_(port), table_(table), block_(block), column_(column) {}

  // In one lane.
  CARILLON_EDGE void PollTrap() {
    if (column_ == 0 && port_.PollWord(&table_.control->trap) != 0) {
      port_.Trap();
    }
  }
  // The host's command, in one lane.
  CARILLON_EDGE uint32_t PollCommand() {
    PollTrap();
    return port_.PollWord(&table_.control->command);
  }

  // False: the host does not want to wait any more.
  CARILLON_EDGE bool AwaitAll() {
    const uint32_t columns = table_.tasks.columns;
    port_.Elect([&] {
      if (port_.AddDevice(&table_.words->up, 1u) == 0) {
        port_.StoreSystem(&table_.report->any, 1u);
      }
    });
    for (uint32_t round = 0; port_.Elect([&] {
           return port_.LoadDevice(&table_.words->up);
         }) != columns;
         ++round) {
      // Not kept: the first look is to find it changed, and pass it on.
      if ((port_.Elect([&] { return PollCommand(); }) & kPagodaLeave) != 0) {
        return false;
      }
      port_.Pause(round);
    }
    if (column_ == 0) {
      port_.Elect([&] { port_.StoreSystem(&table_.report->up, columns); });
    }
    return true;
  }

  // Its own executors, then, in column 0, all others: what was taken may not end.
  CARILLON_EDGE void AwaitEnd(bool all) {
    const auto busy = [&] {
      return port_.Ballot([&](uint32_t lane) {
        return lane < table_.tasks.executors &&
               port_.LoadBlock(&block_.warps[lane].exec) != 0;
      }) != 0;
    };
    for (uint32_t round = 0; busy(); ++round) {
      port_.Elect([&] { PollTrap(); });
      port_.Pause(round);
    }
    port_.Elect([&] { port_.AddDevice(&table_.words->out, 1u); });
    // Else some may never come, and nothing was taken.
    if (column_ != 0 || !all) return;
    for (uint32_t round = 0; port_.Elect([&] {
           return port_.PeekDevice(&table_.words->out);
         }) != table_.tasks.columns;
         ++round) {
      port_.Elect([&] { PollTrap(); });
      port_.Pause(round);
    }
  }

 private:
  Port& port_;
  const PagodaRingTable& table_;
  MtbBlock& block_;
  const uint32_t column_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_CREW_H_
