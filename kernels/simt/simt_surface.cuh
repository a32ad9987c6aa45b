// Test kernels that use all of simt.h and of pagoda.h, so that nvcc compiles every
// macro and function of them, and the CPU's and the GPU's results can be compared with
// one reference.
#ifndef CARILLON_KERNELS_SIMT_SIMT_SURFACE_CUH_
#define CARILLON_KERNELS_SIMT_SIMT_SURFACE_CUH_

#include "kernels/simt/pagoda.h"
#include "kernels/simt/simt.h"

namespace carillon::simt {

// run_program: interprets a program of barriers, warp operations and exits.
enum Kind : uint32_t {
  kMix,       // the thread's own arithmetic
  kExit,      // threads leave whose linear % a == b % a
  kRotate,    // through shared memory, with two barriers
  kBarriers,  // a % 4 barriers in a loop
  kShfl,      // from lane (lane * a + b)
  kShflDown,  // distance (a + lane % 3) % 40
  kShflUp,
  kShflXor,  // with a % 40
  kBallot,   // of bit a % 64
  kAny,
  kAll,
  kParityShfl,   // even and odd lanes apart, at the same place
  kHalvesDiffer  // halves of the warp do different masked operations
};
constexpr uint32_t kKinds = kHalvesDiffer + 1;

struct Op {
  uint32_t kind;
  uint32_t a;
  uint32_t b;
};
struct ProgramArgs {
  Span<const Op> program;
  Span<uint64_t> result;  // one a thread; stays 0 for those that exit early
};

CARILLON_DEVICE uint64_t Mix(uint64_t value, uint64_t salt) {
  value = (value ^ salt) * 0x9e3779b97f4a7c15;
  return value ^ (value >> 29);
}
CARILLON_DEVICE uint32_t Distance(const Op& op, uint32_t lane) {
  return (op.a + lane % 3) % 40;
}

CARILLON_BARRIER_KERNEL(run_program, ProgramArgs, args, self) {
  const uint32_t me = self.linear();
  const uint32_t lane = self.lane();
  uint64_t* shared = self.shared<uint64_t>(0, self.block_threads());
  shared[me] = me;
  uint64_t r = Mix(me, 1);
  for (uint64_t pc = 0; pc < args.program.size; ++pc) {
    const Op op = args.program[pc];
    switch (op.kind) {
      case kMix:
        r = Mix(r, op.a + me);
        break;
      case kExit:
        if (me % (op.a % 7 + 2) == op.b % (op.a % 7 + 2)) CARILLON_EXIT;
        break;
      case kRotate: {
        shared[me] = r;
        CARILLON_SYNC_THREADS(self);
        r = Mix(shared[(me + op.a) % self.block_threads()], r);
        CARILLON_SYNC_THREADS(self);
        break;
      }
      case kBarriers:
        for (uint32_t i = 0; i < op.a % 4; ++i) {
          CARILLON_SYNC_THREADS(self);
        }
        break;
      case kShfl: {
        const auto v = CARILLON_SHFL(self, r, lane * op.a + op.b);
        r = Mix(v, r);
        break;
      }
      case kShflDown: {
        const auto v = CARILLON_SHFL_DOWN(self, r, Distance(op, lane));
        r = Mix(v, r);
        break;
      }
      case kShflUp: {
        const auto v = CARILLON_SHFL_UP(self, r, Distance(op, lane));
        r = Mix(v, r);
        break;
      }
      case kShflXor: {
        const auto v =
            CARILLON_SHFL_XOR(self, static_cast<uint32_t>(r), op.a % 40);
        r = Mix(v, r);
        break;
      }
      case kBallot: {
        const auto v = CARILLON_BALLOT(self, (r >> (op.a % 64) & 1) != 0);
        r = Mix(r, v);
        break;
      }
      case kAny: {
        const auto v = CARILLON_ANY(self, r % 32 == op.a % 32);
        r = Mix(r, v);
        break;
      }
      case kAll: {
        const auto v = CARILLON_ALL(self, r % 32 != op.a % 32);
        r = Mix(r, v);
        break;
      }
      case kParityShfl: {
        const uint32_t mask = lane % 2 == 0 ? 0x55555555 : 0xaaaaaaaa;
        const auto v = CARILLON_SHFL_MASK(self, mask, r, lane + op.a);
        r = Mix(v, r);
        break;
      }
      case kHalvesDiffer: {
        if (lane < 16) {
          const auto v = CARILLON_BALLOT_MASK(self, 0x0000ffff, (r & 1) != 0);
          r = Mix(r, v);
        } else {
          CARILLON_SYNC_WARP_MASK(self, 0xffff0000);
          const auto v = CARILLON_SHFL_MASK(self, 0xffff0000, r, op.a);
          r = Mix(v, r);
        }
        CARILLON_SYNC_WARP(self);
        break;
      }
    }
  }
  args.result[me] = r;
}
CARILLON_KERNEL_INFO(run_program, ProgramArgs, "test", Registers(1),
                     CARILLON_PARAM(ProgramArgs, program, "see ProgramArgs"),
                     CARILLON_PARAM(ProgramArgs, result, "see ProgramArgs"));

// use_atomics: every thread updates the same cells.
struct AtomicArgs {
  Span<uint32_t> u32;
  Span<int32_t> i32;
  Span<uint64_t> u64;
  Span<float> f32;
};
CARILLON_KERNEL(use_atomics, AtomicArgs, args, self) {
  const auto i = static_cast<uint32_t>(self.global_linear());
  AtomicAdd(&args.u32[0], 1);
  AtomicSub(&args.u32[1], 2);
  AtomicMin(&args.u32[2], i + 5);
  AtomicMax(&args.u32[3], i);
  AtomicOr(&args.u32[4], 1u << (i % 32));
  AtomicAnd(&args.u32[5], ~(1u << (i % 32)));
  AtomicMin(&args.i32[0], -static_cast<int32_t>(i));
  AtomicMax(&args.i32[1], -static_cast<int32_t>(i));
  AtomicAdd(&args.u64[0], uint64_t{1} << 32);
  AtomicAdd(&args.f32[0], 0.5f);
  AtomicExch(&args.u32[6], i);
  StoreRelease(&args.u64[2], LoadAcquire(&args.u64[0]));
  StoreRelaxed(&args.u32[7], PopCount(i) + CountLeadingZeros(i) +
                                 CountTrailingZeros(i) + self.shared_bytes());
  ThreadFence();
  SpinPause(0);
  // A lock-free increment: the sum is right only if exactly one thread gets
  // each value.
  for (uint64_t seen = LoadRelaxed(&args.u64[1]);;) {
    const uint64_t found = AtomicCas(&args.u64[1], seen, seen + 1);
    if (found == seen) break;
    seen = found;
  }
}
CARILLON_KERNEL_INFO(use_atomics, AtomicArgs, "test", Registers(1),
                     CARILLON_PARAM(AtomicArgs, u32, "cells"),
                     CARILLON_PARAM(AtomicArgs, i32, "cells"),
                     CARILLON_PARAM(AtomicArgs, u64, "cells"),
                     CARILLON_PARAM(AtomicArgs, f32, "cells"));

// rotate_task: each thread's word goes to the one before it, in words of
// Pagoda's.
struct RotateArgs {
  Span<const uint32_t> in;  // one a thread
  Span<uint32_t> out;
};
CARILLON_BARRIER_KERNEL(rotate_task, RotateArgs, args, self) {
  const uint32_t threads = self.block_threads();
  const uint64_t first = uint64_t{self.block_index().x} * threads;
  uint32_t* words = getSMPtr<uint32_t>(self, threads);
  words[getTid(self)] = args.in[first + getTid(self)];
  syncBlock(self);
  args.out[first + getTid(self)] = words[(getTid(self) + 1) % threads];
}
CARILLON_KERNEL_INFO(rotate_task, RotateArgs, "test", Registers(1),
                     CARILLON_PARAM(RotateArgs, in, "words"),
                     CARILLON_PARAM(RotateArgs, out, "words"));

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_SIMT_SURFACE_CUH_
