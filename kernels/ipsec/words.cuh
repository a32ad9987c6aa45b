// Words in the order of the network.
#ifndef CARILLON_KERNELS_IPSEC_WORDS_CUH_
#define CARILLON_KERNELS_IPSEC_WORDS_CUH_

#include <cstdint>

#include "kernels/simt/simt.h"

namespace carillon::ipsec {

// A big-endian word as a little-endian machine reads it, as a number; and back.
CARILLON_HOST_DEVICE constexpr uint32_t SwapBytes(uint32_t word) {
  return word >> 24 | (word >> 8 & 0xff00) | (word & 0xff00) << 8 | word << 24;
}

}  // namespace carillon::ipsec

#endif  // CARILLON_KERNELS_IPSEC_WORDS_CUH_
