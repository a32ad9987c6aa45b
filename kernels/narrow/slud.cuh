// The tasks of a sparse LU decomposition without pivoting (Pagoda's SLUD, from
// the Barcelona OpenMP Tasks Suite). The matrix consists of blocks of n x n
// elements, of which many are empty; each task works on up to three of them. Step
// k of the decomposition is:
//
//   slud_lu0    block (k, k) becomes L and U; the diagonal of L is 1
//   slud_fwd    block (k, j), j > k: becomes L(k, k)^-1 times itself
//   slud_bdiv   block (i, k), i > k: becomes itself times U(k, k)^-1
//   slud_bmod   block (i, j) loses block (i, k) times block (k, j)
//
// All have one block of any number of threads; slud_fwd, slud_bdiv and slud_bmod
// may have more.
#ifndef CARILLON_KERNELS_NARROW_SLUD_CUH_
#define CARILLON_KERNELS_NARROW_SLUD_CUH_

#include "kernels/narrow/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// Keeps n * n in 32 bits.
inline constexpr uint32_t kSludMostRows = 4096;

CARILLON_HOST_DEVICE bool SludFits(uint32_t n, uint64_t elements) {
  return n != 0 && n <= kSludMostRows &&
         static_cast<uint64_t>(n) * n <= elements;
}

// Whether one can divide by it.
CARILLON_DEVICE bool IsPivot(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  return magnitude > 0.0f && magnitude <= 3.40282347e38f;
}

struct SludLu0Args {
  simt::Span<float> block;
  uint32_t n;
};

// Fails with kFailSingular at the first pivot that is none; the rows and columns
// before it are done then.
CARILLON_BARRIER_KERNEL(slud_lu0, SludLu0Args, args, self) {
  if (self.grid_dim() != simt::Dim3{1, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!SludFits(args.n, args.block.size)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t n = args.n;
  const uint32_t threads = self.block_threads();
  float* a = args.block.data;
  for (uint32_t k = 0; k < n; ++k) {
    const float pivot = a[k * n + k];
    if (!IsPivot(pivot)) {
      self.Fail(kFailSingular);
      CARILLON_EXIT;  // all threads: they have seen the same pivot
    }
    const uint32_t rest = n - k - 1;
    for (uint32_t i = self.linear(); i < rest; i += threads) {
      a[(k + 1 + i) * n + k] /= pivot;
    }
    CARILLON_SYNC_THREADS(self);
    for (uint32_t i = self.linear(); i < rest * rest; i += threads) {
      const uint32_t row = k + 1 + i / rest;
      const uint32_t column = k + 1 + i % rest;
      a[row * n + column] -= a[row * n + k] * a[k * n + column];
    }
    CARILLON_SYNC_THREADS(self);
  }
}

inline const char* CheckSludLu0Shape(const simt::LaunchShape& shape) {
  return shape.grid == simt::Dim3{1, 1, 1}
             ? nullptr
             : "slud_lu0 takes one block, whose threads meet at barriers";
}

inline const char* CheckSludLu0(const simt::LaunchShape& shape,
                                const SludLu0Args& args) {
  if (!SludFits(args.n, args.block.size)) {
    return "n must be 1..4096, block must have n * n elements";
  }
  return CheckSludLu0Shape(shape);
}

CARILLON_KERNEL_INFO(
    slud_lu0, SludLu0Args, "LU of a block on the diagonal: a narrow task",
    simt::Registers(24)
        .From("BOTS sparselu (Pagoda: SLUD)")
        .Oracle("NumPy, SciPy")
        .LeavesTogether()
        .Shape<&CheckSludLu0Shape>()
        .Validate<&CheckSludLu0>(),
    CARILLON_PARAM(SludLu0Args, block, "n * n elements, row by row; L and U"),
    CARILLON_PARAM(SludLu0Args, n, "rows and columns, 1..4096"));

// Of slud_fwd and slud_bdiv.
struct SludSolveArgs {
  simt::Span<const float> diagonal;
  simt::Span<float> block;
  uint32_t n;
};

CARILLON_HOST_DEVICE bool SludSolveFits(const SludSolveArgs& args) {
  return SludFits(args.n, args.block.size) &&
         SludFits(args.n, args.diagonal.size);
}

inline const char* CheckSludSolve(const simt::LaunchShape&,
                                  const SludSolveArgs& args) {
  return SludSolveFits(args)
             ? nullptr
             : "n must be 1..4096, diagonal and block must have n * n elements";
}

// A thread does whole columns.
CARILLON_KERNEL(slud_fwd, SludSolveArgs, args, self) {
  if (!SludSolveFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint32_t n = args.n;
  for (uint64_t column = self.global_linear(); column < n;
       column += self.grid_threads()) {
    float* x = args.block.data + column;
    for (uint32_t row = 1; row < n; ++row) {
      float value = x[row * n];
      for (uint32_t k = 0; k < row; ++k) {
        value -= args.diagonal[row * n + k] * x[k * n];
      }
      x[row * n] = value;
    }
  }
}

// A thread does whole rows. Fails with kFailSingular if an element of the
// diagonal is no pivot; the block is not complete then.
CARILLON_KERNEL(slud_bdiv, SludSolveArgs, args, self) {
  if (!SludSolveFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint32_t n = args.n;
  for (uint64_t row = self.global_linear(); row < n;
       row += self.grid_threads()) {
    float* x = args.block.data + static_cast<uint32_t>(row) * n;
    for (uint32_t column = 0; column < n; ++column) {
      const float pivot = args.diagonal[column * n + column];
      if (!IsPivot(pivot)) {
        self.Fail(kFailSingular);
        return;
      }
      float value = x[column];
      for (uint32_t k = 0; k < column; ++k) {
        value -= x[k] * args.diagonal[k * n + column];
      }
      x[column] = value / pivot;
    }
  }
}

#define CARILLON_SLUD_SOLVE_PARAMS                                         \
  CARILLON_PARAM(SludSolveArgs, diagonal, "block (k, k) behind slud_lu0"), \
      CARILLON_PARAM(SludSolveArgs, block, "n * n elements, row by row"),  \
      CARILLON_PARAM(SludSolveArgs, n, "rows and columns, 1..4096")

CARILLON_KERNEL_INFO(slud_fwd, SludSolveArgs,
                     "a block in U's row: a narrow task",
                     simt::Registers(32)
                         .From("BOTS sparselu (Pagoda: SLUD)")
                         .Oracle("NumPy, SciPy")
                         .LaunchedOnly()
                         .Validate<&CheckSludSolve>(),
                     CARILLON_SLUD_SOLVE_PARAMS);
CARILLON_KERNEL_INFO(slud_bdiv, SludSolveArgs,
                     "a block in L's column: a narrow task",
                     simt::Registers(32)
                         .From("BOTS sparselu (Pagoda: SLUD)")
                         .Oracle("NumPy, SciPy")
                         .LaunchedOnly()
                         .Validate<&CheckSludSolve>(),
                     CARILLON_SLUD_SOLVE_PARAMS);

struct SludBmodArgs {
  simt::Span<const float> left;
  simt::Span<const float> upper;
  simt::Span<float> block;
  uint32_t n;
};

CARILLON_HOST_DEVICE bool SludBmodFits(const SludBmodArgs& args) {
  return SludFits(args.n, args.left.size) &&
         SludFits(args.n, args.upper.size) && SludFits(args.n, args.block.size);
}

CARILLON_KERNEL(slud_bmod, SludBmodArgs, args, self) {
  if (!SludBmodFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint32_t n = args.n;
  for (uint64_t i = self.global_linear(); i < static_cast<uint64_t>(n) * n;
       i += self.grid_threads()) {
    const float* row = args.left.data + i / n * n;
    const float* column = args.upper.data + i % n;
    float sum = 0.0f;
    for (uint32_t k = 0; k < n; ++k) sum += row[k] * column[k * n];
    args.block[i] -= sum;
  }
}

inline const char* CheckSludBmod(const simt::LaunchShape&,
                                 const SludBmodArgs& args) {
  return SludBmodFits(args)
             ? nullptr
             : "n must be 1..4096, left, upper and block must have n * n "
               "elements";
}

CARILLON_KERNEL_INFO(
    slud_bmod, SludBmodArgs, "a step's effect on a block: a narrow task",
    simt::Registers(32)
        .From("BOTS sparselu (Pagoda: SLUD)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckSludBmod>(),
    CARILLON_PARAM(SludBmodArgs, left, "block (i, k) behind slud_bdiv"),
    CARILLON_PARAM(SludBmodArgs, upper, "block (k, j) behind slud_fwd"),
    CARILLON_PARAM(SludBmodArgs, block, "n * n elements, row by row"),
    CARILLON_PARAM(SludBmodArgs, n, "rows and columns, 1..4096"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_SLUD_CUH_
