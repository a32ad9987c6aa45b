// The kernels that hardly compute: null_event, echo, vector_add, busy, fail_if.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/busy.cuh"
#include "kernels/echo.cuh"
#include "kernels/fail_if.cuh"
#include "kernels/null_event.cuh"
#include "kernels/simt/kernel_test_util.h"
#include "kernels/vector_add.cuh"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

TEST(NullEvent, Succeeds) {
  EXPECT_EQ(RunGrid(null_event_info, {2, 1, 1}, {32, 1, 1}, NullArgs{7}).status,
            simt::kFailNone);
}

TEST(Echo, CopiesEveryByteWithAnyGrid) {
  for (const Dim3 grid : {Dim3{1, 1, 1}, Dim3{3, 2, 1}}) {
    for (const uint32_t size : {0u, 1u, 31u, 32u, 33u, 1500u}) {
      std::vector<uint8_t> in(size);
      std::iota(in.begin(), in.end(), uint8_t{3});
      std::vector<uint8_t> out(size + 1, 0xee);
      EXPECT_EQ(RunGrid(echo_info, grid, {32, 1, 1},
                        EchoArgs{ReadOnly(in), Writable(out)})
                    .status,
                simt::kFailNone);
      EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin()));
      EXPECT_EQ(out[size], 0xee);
    }
  }
}

TEST(Echo, AnOutputThatIsTooSmallFailsAndStaysAsItWas) {
  std::vector<uint8_t> in(10, 1), out(9, 0xee);
  EXPECT_EQ(
      RunGrid(echo_info, {}, {32, 1, 1}, EchoArgs{ReadOnly(in), Writable(out)})
          .status,
      simt::kFailBadArguments);
  EXPECT_EQ(out, std::vector<uint8_t>(9, 0xee));
}

TEST(VectorAdd, AddsEveryElement) {
  for (const uint32_t size : {1u, 31u, 32u, 33u, 1000u}) {
    std::vector<float> a(size), b(size), c(size);
    std::iota(a.begin(), a.end(), 0.5f);
    std::iota(b.begin(), b.end(), 100.0f);
    const VectorAddArgs args{ReadOnly(a), ReadOnly(b), Writable(c)};
    const Dim3 grid{(size + 63) / 64, 1, 1};
    EXPECT_EQ(RunGrid(vector_add_info, grid, {64, 1, 1}, args).status,
              simt::kFailNone);
    EXPECT_EQ(vector_add_info.validate({grid, {64, 1, 1}}, &args), nullptr);
    for (uint32_t i = 0; i < size; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  }
}

TEST(VectorAdd, WhatItCannotAddWholeIsAFailure) {
  std::vector<float> a(64), b(64), c(64);
  VectorAddArgs args{ReadOnly(a), ReadOnly(b), Writable(c)};
  EXPECT_EQ(RunGrid(vector_add_info, {1, 1, 1}, {32, 1, 1}, args).status,
            simt::kFailBadShape);
  EXPECT_NE(vector_add_info.validate({{1, 1, 1}, {32, 1, 1}}, &args), nullptr);
  args.b.size = 63;
  EXPECT_EQ(RunGrid(vector_add_info, {2, 1, 1}, {32, 1, 1}, args).status,
            simt::kFailBadArguments);
  EXPECT_NE(vector_add_info.validate({{2, 1, 1}, {32, 1, 1}}, &args), nullptr);
}

TEST(Busy, TakesTheGivenNumberOfSteps) {
  EXPECT_EQ(BusySteps(1, 0), 1u);
  EXPECT_EQ(BusySteps(1, 1), 1082269761u);
  EXPECT_EQ(BusySteps(1, 2), 1152992998833853505u);
  EXPECT_EQ(BusySteps(1, 3), 11177516664432764457u);
  EXPECT_EQ(RunGrid(busy_info, {}, {32, 1, 1}, BusyArgs{1000}).status,
            simt::kFailNone);
}

TEST(FailIf, FailsWithTheGivenCodeOnly) {
  EXPECT_EQ(RunGrid(fail_if_info, {2, 1, 1}, {32, 1, 1}, FailIfArgs{0}).status,
            simt::kFailNone);
  EXPECT_EQ(RunGrid(fail_if_info, {2, 1, 1}, {32, 1, 1}, FailIfArgs{42}).status,
            42u);
}

}  // namespace
}  // namespace carillon::kernels
