// Blocks that wait for each other, for grid_sync_test.cc.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// A sum over the grid, in two steps.
extern "C" __global__ void grid_sum(const int* in, int* sums, int* out) {
  const auto grid = cg::this_grid();
  const auto block = cg::this_thread_block();
  __shared__ int shared;
  if (block.thread_rank() == 0) shared = 0;
  block.sync();
  atomicAdd(&shared, in[grid.thread_rank()]);
  block.sync();
  if (block.thread_rank() == 0) sums[blockIdx.x] = shared;
  grid.sync();
  if (grid.thread_rank() == 0) {
    int sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += sums[b];
    *out = sum;
  }
  grid.sync();
  // Everybody has the sum.
  out[1 + grid.thread_rank()] = in[grid.thread_rank()] * 2 - *out;
}

// Each step reads what other blocks wrote in the step before.
extern "C" __global__ void steps(int* a, int* b, int count) {
  const auto grid = cg::this_grid();
  const auto n = grid.size();
  for (int k = 0; k < count; ++k) {
    const auto i = grid.thread_rank();
    b[i] = a[(i + 37) % n] + a[(i + n - 64) % n];
    auto token = grid.barrier_arrive();
    grid.barrier_wait(std::move(token));
    int* const c = a;
    a = b;
    b = c;
  }
}

// Not all of a block may do it.
extern "C" __global__ void valid(int* out) {
  *out = cg::this_grid().is_valid() ? 1 : 2;
}

// One block does not come.
extern "C" __global__ void one_is_missing(int* out) {
  if (blockIdx.x != 2) cg::this_grid().sync();
  *out = 1;
}
