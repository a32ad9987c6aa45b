// fig_lud_diagonal, fig_lud_perimeter, fig_lud_internal: one step of a blocked
// LU decomposition in place, as Rodinia's lud has it, without pivoting: L has
// ones on its diagonal. Launch the three for offset 0, 16, ..., n - 16 (the
// last step needs the first only). Background kernels of EDGE's figures.
//
// With k = (n - offset) / 16 - 1 blocks left of the matrix in each direction:
//
//   diagonal    1 block of 16 threads: the block at (offset, offset)
//   perimeter   k blocks of 32: those to the right (16 threads) and below (16)
//   internal    k x k blocks of 16x16: the rest
#ifndef CARILLON_KERNELS_PAPER_FIG_LUD_CUH_
#define CARILLON_KERNELS_PAPER_FIG_LUD_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FigLudArgs {
  simt::Span<float> matrix;
  uint32_t n;
  uint32_t offset;
};

inline constexpr uint32_t kFigLud = 16;
inline constexpr uint32_t kFigLudTile = kFigLud * kFigLud;

CARILLON_HOST_DEVICE bool FigLudFits(const FigLudArgs& args) {
  const uint64_t n = args.n;
  return n % kFigLud == 0 && args.offset % kFigLud == 0 && args.offset < n &&
         args.matrix.size >= n * n;
}

inline const char* CheckFigLudArgs(const FigLudArgs& args) {
  return FigLudFits(args) ? nullptr
                          : "n and offset must be multiples of 16, offset < n, "
                            "matrix n * n elements";
}

inline const char* CheckFigLudDiagonalShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kFigLud, 1, 1} &&
                 shape.grid == simt::Dim3{1, 1, 1}
             ? nullptr
             : "the diagonal takes 1 block of 16x1x1 threads";
}

CARILLON_BARRIER_KERNEL(fig_lud_diagonal, FigLudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kFigLud, 1, 1} ||
      self.grid_dim() != simt::Dim3{1, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigLudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t x = self.thread_index().x;
  const uint64_t n = args.n;
  float* corner = args.matrix.data + args.offset * (n + 1);
  float* tile = self.shared<float>(0, kFigLudTile);
  for (uint32_t row = 0; row < kFigLud; ++row) {
    tile[row * kFigLud + x] = corner[row * n + x];
  }
  CARILLON_SYNC_THREADS(self);
  for (uint32_t i = 0; i + 1 < kFigLud; ++i) {
    // Column i of L, a row a thread; then row i + 1 of U, a column a thread.
    if (x > i) {
      for (uint32_t j = 0; j < i; ++j) {
        tile[x * kFigLud + i] -= tile[x * kFigLud + j] * tile[j * kFigLud + i];
      }
      tile[x * kFigLud + i] /= tile[i * kFigLud + i];
    }
    CARILLON_SYNC_THREADS(self);
    if (x > i) {
      for (uint32_t j = 0; j <= i; ++j) {
        tile[(i + 1) * kFigLud + x] -=
            tile[(i + 1) * kFigLud + j] * tile[j * kFigLud + x];
      }
    }
    CARILLON_SYNC_THREADS(self);
  }
  for (uint32_t row = 1; row < kFigLud; ++row) {
    corner[row * n + x] = tile[row * kFigLud + x];
  }
}

inline const char* CheckFigLudDiagonal(const simt::LaunchShape& shape,
                                       const FigLudArgs& args) {
  const char* problem = CheckFigLudArgs(args);
  return problem != nullptr ? problem : CheckFigLudDiagonalShape(shape);
}

#define CARILLON_FIG_LUD_PARAMS                                            \
  CARILLON_PARAM(FigLudArgs, matrix, "n * n elements, row by row"),        \
      CARILLON_PARAM(FigLudArgs, n, "rows and columns, a multiple of 16"), \
      CARILLON_PARAM(FigLudArgs, offset, "of the step: 0, 16, ... n - 16")

CARILLON_KERNEL_INFO(fig_lud_diagonal, FigLudArgs,
                     "LU decomposition: a step's block on the diagonal",
                     simt::Registers(32)
                         .Shared(kFigLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigLudDiagonalShape>()
                         .Validate<&CheckFigLudDiagonal>(),
                     CARILLON_FIG_LUD_PARAMS);

inline const char* CheckFigLudPerimeterShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{2 * kFigLud, 1, 1} && shape.grid.y == 1 &&
                 shape.grid.z == 1
             ? nullptr
             : "the perimeter takes k x 1 x 1 blocks of 32x1x1 threads";
}

CARILLON_BARRIER_KERNEL(fig_lud_perimeter, FigLudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{2 * kFigLud, 1, 1} ||
      self.grid_dim().y != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigLudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t n = args.n;
  const uint64_t apart =
      (static_cast<uint64_t>(self.block_index().x) + 1) * kFigLud;
  if (args.offset + apart >= n) CARILLON_EXIT;
  float* corner = args.matrix.data + args.offset * (n + 1);
  float* right = corner + apart;
  float* below = corner + apart * n;
  float* diagonal = self.shared<float>(0, kFigLudTile);
  float* row_tile =
      self.shared<float>(kFigLudTile * sizeof(float), kFigLudTile);
  float* column_tile =
      self.shared<float>(2 * kFigLudTile * sizeof(float), kFigLudTile);
  const bool is_row = self.thread_index().x < kFigLud;
  const uint32_t x = self.thread_index().x % kFigLud;

  // Each half of the warp loads its half of the diagonal block and its block.
  if (is_row) {
    for (uint32_t i = 0; i < kFigLud / 2; ++i) {
      diagonal[i * kFigLud + x] = corner[i * n + x];
    }
    for (uint32_t i = 0; i < kFigLud; ++i) {
      row_tile[i * kFigLud + x] = right[i * n + x];
    }
  } else {
    for (uint32_t i = kFigLud / 2; i < kFigLud; ++i) {
      diagonal[i * kFigLud + x] = corner[i * n + x];
    }
    for (uint32_t i = 0; i < kFigLud; ++i) {
      column_tile[i * kFigLud + x] = below[i * n + x];
    }
  }
  CARILLON_SYNC_THREADS(self);
  if (is_row) {
    // L * X = A, a column a thread.
    for (uint32_t i = 1; i < kFigLud; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        row_tile[i * kFigLud + x] -=
            diagonal[i * kFigLud + j] * row_tile[j * kFigLud + x];
      }
    }
  } else {
    // X * U = A, a row a thread.
    for (uint32_t i = 0; i < kFigLud; ++i) {
      for (uint32_t j = 0; j < i; ++j) {
        column_tile[x * kFigLud + i] -=
            column_tile[x * kFigLud + j] * diagonal[j * kFigLud + i];
      }
      column_tile[x * kFigLud + i] /= diagonal[i * kFigLud + i];
    }
  }
  CARILLON_SYNC_THREADS(self);
  if (is_row) {
    for (uint32_t i = 1; i < kFigLud; ++i) {
      right[i * n + x] = row_tile[i * kFigLud + x];
    }
  } else {
    for (uint32_t i = 0; i < kFigLud; ++i) {
      below[i * n + x] = column_tile[i * kFigLud + x];
    }
  }
}

inline const char* CheckFigLudPerimeter(const simt::LaunchShape& shape,
                                        const FigLudArgs& args) {
  if (const char* problem = CheckFigLudArgs(args)) return problem;
  if (shape.grid.x < (args.n - args.offset) / kFigLud - 1) {
    return "the grid must have (n - offset) / 16 - 1 blocks";
  }
  return CheckFigLudPerimeterShape(shape);
}

CARILLON_KERNEL_INFO(fig_lud_perimeter, FigLudArgs,
                     "LU decomposition: a step's row and column of blocks",
                     simt::Registers(32)
                         .Shared(3 * kFigLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigLudPerimeterShape>()
                         .Validate<&CheckFigLudPerimeter>(),
                     CARILLON_FIG_LUD_PARAMS);

inline const char* CheckFigLudInternalShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kFigLud, kFigLud, 1} && shape.grid.z == 1
             ? nullptr
             : "the inside takes k x k x 1 blocks of 16x16x1 threads";
}

CARILLON_BARRIER_KERNEL(fig_lud_internal, FigLudArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kFigLud, kFigLud, 1} ||
      self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigLudFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t n = args.n;
  const uint64_t row = args.offset + self.global_y() + kFigLud;
  const uint64_t column = args.offset + self.global_x() + kFigLud;
  // The same for all threads of the block: n is a multiple of 16.
  if (row >= n || column >= n) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  float* row_tile = self.shared<float>(0, kFigLudTile);
  float* column_tile =
      self.shared<float>(kFigLudTile * sizeof(float), kFigLudTile);
  row_tile[y * kFigLud + x] = args.matrix[(args.offset + y) * n + column];
  column_tile[y * kFigLud + x] = args.matrix[row * n + args.offset + x];
  CARILLON_SYNC_THREADS(self);
  float sum = 0.0f;
  for (uint32_t i = 0; i < kFigLud; ++i) {
    sum += column_tile[y * kFigLud + i] * row_tile[i * kFigLud + x];
  }
  args.matrix[row * n + column] -= sum;
}

inline const char* CheckFigLudInternal(const simt::LaunchShape& shape,
                                       const FigLudArgs& args) {
  if (const char* problem = CheckFigLudArgs(args)) return problem;
  const uint32_t blocks = (args.n - args.offset) / kFigLud - 1;
  if (shape.grid.x < blocks || shape.grid.y < blocks) {
    return "the grid must have k x k blocks, k = (n - offset) / 16 - 1";
  }
  return CheckFigLudInternalShape(shape);
}

CARILLON_KERNEL_INFO(fig_lud_internal, FigLudArgs,
                     "LU decomposition: a step's effect on the rest",
                     simt::Registers(30)
                         .Shared(2 * kFigLudTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigLudInternalShape>()
                         .Validate<&CheckFigLudInternal>(),
                     CARILLON_FIG_LUD_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_LUD_CUH_
