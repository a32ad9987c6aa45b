// What Pagoda's tasks call (Pagoda, TOPC'19, section 3, Table 1), by its names.
// Here a task's function is a kernel, and each takes the thread first:
//
//   CARILLON_BARRIER_KERNEL(rotate, RotateArgs, args, self) {
//     uint32_t* words = getSMPtr<uint32_t>(self, self.block_threads());
//     words[getTid(self)] = args.in[getTid(self)];
//     syncBlock(self);
//     ...
//
// A device spawns it by devices/sdk/pagoda.h.
#ifndef CARILLON_KERNELS_SIMT_PAGODA_H_
#define CARILLON_KERNELS_SIMT_PAGODA_H_

#include <cstdint>

#include "kernels/simt/simt.h"

namespace carillon::simt {

// The thread's number in its thread block.
template <class Thread>
CARILLON_DEVICE uint32_t getTid(const Thread& self) {
  return self.linear();
}

// Shared memory of the thread's block, as `count` elements from its start.
template <class T, class Thread>
CARILLON_DEVICE T* getSMPtr(const Thread& self, uint32_t count) {
  return self.template shared<T>(0, count);
}

}  // namespace carillon::simt

// A barrier of the thread's block; a macro as CARILLON_SYNC_THREADS is one, and
// to be written where that may be.
#define syncBlock(self) CARILLON_SYNC_THREADS(self)

#endif  // CARILLON_KERNELS_SIMT_PAGODA_H_
