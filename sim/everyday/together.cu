// What lanes do together from several places, for together_test.cc.

// The two sides of a branch have copies of each operation. `volatile` keeps nvcc
// from joining them.
extern "C" __global__ void two_sides(const int* in, int* out) {
  const int i = threadIdx.x;
  int mine = in[i];
  int shuffled = 0, voted = 0, equal = 0;
  unsigned ballot = 0;
  int wide = 0;
  if (i % 3 == 0) {
    mine += 1000;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;"
                 : "=r"(shuffled)
                 : "r"(mine), "r"((i + 5) & 31));
    asm volatile(
        "{.reg .pred p; setp.gt.s32 p, %1, 16000;\n"
        "vote.sync.ballot.b32 %0, p, -1;}"
        : "=r"(ballot)
        : "r"(mine));
    asm volatile(
        "{.reg .pred p; setp.lt.s32 p, %1, 0;\n"
        "vote.sync.any.pred p, !p, -1; selp.b32 %0, 1, 0, p;}"
        : "=r"(voted)
        : "r"(mine));
    asm volatile("match.any.sync.b32 %0, %1, -1;"
                 : "=r"(equal)
                 : "r"(mine % 4));
    asm volatile("match.any.sync.b64 %0, %1, -1;"
                 : "=r"(wide)
                 : "l"(static_cast<long long>(mine % 3) << 40));
  } else {
    mine -= 7;
    const int negative = -mine;
    asm volatile(
        "{.reg .pred p; shfl.sync.idx.b32 %0|p, %1, %2, 31, -1;\n"
        "@!p add.s32 %0, %0, 1000000;}"
        : "=r"(shuffled)
        : "r"(mine), "r"((i + 5) & 31));
    asm volatile(
        "{.reg .pred p; setp.lt.s32 p, %1, -16000;\n"
        "vote.sync.ballot.b32 %0, p, -1;}"
        : "=r"(ballot)
        : "r"(negative));
    asm volatile(
        "{.reg .pred p; setp.ge.s32 p, %1, 0;\n"
        "vote.sync.any.pred p, p, -1; selp.b32 %0, 1, 0, p;}"
        : "=r"(voted)
        : "r"(mine));
    asm volatile("match.any.sync.b32 %0, %1, -1;"
                 : "=r"(equal)
                 : "r"(mine % 4));
    asm volatile("match.any.sync.b64 %0, %1, -1;"
                 : "=r"(wide)
                 : "l"(static_cast<long long>(mine % 3) << 40));
  }
  int* const to = out + 6 * i;
  to[0] = mine;
  to[1] = shuffled;
  to[2] = static_cast<int>(ballot);
  to[3] = voted;
  to[4] = equal;
  to[5] = wide;
}

// Each call of a different depth comes to the same shuffle with registers of its
// own.
__device__ __noinline__ int Deep(int depth, int value) {
  if (depth == 0) return __shfl_xor_sync(~0u, value, 1);
  const int below = Deep(depth - 1, value + depth);
  return below * 3 + depth;
}
extern "C" __global__ void depths(int* out) {
  out[threadIdx.x] = Deep(threadIdx.x % 4, threadIdx.x * 100);
}

// Each call of a different depth comes to a copy of its own.
template <int kDeepest>
__device__ __noinline__ int DeepInCopies(int depth, int value) {
  if (depth == 0) return __shfl_xor_sync(~0u, value, 1);
  if constexpr (kDeepest == 0) {
    return 0;
  } else {
    const int below = DeepInCopies<kDeepest - 1>(depth - 1, value + depth);
    return below * 3 + depth;
  }
}
extern "C" __global__ void depths_in_copies(int* out) {
  out[threadIdx.x] = DeepInCopies<3>(threadIdx.x % 4, threadIdx.x * 100);
}

#if __CUDA_ARCH__ >= 800
// Each round of the loop, which is unrolled, has copies of its own, and lanes come
// to them in different rounds.
extern "C" __global__ void reduced_in_rounds(const int* in, int* out) {
  const int i = threadIdx.x;
  const int mine = in[i];
  int* const to = out + 4 * i;
#pragma unroll
  for (int round = 0; round < 4; ++round) {
    if (round != mine % 4) continue;
    to[0] = __reduce_add_sync(~0u, mine + round);
    to[1] = __reduce_max_sync(~0u, mine);
    to[2] =
        static_cast<int>(__reduce_min_sync(~0u, static_cast<unsigned>(mine)));
    to[3] =
        static_cast<int>(__reduce_xor_sync(~0u, static_cast<unsigned>(mine)));
  }
}
#endif

// Barriers with a result, on both sides of a branch.
extern "C" __global__ void counting_barriers(const int* in, int* out) {
  const int i = threadIdx.x;
  int count = 0;
  int any = 0;
  if (in[i] % 3 == 0) {
    count = __syncthreads_count(in[i] & 1);
    any = __syncthreads_or(in[i] < 0);
  } else {
    count = __syncthreads_count(in[i] & 2) + 1000;
    any = __syncthreads_or(i == 77);
  }
  out[i] = count * 10 + any;
}

// Lanes that have exited are named, as the hardware allows.
extern "C" __global__ void exited(int* out) {
  if (threadIdx.x % 4 == 1) return;
  out[threadIdx.x] = static_cast<int>(__ballot_sync(~0u, threadIdx.x & 1));
}

// --- Mistakes.

extern "C" __global__ void disagree(int* out) {
  const unsigned mask = threadIdx.x < 20 ? 0xfffff : 0xfff80000;
  out[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x), 19);
}
extern "C" __global__ void not_named(int* out) {
  out[threadIdx.x] = __any_sync(0xffff, threadIdx.x == 3);
}
extern "C" __global__ void never_comes(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __any_sync(0xffff0000 | 1 << threadIdx.x, 1);
  } else {
    __syncwarp();
  }
}
extern "C" __global__ void barrier_never(int* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;");
  } else {
    asm volatile("bar.sync 2, 64;");
  }
  *out = 1;
}
