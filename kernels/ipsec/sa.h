// Makes SAs of keys, on the host.
#ifndef CARILLON_KERNELS_IPSEC_SA_H_
#define CARILLON_KERNELS_IPSEC_SA_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ipsec/wire.h"

namespace carillon::ipsec {

struct SaSpec {
  uint32_t spi = 0;  // at least 256 (RFC 4303 2.1)
  Suite suite = Suite::kNone;
  Direction direction = Direction::kNone;
  // The tunnel's ends: 4 bytes each, or 16 each, in the order of the network.
  std::span<const uint8_t> local;
  std::span<const uint8_t> peer;
  // 3DES: 24 bytes, whose parity bits do not count. AES-128-GCM: the 16 bytes of
  // the key and the 4 of the salt, as key management gives them (RFC 4106 8.1).
  std::span<const uint8_t> cipher_key;
  std::span<const uint8_t> integrity_key;  // 3DES: 20 bytes (RFC 2404)
};

// An SA that has sent and received nothing. Its key must be new: a kernel makes
// IVs of sequence numbers, which begin at 1. Errors: InvalidArgument.
absl::StatusOr<Sa> MakeSa(const SaSpec& spec);

// Lets an SA go on behind a number: an outbound one sends number + 1 next, an
// inbound one takes no number up to it.
void BeginAfter(uint32_t number, Sa* sa);

// Names a cipher key without telling it: 40 hex digits, the same for equal keys
// only. The parity bits of 3DES do not count.
std::string FingerprintOf(const SaSpec& spec);

}  // namespace carillon::ipsec

#endif  // CARILLON_KERNELS_IPSEC_SA_H_
