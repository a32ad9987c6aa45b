#include "gpu_daemon/event/kernel_metadata.h"

#include <gtest/gtest.h>

#include <string>

#include "gpu_daemon/event/gpu_model.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

std::string Check(simt::Dim3 grid, simt::Dim3 block, uint32_t shared = 0) {
  return std::string(
      CheckKernelMetadata({.kernel = simt::FindKernel("null_event"),
                           .grid = grid,
                           .block = block,
                           .shared_bytes = shared},
                          GpuModel{})
          .message());
}

TEST(KernelMetadataTest, EveryDimensionOutOfRangeIsNamedWithItsLimit) {
  EXPECT_EQ(Check({1, 1, 1}, {32, 1, 1}), "");
  EXPECT_EQ(Check({0, 1, 1}, {32, 1, 1}),
            "grid.x is 0: must be from 1 to 2147483647");
  EXPECT_EQ(Check({1, 65536, 1}, {32, 1, 1}),
            "grid.y is 65536: must be from 1 to 65535");
  EXPECT_EQ(Check({1, 1, 65536}, {32, 1, 1}),
            "grid.z is 65536: must be from 1 to 65535");
  EXPECT_EQ(Check({1, 1, 1}, {1025, 1, 1}),
            "block.x is 1025: must be from 1 to 1024");
  EXPECT_EQ(Check({1, 1, 1}, {1, 0, 1}),
            "block.y is 0: must be from 1 to 1024");
  EXPECT_EQ(Check({1, 1, 1}, {1, 1, 65}),
            "block.z is 65: must be from 1 to 64");
  EXPECT_EQ(Check({1, 1, 1}, {64, 32, 1}),
            "block 64x32x1 has 2048 threads: the limit is 1024");
  EXPECT_EQ(Check({1, 1, 1}, {32, 1, 1}, 49153),
            "49153 + 0 bytes of shared memory: an SM has 49152");
}

TEST(KernelMetadataTest, MoreThreadsThanCanBeCountedAreRefused) {
  EXPECT_EQ(Check({1u << 30, 32768, 32768}, {16, 1, 1}),
            "grid 1073741824x32768x32768 of 16 threads each: more than 2^64 in "
            "all");
}

TEST(KernelMetadataTest, ABlockThatNoSmCouldHoldIsRefused) {
  const auto status =
      CheckKernelMetadata({.kernel = simt::FindKernel("null_event"),
                           .grid = {1, 1, 1},
                           .block = {64, 1, 1}},
                          GpuModel{.threads_per_sm = 32});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(KernelMetadataTest, OnlyOneWarpWithoutSharedMemoryTakesTheShortPath) {
  const auto* kernel = simt::FindKernel("null_event");
  EXPECT_TRUE((KernelMetadata{kernel, {1, 1, 1}, {32, 1, 1}, 0}.single_warp()));
  EXPECT_TRUE((KernelMetadata{kernel, {1, 1, 1}, {4, 4, 2}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {1, 1, 1}, {33, 1, 1}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {2, 1, 1}, {32, 1, 1}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {1, 1, 1}, {32, 1, 1}, 4}.single_warp()));
}

}  // namespace
}  // namespace carillon::gpud
