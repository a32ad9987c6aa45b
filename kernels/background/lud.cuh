// lud_diagonal, lud_perimeter, lud_internal: one step of a blocked
// LU decomposition in place, as Rodinia's lud has it, without pivoting: L has
// ones on its diagonal. Launch the three for offset 0, 16, ..., n - 16 (the
// last step needs the first only). Background kernels of EDGE's figures.
//
// With k = (n - offset) / 16 - 1 blocks left of the matrix in each direction:
//
//   diagonal    1 block of 16 threads: the block at (offset, offset)
//   perimeter   k blocks of 32: those to the right (16 threads) and below (16)
//   internal    k x k blocks of 16x16: the rest
#ifndef CARILLON_KERNELS_BACKGROUND_LUD_CUH_
#define CARILLON_KERNELS_BACKGROUND_LUD_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct LudArgs {
  simt::Span<float> matrix;
  uint32_t n;
  uint32_t offset;
};

inline constexpr uint32_t kLudBlock = 16;
inline constexpr uint32_t kLudTile = kLudBlock * kLudBlock;

CARILLON_HOST_DEVICE bool LudFits(const LudArgs& args) {
  const uint64_t n = args.n;
  return n % kLudBlock == 0 && args.offset % kLudBlock == 0 &&
         args.offset < n && args.matrix.size >= n * n;
}

inline const char* CheckLudArgs(const LudArgs& args) {
  return LudFits(args) ? nullptr
                       : "n and offset must be multiples of 16, offset < n, "
                         "matrix n * n elements";
}

inline const char* CheckLudDiagonalShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kLudBlock, 1, 1} &&
                 shape.grid == simt::Dim3{1, 1, 1}
             ? nullptr
             : "the diagonal takes 1 block of 16x1x1 threads";
}

CARILLON_BARRIER_KERNEL(lud_diagonal, LudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kLudBlock, 1, 1} ||
      self.grid_dim() != simt::Dim3{1, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!LudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t x = self.thread_index().x;
  const uint64_t n = args.n;
  float* corner = args.matrix.data + args.offset * (n + 1);
  float* tile = self.shared<float>(0, kLudTile);
  for (uint32_t row = 0; row < kLudBlock; ++row) {
    tile[row * kLudBlock + x] = corner[row * n + x];
  }
  CARILLON_SYNC_THREADS(self);
  for (uint32_t i = 0; i + 1 < kLudBlock; ++i) {
    // Column i of L, a row a thread; then row i + 1 of U, a column a thread.
    if (x > i) {
      for (uint32_t j = 0; j < i; ++j) {
        tile[x * kLudBlock + i] -=
            tile[x * kLudBlock + j] * tile[j * kLudBlock + i];
      }
      tile[x * kLudBlock + i] /= tile[i * kLudBlock + i];
    }
    CARILLON_SYNC_THREADS(self);
    if (x > i) {
      for (uint32_t j = 0; j <= i; ++j) {
        tile[(i + 1) * kLudBlock + x] -=
            tile[(i + 1) * kLudBlock + j] * tile[j * kLudBlock + x];
      }
    }
    CARILLON_SYNC_THREADS(self);
  }
  for (uint32_t row = 1; row < kLudBlock; ++row) {
    corner[row * n + x] = tile[row * kLudBlock + x];
  }
}

inline const char* CheckLudDiagonal(const simt::LaunchShape& shape,
                                    const LudArgs& args) {
  const char* problem = CheckLudArgs(args);
  return problem != nullptr ? problem : CheckLudDiagonalShape(shape);
}

#define CARILLON_FIG_LUD_PARAMS                                         \
  CARILLON_PARAM(LudArgs, matrix, "n * n elements, row by row"),        \
      CARILLON_PARAM(LudArgs, n, "rows and columns, a multiple of 16"), \
      CARILLON_PARAM(LudArgs, offset, "of the step: 0, 16, ... n - 16")

CARILLON_KERNEL_INFO(lud_diagonal, LudArgs,
                     "LU decomposition: a step's block on the diagonal",
                     simt::Registers(32)
                         .From("Rodinia lud (EDGE: LUD)")
                         .Oracle("NumPy, SciPy")
                         .Shared(kLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckLudDiagonalShape>()
                         .Validate<&CheckLudDiagonal>(),
                     CARILLON_FIG_LUD_PARAMS);

inline const char* CheckLudPerimeterShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{2 * kLudBlock, 1, 1} && shape.grid.y == 1 &&
                 shape.grid.z == 1
             ? nullptr
             : "the perimeter takes k x 1 x 1 blocks of 32x1x1 threads";
}

CARILLON_BARRIER_KERNEL(lud_perimeter, LudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{2 * kLudBlock, 1, 1} ||
      self.grid_dim().y != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!LudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t n = args.n;
  const uint64_t apart =
      (static_cast<uint64_t>(self.block_index().x) + 1) * kLudBlock;
  if (args.offset + apart >= n) CARILLON_EXIT;
  float* corner = args.matrix.data + args.offset * (n + 1);
  float* right = corner + apart;
  float* below = corner + apart * n;
  float* diagonal = self.shared<float>(0, kLudTile);
  float* row_tile = self.shared<float>(kLudTile * sizeof(float), kLudTile);
  float* column_tile =
      self.shared<float>(2 * kLudTile * sizeof(float), kLudTile);
  const bool is_row = self.thread_index().x < kLudBlock;
  const uint32_t x = self.thread_index().x % kLudBlock;

  // Each half of the warp loads its half of the diagonal block and its block.
  if (is_row) {
    for (uint32_t i = 0; i < kLudBlock / 2; ++i) {
      diagonal[i * kLudBlock + x] = corner[i * n + x];
    }
    for (uint32_t i = 0; i < kLudBlock; ++i) {
      row_tile[i * kLudBlock + x] = right[i * n + x];
    }
  } else {
    for (uint32_t i = kLudBlock / 2; i < kLudBlock; ++i) {
      diagonal[i * kLudBlock + x] = corner[i * n + x];
    }
    for (uint32_t i = 0; i < kLudBlock; ++i) {
      column_tile[i * kLudBlock + x] = below[i * n + x];
    }
  }
  CARILLON_SYNC_THREADS(self);
  if (is_row) {
    // L * X = A, a column a thread.
    for (uint32_t i = 1; i < kLudBlock; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        row_tile[i * kLudBlock + x] -=
            diagonal[i * kLudBlock + j] * row_tile[j * kLudBlock + x];
      }
    }
  } else {
    // X * U = A, a row a thread.
    for (uint32_t i = 0; i < kLudBlock; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        column_tile[x * kLudBlock + i] -=
            column_tile[x * kLudBlock + j] * diagonal[j * kLudBlock + i];
      }
      column_tile[x * kLudBlock + i] /= diagonal[i * kLudBlock + i];
    }
  }
  CARILLON_SYNC_THREADS(self);
  if (is_row) {
    for (uint32_t i = 1; i < kLudBlock; ++i) {
      right[i * n + x] = row_tile[i * kLudBlock + x];
    }
  } else {
    for (uint32_t i = 0; i < kLudBlock; ++i) {
      below[i * n + x] = column_tile[i * kLudBlock + x];
    }
  }
}

inline const char* CheckLudPerimeter(const simt::LaunchShape& shape,
                                     const LudArgs& args) {
  if (const char* problem = CheckLudArgs(args)) return problem;
  if (shape.grid.x < (args.n - args.offset) / kLudBlock - 1) {
    return "the grid must have (n - offset) / 16 - 1 blocks";
  }
  return CheckLudPerimeterShape(shape);
}

CARILLON_KERNEL_INFO(lud_perimeter, LudArgs,
                     "LU decomposition: a step's row and column of blocks",
                     simt::Registers(32)
                         .From("Rodinia lud (EDGE: LUD)")
                         .Oracle("NumPy, SciPy")
                         .Shared(3 * kLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckLudPerimeterShape>()
                         .Validate<&CheckLudPerimeter>(),
                     CARILLON_FIG_LUD_PARAMS);

inline const char* CheckLudInternalShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kLudBlock, kLudBlock, 1} && shape.grid.z == 1
             ? nullptr
             : "the inside takes k x k x 1 blocks of 16x16x1 threads";
}

CARILLON_BARRIER_KERNEL(lud_internal, LudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kLudBlock, kLudBlock, 1} ||
      self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!LudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t n = args.n;
  const uint64_t row = args.offset + self.global_y() + kLudBlock;
  const uint64_t column = args.offset + self.global_x() + kLudBlock;
  // The same for all threads of the block: n is a multiple of 16.
  if (row >= n || column >= n) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  float* row_tile = self.shared<float>(0, kLudTile);
  float* column_tile = self.shared<float>(kLudTile * sizeof(float), kLudTile);
  row_tile[y * kLudBlock + x] = args.matrix[(args.offset + y) * n + column];
  column_tile[y * kLudBlock + x] = args.matrix[row * n + args.offset + x];
  CARILLON_SYNC_THREADS(self);
  float sum = 0.0f;
  for (uint32_t i = 0; i < kLudBlock; ++i) {
    sum += column_tile[y * kLudBlock + i] * row_tile[i * kLudBlock + x];
  }
  args.matrix[row * n + column] -= sum;
}

inline const char* CheckLudInternal(const simt::LaunchShape& shape,
                                    const LudArgs& args) {
  if (const char* problem = CheckLudArgs(args)) return problem;
  const uint32_t blocks = (args.n - args.offset) / kLudBlock - 1;
  if (shape.grid.x < blocks || shape.grid.y < blocks) {
    return "the grid must have k x k blocks, k = (n - offset) / 16 - 1";
  }
  return CheckLudInternalShape(shape);
}

CARILLON_KERNEL_INFO(lud_internal, LudArgs,
                     "LU decomposition: a step's effect on the rest",
                     simt::Registers(30)
                         .From("Rodinia lud (EDGE: LUD)")
                         .Oracle("NumPy, SciPy")
                         .Shared(2 * kLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckLudInternalShape>()
                         .Validate<&CheckLudInternal>(),
                     CARILLON_FIG_LUD_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_LUD_CUH_
