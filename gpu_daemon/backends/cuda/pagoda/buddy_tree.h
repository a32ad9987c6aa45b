// Shared memory of an MTB, given to thread blocks (Pagoda 5.1): a buddy tree of
// 127 nodes over 64 leaves of 512 bytes. For CPU and GPU code.
//
//   node 1: 32 KB     Children of n: 2n, 2n + 1. A marked node is allocated, or
//   2, 3: 16 KB       lies above or below one that is: so an unmarked one is free
//   ...               as a whole, and a marked node's parent is marked.
//   64 .. 127: 512 B
//
// One warp's own: only the scheduler allocates and frees, so nothing is locked.
// Lane l looks at nodes l, l + 32, l + 64 and l + 96, and their marks are the
// bits of four words.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BUDDY_TREE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BUDDY_TREE_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud {

inline constexpr uint32_t kBuddyLeafBytes = 512;
inline constexpr uint32_t kBuddyLeaves = kTaskSharedBytes / kBuddyLeafBytes;
static_assert(kBuddyLeaves == 64);

// The root's is 0.
CARILLON_HOST_DEVICE constexpr uint32_t BuddyDepth(uint32_t node) {
  uint32_t depth = 0;
  while (node > 1) {
    node >>= 1;
    ++depth;
  }
  return depth;
}
CARILLON_HOST_DEVICE constexpr uint32_t BuddyBytes(uint32_t node) {
  return kTaskSharedBytes >> BuddyDepth(node);
}
// Of the node's first byte.
CARILLON_HOST_DEVICE constexpr uint32_t BuddyOffset(uint32_t node) {
  return (node - (1u << BuddyDepth(node))) * BuddyBytes(node);
}
template <class Port>
class BuddyTree {
 public:
  CARILLON_EDGE explicit BuddyTree(Port& port) : port_(port) {}

  // The lowest free node of the smallest size that holds `bytes`, which is 1 to
  // kTaskSharedBytes; 0: none is free.
  CARILLON_EDGE uint32_t Find(uint32_t bytes) {
    uint32_t first = kBuddyLeaves;  // of the level
    for (uint32_t size = kBuddyLeafBytes; size < bytes; size *= 2) first /= 2;
    uint32_t node = 0;
    for (uint32_t word = 0; word < kWords && node == 0; ++word) {
      const uint32_t free = port_.Ballot([&](uint32_t lane) {
        const uint32_t mine = word * simt::kWarpSize + lane;
        return mine >= first && mine < 2 * first &&
               (marked_[word] >> lane & 1) == 0;
      });
      if (free != 0) node = word * simt::kWarpSize + LowestLane(free);
    }
    return node;
  }
  // That node, which is the caller's then.
  CARILLON_EDGE uint32_t Allocate(uint32_t bytes) {
    const uint32_t node = Find(bytes);
    if (node == 0) return 0;
    for (uint32_t word = 0; word < kWords; ++word) {
      marked_[word] |= port_.Ballot([&](uint32_t lane) {
        const uint32_t mine = word * simt::kWarpSize + lane;
        return mine != 0 && (IsBelow(mine, node) || IsBelow(node, mine));
      });
    }
    return node;
  }

  // Requires a node that Allocate() has returned, and that was not freed since.
  CARILLON_EDGE void Free(uint32_t node) {
    for (uint32_t word = 0; word < kWords; ++word) {
      marked_[word] &= ~port_.Ballot([&](uint32_t lane) {
        return IsBelow(word * simt::kWarpSize + lane, node);
      });
    }
    // Upwards as long as the other half is free, too.
    while (node > 1 && !IsMarked(node ^ 1)) {
      node >>= 1;
      marked_[node / simt::kWarpSize] &= ~(1u << node % simt::kWarpSize);
    }
  }

  CARILLON_EDGE bool IsMarked(uint32_t node) const {
    return (marked_[node / simt::kWarpSize] >> node % simt::kWarpSize & 1) != 0;
  }

 private:
  static constexpr uint32_t kWords = 2 * kBuddyLeaves / simt::kWarpSize;

  // Or the node itself.
  CARILLON_EDGE static bool IsBelow(uint32_t node, uint32_t top) {
    while (node > top) node >>= 1;
    return node == top;
  }

  Port& port_;
  uint32_t marked_[kWords] = {};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BUDDY_TREE_H_
