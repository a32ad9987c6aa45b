// fig_ipsec, fig_ipsec_shared: triple DES (SP 800-67: encrypt, decrypt,
// encrypt) of packets of 256 bytes in ECB mode, a packet a warp, a block of 8
// bytes a thread. Event kernels of EDGE's figures.
//
// The S-boxes are 8 tables of 64 words (des.cuh). fig_ipsec reads them where they
// are, as an event that takes a running warp's place has no shared memory (EDGE
// IV-C); fig_ipsec_shared copies them into its block's first.
#ifndef CARILLON_KERNELS_PAPER_FIG_IPSEC_CUH_
#define CARILLON_KERNELS_PAPER_FIG_IPSEC_CUH_

#include "kernels/ipsec/des.cuh"
#include "kernels/paper/fig_forward.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigIpsecWords = 2 * simt::kWarpSize;  // a packet

struct FigIpsecArgs {
  simt::Span<const uint32_t> in;
  simt::Span<uint32_t> out;
  simt::Span<const uint32_t> tables;
  simt::Span<const uint32_t> keys;
  uint32_t count;
};

CARILLON_HOST_DEVICE bool FigIpsecFits(const FigIpsecArgs& args) {
  return args.in.size / kFigIpsecWords >= args.count &&
         args.out.size / kFigIpsecWords >= args.count &&
         args.tables.size >= des::kTableWords &&
         args.keys.size >= des::kKeyWords;
}

namespace fig_ipsec {

// Encrypts one block of 8 bytes. des::Crypt() does the same, but the figures are
// calibrated with what nvcc makes of this.
CARILLON_DEVICE void Encrypt(const uint32_t* tables, const uint32_t* key,
                             const uint32_t* in, uint32_t* out) {
  using des::Round;
  using des::SwapBits;
  uint32_t left = FigSwap(in[0]);
  uint32_t right = FigSwap(in[1]);
  // The initial permutation.
  SwapBits(left, right, 4, 0x0f0f0f0f);
  SwapBits(left, right, 16, 0x0000ffff);
  SwapBits(right, left, 2, 0x33333333);
  SwapBits(right, left, 8, 0x00ff00ff);
  SwapBits(left, right, 1, 0x55555555);
  for (uint32_t pass = 0; pass < 3; ++pass) {
    for (uint32_t round = 0; round < 16; round += 2) {
      left ^= Round(tables, right, key);
      right ^= Round(tables, left, key + 2);
      key += 4;
    }
    // The last round does not exchange the halves. Between passes the final
    // permutation and the initial one cancel.
    const uint32_t last = left;
    left = right;
    right = last;
  }
  SwapBits(left, right, 1, 0x55555555);
  SwapBits(right, left, 8, 0x00ff00ff);
  SwapBits(right, left, 2, 0x33333333);
  SwapBits(left, right, 16, 0x0000ffff);
  SwapBits(left, right, 4, 0x0f0f0f0f);
  out[0] = FigSwap(left);
  out[1] = FigSwap(right);
}

}  // namespace fig_ipsec

CARILLON_KERNEL(fig_ipsec, FigIpsecArgs, args, self) {
  if (self.block_dim() != simt::Dim3{simt::kWarpSize, 1, 1} ||
      self.grid_dim().y != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (!FigIpsecFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  if (self.block_index().x >= args.count) return;
  const uint64_t at = self.global_x() * 2;
  fig_ipsec::Encrypt(args.tables.data, args.keys.data, args.in.data + at,
                     args.out.data + at);
}

CARILLON_BARRIER_KERNEL(fig_ipsec_shared, FigIpsecArgs, args, self) {
  if (self.block_dim() != simt::Dim3{simt::kWarpSize, 1, 1} ||
      self.grid_dim().y != 1 || self.grid_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigIpsecFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  if (self.block_index().x >= args.count) CARILLON_EXIT;
  uint32_t* tables = self.shared<uint32_t>(0, des::kTableWords);
  for (uint32_t i = self.lane(); i < des::kTableWords; i += simt::kWarpSize) {
    tables[i] = args.tables[i];
  }
  CARILLON_SYNC_THREADS(self);
  const uint64_t at = self.global_x() * 2;
  fig_ipsec::Encrypt(tables, args.keys.data, args.in.data + at,
                     args.out.data + at);
}

inline const char* CheckFigIpsecShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{simt::kWarpSize, 1, 1} &&
                 shape.grid.y == 1 && shape.grid.z == 1
             ? nullptr
             : "the grid has a block of 32x1x1 threads a packet";
}

inline const char* CheckFigIpsec(const simt::LaunchShape& shape,
                                 const FigIpsecArgs& args) {
  if (!FigIpsecFits(args)) {
    return "in and out must have 64 words a packet, tables 512, keys 96";
  }
  if (shape.grid.x < args.count) return "the grid must have a block a packet";
  return CheckFigIpsecShape(shape);
}

#define CARILLON_FIG_IPSEC_PARAMS                                    \
  CARILLON_PARAM(FigIpsecArgs, in,                                   \
                 "64 words a packet, as they were received"),        \
      CARILLON_PARAM(FigIpsecArgs, out,                              \
                     "receives them, encrypted; may be `in`"),       \
      CARILLON_PARAM(FigIpsecArgs, tables, "S1..S8, 64 words each"), \
      CARILLON_PARAM(FigIpsecArgs, keys, "two words a round"),       \
      CARILLON_PARAM(FigIpsecArgs, count, "packets")

CARILLON_KERNEL_INFO(
    fig_ipsec, FigIpsecArgs, "triple DES of packets of 256 bytes",
    simt::Registers(30).Shape<&CheckFigIpsecShape>().Validate<&CheckFigIpsec>(),
    CARILLON_FIG_IPSEC_PARAMS);

CARILLON_KERNEL_INFO(fig_ipsec_shared, FigIpsecArgs,
                     "triple DES of packets of 256 bytes, by shared tables",
                     simt::Registers(27)
                         .Shared(des::kTableWords * sizeof(uint32_t))
                         .LeavesTogether()
                         .Shape<&CheckFigIpsecShape>()
                         .Validate<&CheckFigIpsec>(),
                     CARILLON_FIG_IPSEC_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_IPSEC_CUH_
