// triple_des: triple DES of a packet in ECB mode, each 8 bytes by themselves
// (Pagoda's 3DES; FIPS 46-3, SP 800-67). ECB hides no pattern of the packet: it is
// here as the published workload, not to protect anything. The grid may have any
// size: threads go on in steps of the grid's size.
#ifndef CARILLON_KERNELS_NARROW_TRIPLE_DES_CUH_
#define CARILLON_KERNELS_NARROW_TRIPLE_DES_CUH_

#include "kernels/ipsec/des.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct TripleDesArgs {
  simt::Span<const uint32_t> keys;
  simt::Span<const uint32_t> packet;
  simt::Span<uint32_t> out;
  uint32_t bytes;
};

CARILLON_HOST_DEVICE bool TripleDesFits(const TripleDesArgs& args) {
  const uint64_t words = args.bytes / sizeof(uint32_t);
  return args.bytes != 0 && args.bytes % des::kBlockBytes == 0 &&
         args.keys.size >= des::kKeyWords && args.packet.size >= words &&
         args.out.size >= words;
}

CARILLON_KERNEL(triple_des, TripleDesArgs, args, self) {
  if (!TripleDesFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t blocks = args.bytes / des::kBlockBytes;
  for (uint64_t i = self.global_linear(); i < blocks;
       i += self.grid_threads()) {
    des::StoreBlock(des::CryptOne(des::Tables(), args.keys.data,
                                  des::LoadBlock(args.packet.data + 2 * i)),
                    args.out.data + 2 * i);
  }
}

inline const char* CheckTripleDes(const simt::LaunchShape&,
                                  const TripleDesArgs& args) {
  return TripleDesFits(args)
             ? nullptr
             : "bytes must be a multiple of 8 and not 0; packet and out must "
               "have as many, keys 96 words";
}

CARILLON_KERNEL_INFO(
    triple_des, TripleDesArgs, "triple DES of a packet: a narrow task",
    simt::Registers(32)
        .From("SP 800-67, ECB (Pagoda: 3DES)")
        .Oracle("OpenSSL")
        .LaunchedOnly()
        .Validate<&CheckTripleDes>(),
    CARILLON_PARAM(TripleDesArgs, keys,
                   "96 words, of des::EncryptKeys() or DecryptKeys()"),
    CARILLON_PARAM(TripleDesArgs, packet, "the packet"),
    CARILLON_PARAM(TripleDesArgs, out, "receives as many bytes; may be packet"),
    CARILLON_PARAM(TripleDesArgs, bytes, "of the packet, a multiple of 8"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_TRIPLE_DES_CUH_
