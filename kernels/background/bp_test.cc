#include "kernels/background/bp.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{16, 16, 1};

std::vector<float> Numbers(std::mt19937& random, size_t count) {
  std::vector<float> numbers(count);
  // Small integers: sums and products are exact.
  for (float& x : numbers) x = static_cast<float>(random() % 41) - 20;
  return numbers;
}

TEST(FigBp, ForwardSumsUpInputsTimesWeights) {
  std::mt19937 random(1);
  for (const uint32_t blocks : {1u, 2u, 7u}) {
    const uint32_t inputs = blocks * 16;
    const std::vector<float> input = Numbers(random, inputs + 1);
    const std::vector<float> weights = Numbers(random, (inputs + 1) * 17);
    std::vector<float> sums(inputs, -1.0f);
    const simt::GridResult result = RunGrid(
        bp_forward_info, {1, blocks, 1}, kBlock,
        BpForwardArgs{ReadOnly(input), ReadOnly(weights), Writable(sums)},
        {.workers = 2});
    ASSERT_EQ(result.status, simt::kFailNone) << result.message;
    EXPECT_EQ(sums, reference::BpPartialSums(input, weights)) << blocks;
  }
}

TEST(FigBp, AdjustMovesEveryWeightOnce) {
  std::mt19937 random(2);
  const uint32_t inputs = 48;
  const std::vector<float> delta = Numbers(random, 17);
  const std::vector<float> input = Numbers(random, inputs + 1);
  const std::vector<float> weights = Numbers(random, (inputs + 1) * 17);
  const std::vector<float> changes = Numbers(random, (inputs + 1) * 17);
  std::vector<float> new_weights = weights;
  std::vector<float> new_changes = changes;
  const simt::GridResult result =
      RunGrid(bp_adjust_info, {1, 3, 1}, kBlock,
              BpAdjustArgs{ReadOnly(delta), ReadOnly(input),
                           Writable(new_weights), Writable(new_changes)},
              {.workers = 2});
  ASSERT_EQ(result.status, simt::kFailNone) << result.message;
  const reference::BpLayer expected =
      reference::BpAdjusted(delta, input, weights, changes);
  for (uint32_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(new_weights[i], expected.weights[i], 1e-4) << i;
    ASSERT_NEAR(new_changes[i], expected.changes[i], 1e-4) << i;
  }
}

TEST(FigBp, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> delta(17), input(33), weights(33 * 17), changes(33 * 17),
      sums(32, -1.0f);
  const BpForwardArgs forward{ReadOnly(input), ReadOnly(weights),
                              Writable(sums)};
  const BpAdjustArgs adjust{ReadOnly(delta), ReadOnly(input), Writable(weights),
                            Writable(changes)};
  std::vector<BpForwardArgs> bad_forward(3, forward);
  bad_forward[0].input.size = 32;
  bad_forward[1].weights.size = 33 * 17 - 1;
  bad_forward[2].partial_sums.size = 31;
  std::vector<BpAdjustArgs> bad_adjust(4, adjust);
  bad_adjust[0].delta.size = 16;
  bad_adjust[1].input.size = 32;
  bad_adjust[2].weights.size = 33 * 17 - 1;
  bad_adjust[3].changes.size = 33 * 17 - 1;
  const Dim3 grid{1, 2, 1};
  for (const BpForwardArgs& bad : bad_forward) {
    EXPECT_EQ(RunGrid(bp_forward_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(bp_forward_info.validate({grid, kBlock}, &bad), nullptr);
  }
  for (const BpAdjustArgs& bad : bad_adjust) {
    EXPECT_EQ(RunGrid(bp_adjust_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(bp_adjust_info.validate({grid, kBlock}, &bad), nullptr);
  }
  for (const auto& [g, b] :
       {std::pair{grid, Dim3{16, 8, 1}}, std::pair{Dim3{2, 2, 1}, kBlock},
        std::pair{Dim3{1, 2, 2}, kBlock}}) {
    EXPECT_EQ(RunGrid(bp_forward_info, g, b, forward).status,
              simt::kFailBadShape);
    EXPECT_EQ(RunGrid(bp_adjust_info, g, b, adjust).status,
              simt::kFailBadShape);
    EXPECT_NE(bp_forward_info.check_shape({g, b}), nullptr);
    EXPECT_NE(bp_adjust_info.check_shape({g, b}), nullptr);
  }
  EXPECT_EQ(sums, std::vector<float>(32, -1.0f));
  EXPECT_EQ(weights, std::vector<float>(33 * 17));
  EXPECT_EQ(bp_forward_info.validate({grid, kBlock}, &forward), nullptr);
  EXPECT_EQ(bp_adjust_info.validate({grid, kBlock}, &adjust), nullptr);
}

}  // namespace
}  // namespace carillon::kernels
