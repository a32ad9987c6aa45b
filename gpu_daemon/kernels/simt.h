// The language in which Carillon's kernels are written: one source that nvcc
// compiles to a CUDA kernel and g++ to code for one CPU core. See
// docs/decisions/002-simt-on-cpu.md.
//
//   plain kernel    threads never wait for each other. On a CPU: a loop over
//   the block's threads.
//       CARILLON_KERNEL(scale, ScaleArgs, args, self) {
//         const uint64_t i = self.global_x();
//         if (i >= args.out.size) return;
//         args.out[i] = args.in[i] * args.factor;
//       }
//
//   barrier kernel  threads meet at barriers and warp operations. On a CPU: one
//   stackless coroutine
//       a thread. Leave it early with CARILLON_EXIT, never with return.
//       CARILLON_BARRIER_KERNEL(rotate, RotateArgs, args, self) {
//         float* tile = self.shared<float>(0, 32);
//         tile[self.lane()] = args.in[self.lane()];
//         CARILLON_SYNC_THREADS(self);
//         auto v = CARILLON_SHFL_DOWN(self, tile[self.lane() ^ 1], 16);
//         args.out[self.lane()] = v;
//       }
//
// `args` is a const reference to a trivially copyable struct, `self` the
// thread. Both kinds report a failure with self.Fail(code), 1 <= code <=
// kMaxKernelStatus: the first one becomes the event's status; the thread goes
// on.
//
// Barriers and warp operations
//   CARILLON_SYNC_THREADS(self)   every thread of the block that has not exited
//   CARILLON_SYNC_WARP(self)      every lane of the warp that has not exited;
//   so do those below CARILLON_SHFL(self, v, lane) CARILLON_SHFL_DOWN(self, v,
//   d) CARILLON_SHFL_UP(self, v, d) CARILLON_SHFL_XOR(self, v, m) v of 4 or 8
//   bytes; a source lane that is outside the warp, does not exist or has exited
//                                 gives the reader's own value
//   CARILLON_BALLOT(self, p) CARILLON_ANY(self, p) CARILLON_ALL(self, p)
//   ..._MASK(self, mask, ...)     the same among the lanes of mask; all of them
//   name the same mask
// They may stand under control flow that all participants take alike. Write
// them as a statement or as the whole initialiser of a variable ("auto v =
// CARILLON_SHFL(...);"), never inside a condition, a larger expression, a
// lambda or a called function: on a CPU they are co_await expressions. A
// barrier that not all of its participants reach fails the event with
// kFailBarrierDeadlock or kFailWarpDeadlock on a CPU, and hangs on a GPU.
//
// Atomics work on uint32_t, int32_t and uint64_t in global and shared memory,
// relaxed, and return the old value: AtomicAdd (also float) AtomicSub AtomicMin
// AtomicMax AtomicAnd AtomicOr AtomicExch AtomicCas(address, expected,
// desired). LoadRelaxed, LoadAcquire, StoreRelaxed and StoreRelease order
// memory between blocks, and with the CPU (system scope). ThreadFence is a full
// fence of device scope. SpinPause(round) belongs in every loop that waits for
// another block.
#ifndef CARILLON_GPU_DAEMON_KERNELS_SIMT_H_
#define CARILLON_GPU_DAEMON_KERNELS_SIMT_H_

#include "gpu_daemon/kernels/kernel_info.h"
#include "gpu_daemon/kernels/simt_types.h"

#if defined(__CUDACC__)
#include "gpu_daemon/kernels/simt_cuda.h"
#else
#include "gpu_daemon/backends/cpu/simt_cpu.h"
#endif

#define CARILLON_SYNC_WARP(self) \
  CARILLON_SYNC_WARP_MASK(self, (self).warp_mask())
#define CARILLON_SHFL(self, value, source) \
  CARILLON_SHFL_MASK(self, (self).warp_mask(), value, source)
#define CARILLON_SHFL_DOWN(self, value, delta) \
  CARILLON_SHFL_DOWN_MASK(self, (self).warp_mask(), value, delta)
#define CARILLON_SHFL_UP(self, value, delta) \
  CARILLON_SHFL_UP_MASK(self, (self).warp_mask(), value, delta)
#define CARILLON_SHFL_XOR(self, value, lane_mask) \
  CARILLON_SHFL_XOR_MASK(self, (self).warp_mask(), value, lane_mask)
#define CARILLON_BALLOT(self, predicate) \
  CARILLON_BALLOT_MASK(self, (self).warp_mask(), predicate)
#define CARILLON_ANY(self, predicate) \
  CARILLON_ANY_MASK(self, (self).warp_mask(), predicate)
#define CARILLON_ALL(self, predicate) \
  CARILLON_ALL_MASK(self, (self).warp_mask(), predicate)

#endif  // CARILLON_GPU_DAEMON_KERNELS_SIMT_H_
