// bp_forward, bp_adjust: one layer of back-propagation as Rodinia's
// backprop has it, with 16 hidden units. A background kernel of EDGE's figures.
//
// Weights are a matrix of in + 1 rows, a row an input unit, and 17 columns, a
// column a hidden unit. Row 0 is the threshold's, column 0 is not used; units
// count from 1 likewise. Blocks are 16x16: x a hidden unit, y an input unit.
#ifndef CARILLON_KERNELS_BACKGROUND_BP_CUH_
#define CARILLON_KERNELS_BACKGROUND_BP_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kBpHidden = 16;
inline constexpr uint32_t kBpRow = kBpHidden + 1;
inline constexpr float kBpRate = 0.3f;
inline constexpr float kBpMomentum = 0.3f;

struct BpForwardArgs {
  simt::Span<const float> input;    // in + 1
  simt::Span<const float> weights;  // (in + 1) * 17
  simt::Span<float> partial_sums;   // (in / 16) * 16
};

struct BpAdjustArgs {
  simt::Span<const float> delta;  // 17
  simt::Span<const float> input;  // in + 1
  simt::Span<float> weights;      // (in + 1) * 17
  simt::Span<float> changes;      // laid out as weights: the previous changes
};

inline constexpr const char* kBpShape =
    "the grid is 1 x (inputs / 16) blocks of 16x16x1 threads";

inline const char* CheckBpShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kBpHidden, kBpHidden, 1} &&
                 shape.grid.x == 1 && shape.grid.z == 1
             ? nullptr
             : kBpShape;
}

// partial_sums[b * 16 + h]: what the 16 inputs of block b give to unit h + 1.
CARILLON_BARRIER_KERNEL(bp_forward, BpForwardArgs, args, self) {
  const uint64_t blocks = self.grid_dim().y;
  if (self.block_dim() != simt::Dim3{kBpHidden, kBpHidden, 1} ||
      self.grid_dim().x != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  const uint64_t units = blocks * kBpHidden + 1;
  if (args.input.size < units || args.weights.size < units * kBpRow ||
      args.partial_sums.size < blocks * kBpHidden) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint64_t block = self.block_index().y;
  const uint64_t unit = block * kBpHidden + y + 1;
  float* nodes = self.shared<float>(0, kBpHidden);
  float* tile =
      self.shared<float>(kBpHidden * sizeof(float), kBpHidden * kBpHidden);

  if (x == 0) nodes[y] = args.input[unit];
  CARILLON_SYNC_THREADS(self);
  tile[y * kBpHidden + x] = args.weights[unit * kBpRow + x + 1];
  CARILLON_SYNC_THREADS(self);
  tile[y * kBpHidden + x] *= nodes[y];
  CARILLON_SYNC_THREADS(self);
  for (uint32_t half = 1; half < kBpHidden; half *= 2) {
    if (y % (2 * half) == 0) {
      tile[y * kBpHidden + x] += tile[(y + half) * kBpHidden + x];
    }
    CARILLON_SYNC_THREADS(self);
  }
  // Row 0 has the sums; a column of threads writes them.
  if (x == 0) args.partial_sums[block * kBpHidden + y] = tile[y];
}

inline const char* CheckBpForward(const simt::LaunchShape& shape,
                                  const BpForwardArgs& args) {
  const uint64_t units = static_cast<uint64_t>(shape.grid.y) * kBpHidden + 1;
  if (args.input.size < units) return "input must have inputs + 1 elements";
  if (args.weights.size < units * kBpRow) {
    return "weights must have (inputs + 1) * 17 elements";
  }
  if (args.partial_sums.size < units - 1) {
    return "partial_sums must have an element an input";
  }
  return CheckBpShape(shape);
}

CARILLON_KERNEL_INFO(bp_forward, BpForwardArgs,
                     "a layer's inputs times its weights, summed up by 16",
                     simt::Registers(16)
                         .From("Rodinia backprop (EDGE: BP)")
                         .Oracle("NumPy, SciPy")
                         .Shared((kBpHidden + kBpHidden * kBpHidden) *
                                 sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckBpShape>()
                         .Validate<&CheckBpForward>(),
                     CARILLON_PARAM(BpForwardArgs, input,
                                    "inputs + 1 elements, the first not used"),
                     CARILLON_PARAM(BpForwardArgs, weights,
                                    "(inputs + 1) * 17 elements, row by row"),
                     CARILLON_PARAM(BpForwardArgs, partial_sums,
                                    "receives 16 sums for every 16 inputs"));

// Each weight moves by its unit's delta and by its own last change.
CARILLON_KERNEL(bp_adjust, BpAdjustArgs, args, self) {
  const uint64_t units =
      static_cast<uint64_t>(self.grid_dim().y) * kBpHidden + 1;
  if (self.block_dim() != simt::Dim3{kBpHidden, kBpHidden, 1} ||
      self.grid_dim().x != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (args.delta.size < kBpRow || args.input.size < units ||
      args.weights.size < units * kBpRow ||
      args.changes.size < units * kBpRow) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t unit = self.global_y() + 1;
  const uint32_t hidden = self.thread_index().x + 1;
  const uint64_t i = unit * kBpRow + hidden;
  const float change = kBpRate * args.delta[hidden] * args.input[unit] +
                       kBpMomentum * args.changes[i];
  args.weights[i] += change;
  args.changes[i] = change;
  // The threshold's input is 1.
  if (unit == 1) {
    const float threshold =
        kBpRate * args.delta[hidden] + kBpMomentum * args.changes[hidden];
    args.weights[hidden] += threshold;
    args.changes[hidden] = threshold;
  }
}

inline const char* CheckBpAdjust(const simt::LaunchShape& shape,
                                 const BpAdjustArgs& args) {
  const uint64_t units = static_cast<uint64_t>(shape.grid.y) * kBpHidden + 1;
  if (args.delta.size < kBpRow) return "delta must have 17 elements";
  if (args.input.size < units) return "input must have inputs + 1 elements";
  if (args.weights.size < units * kBpRow ||
      args.changes.size < units * kBpRow) {
    return "weights and changes must have (inputs + 1) * 17 elements";
  }
  return CheckBpShape(shape);
}

CARILLON_KERNEL_INFO(bp_adjust, BpAdjustArgs, "moves a layer's weights",
                     simt::Registers(19)
                         .From("Rodinia backprop (EDGE: BP)")
                         .Oracle("NumPy, SciPy")
                         .LaunchedOnly()
                         .Shape<&CheckBpShape>()
                         .Validate<&CheckBpAdjust>(),
                     CARILLON_PARAM(BpAdjustArgs, delta,
                                    "17 elements, the first not used"),
                     CARILLON_PARAM(BpAdjustArgs, input,
                                    "inputs + 1 elements, the first not used"),
                     CARILLON_PARAM(BpAdjustArgs, weights,
                                    "(inputs + 1) * 17 elements, row by row"),
                     CARILLON_PARAM(BpAdjustArgs, changes,
                                    "the last change of every weight"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_BP_CUH_
