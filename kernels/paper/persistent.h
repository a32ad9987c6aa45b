// Persistent thread blocks that take tasks from their own queues, either by
// polling (EDGE's thesis, Example 1) or at a wait-release barrier (Example 2).
// The tasks are empty, so that only the overhead remains (5.6.3).
#ifndef CARILLON_KERNELS_PAPER_PERSISTENT_H_
#define CARILLON_KERNELS_PAPER_PERSISTENT_H_

#include <cstdint>

namespace carillon::kernels {

// A queue in a cache line of its own. Since tasks are empty, it consists of its
// ends.
struct PersistentQueue {
  uint32_t pushed = 0;  // tasks so far; the host's
  uint32_t done = 0;    // the block's
  uint32_t sm = 0;      // the SM that the block runs on
  uint32_t unused[29] = {};
};

// The arguments of all kernels of persistent.ptx.
struct PersistentArgs {
  PersistentQueue* queues;  // one for each block
  uint32_t tasks;           // per queue; the block ends after so many
  // kPersistentTargeted: block i waits at barrier 1 + i mod `barriers`.
  uint32_t barriers;
};

inline constexpr char kPersistentPoll[] = "persistent_poll";
inline constexpr char kPersistentWait[] = "persistent_wait";
inline constexpr char kPersistentTargeted[] = "persistent_targeted";

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_PERSISTENT_H_
