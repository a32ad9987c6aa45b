// cutcp: the electrostatic potential of point charges on a lattice, of which
// those beyond a cutoff count nothing (Hardy, Stone and Schulten, "Multilevel
// summation of electrostatic potentials using graphics processing units", 2009):
//
//   potential(p) = sum over |p - a| < cutoff of
//                  charge(a) / |p - a| * (1 - |p - a|^2 / cutoff^2)^2
//
// Space is divided into bins of 8x8x8 lattice points. A block of 8x8x2 threads
// computes a bin's points, four a thread, from the atoms of all bins that the
// cutoff reaches. It loads them bin by bin into shared memory.
#ifndef CARILLON_KERNELS_BACKGROUND_CUTCP_CUH_
#define CARILLON_KERNELS_BACKGROUND_CUTCP_CUH_

#include "kernels/background/special_functions.h"
#include "kernels/background/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kCutcpBin = 8;  // lattice points, in each direction
inline constexpr uint32_t kCutcpDepth = 2;
inline constexpr uint32_t kCutcpPoints = kCutcpBin / kCutcpDepth;  // a thread
inline constexpr uint32_t kCutcpBlock = kCutcpBin * kCutcpBin * kCutcpDepth;

struct CutcpArgs {
  simt::Span<const CutcpAtom> atoms;  // `capacity` places for each bin
  simt::Span<float> potential;        // of each lattice point
  uint32_t bins_x;
  uint32_t bins_y;
  uint32_t bins_z;
  uint32_t capacity;
  uint32_t reach;  // bins beside its own that a point may have atoms in
  float spacing;   // of the lattice
  float cutoff;
};

CARILLON_HOST_DEVICE bool CutcpFits(const CutcpArgs& args) {
  constexpr uint32_t kMostBins = 1024;  // in a direction
  if (args.bins_x > kMostBins || args.bins_y > kMostBins ||
      args.bins_z > kMostBins || args.capacity > kCutcpBlock ||
      args.reach > kMostBins) {
    return false;
  }
  const uint64_t bins =
      static_cast<uint64_t>(args.bins_x) * args.bins_y * args.bins_z;
  return args.atoms.size >= bins * args.capacity &&
         args.potential.size >= bins * kCutcpBin * kCutcpBin * kCutcpBin;
}

// The first and the last bin within reach.
CARILLON_HOST_DEVICE uint32_t CutcpFirst(uint32_t bin, uint32_t reach) {
  return bin < reach ? 0 : bin - reach;
}
CARILLON_HOST_DEVICE uint32_t CutcpLast(uint32_t bin, uint32_t reach,
                                        uint32_t bins) {
  return bin + reach < bins ? bin + reach : bins - 1;
}

CARILLON_BARRIER_KERNEL(cutcp, CutcpArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kCutcpBin, kCutcpBin, kCutcpDepth}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!CutcpFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const simt::Dim3 bin = self.block_index();
  if (bin.x >= args.bins_x || bin.y >= args.bins_y || bin.z >= args.bins_z) {
    CARILLON_EXIT;
  }
  CutcpAtom* tile = self.shared<CutcpAtom>(0, kCutcpBlock);
  const uint32_t linear = self.linear();
  const uint32_t column = bin.x * kCutcpBin + self.thread_index().x;
  const uint32_t row = bin.y * kCutcpBin + self.thread_index().y;
  const uint32_t plane = bin.z * kCutcpBin + self.thread_index().z;
  const float x = static_cast<float>(column) * args.spacing;
  const float y = static_cast<float>(row) * args.spacing;
  const float z = static_cast<float>(plane) * args.spacing;
  const float next = static_cast<float>(kCutcpDepth) * args.spacing;
  const float reach_squared = args.cutoff * args.cutoff;
  const float by_reach = 1.0f / reach_squared;
  float sum[kCutcpPoints] = {};

  for (uint32_t k = CutcpFirst(bin.z, args.reach);
       k <= CutcpLast(bin.z, args.reach, args.bins_z); ++k) {
    for (uint32_t j = CutcpFirst(bin.y, args.reach);
         j <= CutcpLast(bin.y, args.reach, args.bins_y); ++j) {
      for (uint32_t i = CutcpFirst(bin.x, args.reach);
           i <= CutcpLast(bin.x, args.reach, args.bins_x); ++i) {
        const uint64_t of_bin =
            (static_cast<uint64_t>(k) * args.bins_y + j) * args.bins_x + i;
        if (linear < args.capacity) {
          tile[linear] = args.atoms[of_bin * args.capacity + linear];
        }
        CARILLON_SYNC_THREADS(self);
        for (uint32_t a = 0; a < args.capacity; ++a) {
          const CutcpAtom atom = tile[a];
          const float dx = x - atom.x;
          const float dy = y - atom.y;
          const float flat = dx * dx + dy * dy;
          float dz = z - atom.z;
          CARILLON_UNROLL
          for (uint32_t point = 0; point < kCutcpPoints; ++point) {
            const float squared = flat + dz * dz;
            if (squared < reach_squared) {
              const float part = 1.0f - squared * by_reach;
              sum[point] += atom.charge * ReciprocalSqrt(squared) * part * part;
            }
            dz += next;
          }
        }
        CARILLON_SYNC_THREADS(self);
      }
    }
  }

  const uint64_t width = static_cast<uint64_t>(args.bins_x) * kCutcpBin;
  const uint64_t height = static_cast<uint64_t>(args.bins_y) * kCutcpBin;
  CARILLON_UNROLL
  for (uint32_t point = 0; point < kCutcpPoints; ++point) {
    const uint64_t at_z = plane + point * kCutcpDepth;
    args.potential[(at_z * height + row) * width + column] = sum[point];
  }
}

inline const char* CheckCutcpShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kCutcpBin, kCutcpBin, kCutcpDepth}
             ? nullptr
             : "blocks have 8x8x2 threads, each of which has four lattice "
               "points";
}

inline const char* CheckCutcp(const simt::LaunchShape& shape,
                              const CutcpArgs& args) {
  if (!CutcpFits(args)) {
    return "bins_x, bins_y, bins_z and reach must be at most 1024, capacity at "
           "most 128; atoms must have bins * capacity elements, potential bins "
           "* 512";
  }
  if (shape.grid.x < args.bins_x || shape.grid.y < args.bins_y ||
      shape.grid.z < args.bins_z) {
    return "the grid must have a block for each bin: bins_x x bins_y x bins_z";
  }
  return CheckCutcpShape(shape);
}

CARILLON_KERNEL_INFO(
    cutcp, CutcpArgs, "potential of point charges on a lattice, with a cutoff",
    simt::Registers(32)
        .From("Hardy et al. 2009, Parboil cutcp (PEP: CP)")
        .Oracle("NumPy, SciPy")
        .Shared(kCutcpBlock * sizeof(CutcpAtom))
        .LeavesTogether()
        .Shape<&CheckCutcpShape>()
        .Validate<&CheckCutcp>(),
    CARILLON_PARAM(CutcpArgs, atoms,
                   "x, y, z and charge; `capacity` a bin, those of charge 0 "
                   "are none"),
    CARILLON_PARAM(CutcpArgs, potential, "receives 512 values a bin, by row"),
    CARILLON_PARAM(CutcpArgs, bins_x, "bins of 8 points in a row"),
    CARILLON_PARAM(CutcpArgs, bins_y, "bins in a column"),
    CARILLON_PARAM(CutcpArgs, bins_z, "bins in depth"),
    CARILLON_PARAM(CutcpArgs, capacity, "atoms of a bin, at most 128"),
    CARILLON_PARAM(CutcpArgs, reach,
                   "bins to each side whose atoms may be near enough"),
    CARILLON_PARAM(CutcpArgs, spacing, "from a lattice point to the next"),
    CARILLON_PARAM(CutcpArgs, cutoff, "the distance that counts no more"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_CUTCP_CUH_
