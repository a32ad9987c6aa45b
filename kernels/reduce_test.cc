#include "kernels/reduce.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

TEST(Reduce, AddsUpForEveryBlockSizeAndLength) {
  std::mt19937 random(4);
  for (const uint32_t block :
       {1u, 2u, 31u, 32u, 33u, 64u, 100u, 1000u, 1024u}) {
    for (const uint32_t length : {0u, 1u, 7u, 100u, 5000u}) {
      std::vector<uint32_t> in(length);
      for (uint32_t& x : in) x = random();
      std::vector<uint64_t> sum{1};
      const simt::GridResult result =
          RunGrid(reduce_info, {3, 1, 1}, {block, 1, 1},
                  ReduceArgs{ReadOnly(in), Writable(sum)}, {.workers = 3});
      ASSERT_EQ(result.status, simt::kFailNone) << result.message;
      EXPECT_EQ(sum[0], std::accumulate(in.begin(), in.end(), uint64_t{1}))
          << block << " threads, " << length << " numbers";
    }
  }
}

TEST(Reduce, NeedsAPlaceForTheSum) {
  std::vector<uint32_t> in(10);
  EXPECT_EQ(
      RunGrid(reduce_info, {}, {32, 1, 1}, ReduceArgs{ReadOnly(in), {}}).status,
      simt::kFailBadArguments);
}

}  // namespace
}  // namespace carillon::kernels
