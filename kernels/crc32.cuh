// crc32: the CRC-32 (IEEE 802.3) of every message of a batch, one message a
// thread.
#ifndef CARILLON_KERNELS_CRC32_CUH_
#define CARILLON_KERNELS_CRC32_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct Crc32Args {
  simt::Span<const uint8_t> messages;  // one after the other
  uint32_t message_bytes;
  simt::Span<uint32_t> crcs;
};

CARILLON_KERNEL(crc32, Crc32Args, args, self) {
  const uint64_t i = self.global_x();
  if (i >= args.crcs.size) return;
  if (!args.messages.InBounds(i * args.message_bytes, args.message_bytes)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  uint32_t crc = ~0u;
  for (uint32_t byte = 0; byte < args.message_bytes; ++byte) {
    crc ^= args.messages[i * args.message_bytes + byte];
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  args.crcs[i] = ~crc;
}

CARILLON_KERNEL_INFO(
    crc32, Crc32Args, "CRC-32 of every message of a batch, one a thread",
    simt::Registers(22).From("IEEE 802.3").Oracle("zlib"),
    CARILLON_PARAM(Crc32Args, messages, "the messages, without gaps"),
    CARILLON_PARAM(Crc32Args, message_bytes, "bytes of each message"),
    CARILLON_PARAM(Crc32Args, crcs, "receives one CRC a message"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_CRC32_CUH_
