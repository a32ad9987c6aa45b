// The language in which Carillon's kernels are written: one source that nvcc
// compiles to a CUDA kernel and g++ to code for one CPU core. See
// docs/decisions/002-simt-on-cpu.md.
//
// A plain kernel, whose threads never wait for each other; on a CPU a loop over
// the threads of the block, which the compiler may vectorise:
//
//   CARILLON_KERNEL(scale, ScaleArgs, args, self) {
//     const uint64_t i = self.global_x();
//     if (i >= args.out.size || i >= args.in.size) return;
//     args.out[i] = args.in[i] * args.factor;
//   }
//   CARILLON_KERNEL_INFO(scale, ScaleArgs, "scales a vector",
//                        simt::Registers(12),
//                        CARILLON_PARAM(ScaleArgs, in, "what to scale"), ...);
//
// A barrier kernel, whose threads meet at barriers and warp operations; on a
// CPU one stackless coroutine a thread. Leave it early with CARILLON_EXIT:
//
//   CARILLON_BARRIER_KERNEL(reverse, ReverseArgs, args, self) {
//     if (args.data.size < self.block_threads()) CARILLON_EXIT;
//     float* tile = self.shared<float>(0, self.block_threads());
//     tile[self.linear()] = args.data[self.linear()];
//     CARILLON_SYNC_THREADS(self);
//     args.data[self.linear()] = tile[self.block_threads() - 1 -
//                                     self.linear()];
//   }
//
// A barrier kernel whose threads leave together says so in its traits
// (KernelTraits::LeavesTogether): then resident blocks can run it, too.
//
// `args` is a const reference to a trivially copyable struct, `self` the
// thread. Both kinds report a failure with self.Fail(code), 1 <= code <=
// kMaxKernelStatus: the first one becomes the event's status; the thread goes
// on. What a device writes may be garbage, so a kernel checks its arguments
// itself (Span::InBounds) and fails; nobody else does on a GPU.
//
// Barriers and warp operations
//   CARILLON_SYNC_THREADS(self)  all threads of the block that have not exited
//   CARILLON_SYNC_WARP(self)     all lanes of the warp that have not exited
//   CARILLON_SHFL(self, v, lane)   CARILLON_SHFL_DOWN(self, v, distance)
//   CARILLON_SHFL_XOR(self, v, m)  CARILLON_SHFL_UP(self, v, distance)
//       v has 4 or 8 bytes. A source lane that is outside of the warp, does not
//       exist or has exited gives the reader's own value; SHFL takes its lane
//       modulo 32.
//   CARILLON_BALLOT(self, p) uint32_t  CARILLON_ANY(self, p)  CARILLON_ALL bool
//   ..._MASK(self, mask, ...)  the same among the lanes of mask; all of them
//       name the same mask
// They may stand under control flow that all participants take alike. Write
// them as a statement, or as the whole initialiser of a variable ("const auto v
// = CARILLON_SHFL(...);"), never inside a condition, a larger expression, a
// lambda or a called function, and not two on a line: on a CPU they are
// co_await expressions, and gcc 12 is known to miscompile some of these
// elsewhere. A barrier that its participants do not all reach fails the event
// with kFailBarrierDeadlock or kFailWarpDeadlock on a CPU; on a GPU it may
// hang.
//
// Atomics work on uint32_t, int32_t and uint64_t in global and shared memory,
// relaxed, and return the old value: AtomicAdd (also float) AtomicSub AtomicMin
// AtomicMax AtomicAnd AtomicOr AtomicExch AtomicCas(address, expected,
// desired). LoadRelaxed, LoadAcquire, StoreRelaxed and StoreRelease order
// memory between blocks, and with the CPU (system scope). ThreadFence is a full
// fence of device scope. SpinPause(round) belongs in every loop that waits for
// another block.
#ifndef CARILLON_KERNELS_SIMT_SIMT_H_
#define CARILLON_KERNELS_SIMT_SIMT_H_

#include "kernels/simt/kernel_info.h"
#include "kernels/simt/types.h"

#if defined(__CUDACC__)
#include "kernels/simt/cuda/simt_cuda.h"
#else
#include "kernels/simt/cpu/simt_cpu.h"
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

#endif  // CARILLON_KERNELS_SIMT_SIMT_H_
