// What ordinary CUDA programs do, for everyday_test.cc: each kernel leaves what the
// host can compute, too.
#include <cooperative_groups.h>

#include <cstdint>

namespace cg = cooperative_groups;

// Threads beyond `count` return before the others meet.
extern "C" __global__ void early_return(const int* in, int* out,
                                       long long count) {
  __shared__ int shared[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  shared[threadIdx.x] = in[i];
  __syncthreads();
  const int odd = __syncthreads_count(in[i] & 1);
  const int all = __syncthreads_and(in[i] >= 0);
  const unsigned vote = __ballot_sync(~0u, (in[i] & 2) != 0);
  const int first = __shfl_sync(~0u, in[i], 0);
  out[i] = odd * 100000 + all * 10000 + __popc(vote) * 100 + first % 100 +
           shared[0];
}

// The two sides of a branch have a barrier each.
extern "C" __global__ void two_barriers(const int* in, int* out) {
  __shared__ int shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 3 == 0) {
    shared[threadIdx.x] += 1000;
    __syncthreads();
  } else {
    __syncthreads();
    out[128 + threadIdx.x] = static_cast<int>(threadIdx.x);
  }
  out[threadIdx.x] = shared[127 - threadIdx.x];
}

// Sums of tiles of eight, and of the threads with an equal value.
extern "C" __global__ void tiles(const int* in, int* out) {
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int mine = in[threadIdx.x];
  int sum = mine;
  for (int step = 4; step != 0; step /= 2) sum += tile.shfl_down(sum, step);
  const unsigned peers = __match_any_sync(~0u, mine % 5);
  int of_peers = 0;
  for (unsigned left = peers; left != 0; left &= left - 1) {
    of_peers += __shfl_sync(peers, mine, __ffs(left) - 1);
  }
  __syncwarp(peers);
  out[threadIdx.x] = tile.shfl(sum, 0) * 1000 + of_peers;
}

// Groups of those who are there, and of those with one label.
extern "C" __global__ void labels(int* out) {
  int value = 0;
  if (threadIdx.x % 3 == 0) {
    const auto here = cg::coalesced_threads();
    value = static_cast<int>(here.size() * 100 + here.thread_rank());
    here.sync();
  }
  const auto group = cg::labeled_partition(
      cg::coalesced_threads(), static_cast<int>(threadIdx.x / 5));
  out[threadIdx.x] = value + static_cast<int>(group.size()) * 10000;
}

// nvcc makes dp4a and dp2a of these.
extern "C" __global__ void dot_products(const int* a, const int* b, int* out) {
  const int i = threadIdx.x;
  const auto* const x = reinterpret_cast<const int8_t*>(a + i);
  const auto* const y = reinterpret_cast<const uint8_t*>(b + i);
  int sum = 7;
  for (int k = 0; k < 4; ++k) sum += x[k] * y[k];
  out[4 * i] = sum;
  out[4 * i + 1] = __dp4a(a[i], b[i], 9);
  out[4 * i + 2] = static_cast<int>(__dp2a_hi(
      static_cast<unsigned>(a[i]), static_cast<unsigned>(b[i]), 3u));
  out[4 * i + 3] = static_cast<int>(
      __fns(static_cast<unsigned>(a[i]), static_cast<unsigned>(i) % 32, -2));
}

extern "C" __global__ void bit_fields(const unsigned* a, const unsigned* b,
                                      unsigned* out) {
  const unsigned i = threadIdx.x;
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(out[4 * i]) : "r"(a[i]), "r"(b[i]));
  asm("bmsk.wrap.b32 %0, %1, %2;"
      : "=r"(out[4 * i + 1])
      : "r"(a[i]), "r"(b[i]));
  asm("szext.clamp.s32 %0, %1, %2;"
      : "=r"(out[4 * i + 2])
      : "r"(b[i]), "r"(a[i]));
  asm("szext.wrap.u32 %0, %1, %2;"
      : "=r"(out[4 * i + 3])
      : "r"(b[i]), "r"(a[i]));
}

// Conversions of what is no number, and of what is too large.
extern "C" __global__ void conversions(const double* in, long long* out) {
  const double x = in[threadIdx.x];
  const auto y = static_cast<float>(x);
  long long* const to = out + 8 * threadIdx.x;
  to[0] = __double2int_rz(x);
  to[1] = __double2uint_rn(x);
  to[2] = __double2ll_rd(x);
  to[3] = static_cast<long long>(__double2ull_rz(x));
  to[4] = __float2int_ru(y);
  to[5] = __float2uint_rz(y);
  to[6] = __float2ll_rn(y);
  to[7] = static_cast<long long>(__float2ull_rz(y));
}
