// mri_q: the Q matrix of magnetic resonance image reconstruction from samples
// that do not lie on a grid (Stone et al., "Accelerating advanced MRI
// reconstructions on GPUs", 2008):
//
//   Q(x) = sum over k of |phi(k)|^2 * e^(i 2 pi k.x)
//
// A thread has a voxel x. The samples k pass through shared memory, a block's
// number of them at a time.
#ifndef CARILLON_KERNELS_BACKGROUND_MRI_Q_CUH_
#define CARILLON_KERNELS_BACKGROUND_MRI_Q_CUH_

#include "kernels/background/special_functions.h"
#include "kernels/background/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kMriQBlock = 256;

struct MriQArgs {
  simt::Span<const MriSample> samples;
  simt::Span<const float> x;  // of each voxel
  simt::Span<const float> y;
  simt::Span<const float> z;
  simt::Span<float> real;
  simt::Span<float> imaginary;
};

CARILLON_HOST_DEVICE bool MriQFits(const MriQArgs& args) {
  const uint64_t voxels = args.x.size;
  return args.y.size >= voxels && args.z.size >= voxels &&
         args.real.size >= voxels && args.imaginary.size >= voxels;
}

CARILLON_BARRIER_KERNEL(mri_q, MriQArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kMriQBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!MriQFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  MriSample* tile = self.shared<MriSample>(0, kMriQBlock);
  const uint32_t linear = self.linear();
  const uint64_t voxel = self.global_linear();
  const bool inside = voxel < args.x.size;
  const float x = inside ? args.x[voxel] : 0.0f;
  const float y = inside ? args.y[voxel] : 0.0f;
  const float z = inside ? args.z[voxel] : 0.0f;
  float real = 0.0f;
  float imaginary = 0.0f;
  for (uint64_t first = 0; first < args.samples.size; first += kMriQBlock) {
    if (first + linear < args.samples.size) {
      tile[linear] = args.samples[first + linear];
    }
    CARILLON_SYNC_THREADS(self);
    const uint64_t left = args.samples.size - first;
    const uint32_t count =
        left < kMriQBlock ? static_cast<uint32_t>(left) : kMriQBlock;
    for (uint32_t k = 0; k < count; ++k) {
      const MriSample sample = tile[k];
      const float turns = sample.x * x + sample.y * y + sample.z * z;
      // Whole turns change nothing, and cost accuracy.
      const float angle = 6.28318530718f * (turns - rintf(turns));
      real += sample.weight * FastCos(angle);
      imaginary += sample.weight * FastSin(angle);
    }
    CARILLON_SYNC_THREADS(self);
  }
  if (inside) {
    args.real[voxel] = real;
    args.imaginary[voxel] = imaginary;
  }
}

inline const char* CheckMriQShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kMriQBlock, 1, 1}
             ? nullptr
             : "blocks have 256x1x1 threads, one a voxel";
}

inline const char* CheckMriQ(const simt::LaunchShape& shape,
                             const MriQArgs& args) {
  if (!MriQFits(args)) {
    return "y, z, real and imaginary must have as many elements as x";
  }
  if (shape.grid.count() < (args.x.size + kMriQBlock - 1) / kMriQBlock) {
    return "the grid must cover the voxels: ceil(voxels / 256) blocks";
  }
  return CheckMriQShape(shape);
}

CARILLON_KERNEL_INFO(
    mri_q, MriQArgs, "Q of magnetic resonance imaging: sums of waves",
    simt::Registers(34)
        .From("Stone et al. 2008, Parboil mri-q (PEP: MRI)")
        .Oracle("NumPy, SciPy")
        .Shared(kMriQBlock * sizeof(MriSample))
        .LeavesTogether()
        .Shape<&CheckMriQShape>()
        .Validate<&CheckMriQ>(),
    CARILLON_PARAM(MriQArgs, samples, "x, y, z and weight of each"),
    CARILLON_PARAM(MriQArgs, x, "of each voxel"),
    CARILLON_PARAM(MriQArgs, y, "of each voxel"),
    CARILLON_PARAM(MriQArgs, z, "of each voxel"),
    CARILLON_PARAM(MriQArgs, real, "receives the real part at each voxel"),
    CARILLON_PARAM(MriQArgs, imaginary,
                   "receives the imaginary part at each voxel"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_MRI_Q_CUH_
