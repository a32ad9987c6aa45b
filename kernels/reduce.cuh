// reduce: the sum of an array, by warp shuffles, shared memory and one atomic
// addition a block.
#ifndef CARILLON_KERNELS_REDUCE_CUH_
#define CARILLON_KERNELS_REDUCE_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct ReduceArgs {
  simt::Span<const uint32_t> in;
  simt::Span<uint64_t> sum;
};

// Grids and blocks of any size.
CARILLON_BARRIER_KERNEL(reduce, ReduceArgs, args, self) {
  if (args.sum.size < 1) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  uint64_t sum = 0;
  for (uint64_t i = self.global_linear(); i < args.in.size;
       i += self.grid_threads()) {
    sum += args.in[i];
  }
  const uint32_t lanes = simt::PopCount(self.warp_mask());
  for (uint32_t distance = simt::kWarpSize / 2; distance > 0; distance /= 2) {
    const uint64_t other = CARILLON_SHFL_DOWN(self, sum, distance);
    if (self.lane() + distance < lanes) sum += other;
  }
  uint64_t* of_warp = self.shared<uint64_t>(0, simt::kWarpSize);
  if (self.lane() == 0) of_warp[self.warp()] = sum;
  CARILLON_SYNC_THREADS(self);

  if (self.warp() != 0) CARILLON_EXIT;
  const uint32_t warps =
      (self.block_threads() + simt::kWarpSize - 1) / simt::kWarpSize;
  sum = self.lane() < warps ? of_warp[self.lane()] : 0;
  for (uint32_t distance = simt::kWarpSize / 2; distance > 0; distance /= 2) {
    const uint64_t other = CARILLON_SHFL_DOWN(self, sum, distance);
    if (self.lane() + distance < lanes) sum += other;
  }
  if (self.lane() == 0) simt::AtomicAdd(&args.sum[0], sum);
}

CARILLON_KERNEL_INFO(reduce, ReduceArgs, "adds up an array of integers",
                     simt::Registers(29)
                         .From("of the testbed")
                         .Oracle("NumPy, SciPy")
                         .Shared(simt::kWarpSize * sizeof(uint64_t))
                         .LeavesTogether(),
                     CARILLON_PARAM(ReduceArgs, in, "the summands"),
                     CARILLON_PARAM(ReduceArgs, sum,
                                    "one word, to which the sum is added"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_REDUCE_CUH_
