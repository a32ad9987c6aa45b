// SHA-1 (FIPS 180-4) and HMAC-SHA1 (RFC 2104), one message a thread.
#ifndef CARILLON_KERNELS_IPSEC_SHA1_CUH_
#define CARILLON_KERNELS_IPSEC_SHA1_CUH_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/ipsec/words.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels::sha1 {

inline constexpr uint32_t kBlockBytes = 64;
inline constexpr uint32_t kDigestWords = 5;

struct State {
  uint32_t words[kDigestWords];
};

inline constexpr State kInitial = {
    {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};

namespace internal {

CARILLON_HOST_DEVICE constexpr uint32_t Rotate(uint32_t word, uint32_t by) {
  return word << by | word >> (32 - by);
}

// One of 80 steps. Instead of moving a to e on, each step has other names for
// them, and so for the last 16 words of the message schedule.
template <size_t kStep>
CARILLON_HOST_DEVICE constexpr void Step(uint32_t (&v)[5], uint32_t (&w)[16]) {
  const uint32_t a = v[(80 - kStep) % 5];
  uint32_t& b = v[(81 - kStep) % 5];
  const uint32_t c = v[(82 - kStep) % 5];
  const uint32_t d = v[(83 - kStep) % 5];
  uint32_t& e = v[(84 - kStep) % 5];
  uint32_t& word = w[kStep % 16];
  if constexpr (kStep >= 16) {
    word = Rotate(
        w[(kStep + 13) % 16] ^ w[(kStep + 8) % 16] ^ w[(kStep + 2) % 16] ^ word,
        1);
  }
  uint32_t mixed;
  if constexpr (kStep < 20) {
    mixed = (d ^ (b & (c ^ d))) + 0x5a827999;
  } else if constexpr (kStep < 40) {
    mixed = (b ^ c ^ d) + 0x6ed9eba1;
  } else if constexpr (kStep < 60) {
    mixed = ((b & c) | (d & (b | c))) + 0x8f1bbcdc;
  } else {
    mixed = (b ^ c ^ d) + 0xca62c1d6;
  }
  e += Rotate(a, 5) + mixed + word;
  b = Rotate(b, 30);
}

template <size_t... kSteps>
CARILLON_HOST_DEVICE constexpr void Steps(uint32_t (&v)[5], uint32_t (&w)[16],
                                          std::index_sequence<kSteps...>) {
  (Step<kSteps>(v, w), ...);
}

}  // namespace internal

// Adds a block of 16 big-endian words, which it overwrites.
CARILLON_HOST_DEVICE constexpr void Compress(State& state,
                                             uint32_t (&block)[16]) {
  uint32_t v[5] = {state.words[0], state.words[1], state.words[2],
                   state.words[3], state.words[4]};
  internal::Steps(v, block, std::make_index_sequence<80>{});
  for (uint32_t i = 0; i < 5; ++i) state.words[i] += v[i];
}

// How many blocks a message takes with its padding.
CARILLON_HOST_DEVICE constexpr uint32_t PaddedBlocks(uint32_t bytes) {
  return (bytes + 1 + 8 + kBlockBytes - 1) / kBlockBytes;
}

// Block `at` of a padded message that begins at `message`, as words of a
// little-endian machine; `before` bytes were hashed before it. No word is read
// that has no byte of the message.
CARILLON_DEVICE void LoadBlock(const uint32_t* message, uint32_t bytes,
                               uint32_t before, uint32_t at,
                               uint32_t (&block)[16]) {
  const uint32_t first = at * 16;
  if (first * 4 + kBlockBytes <= bytes) {
    for (uint32_t i = 0; i < 16; ++i) {
      block[i] = ipsec::SwapBytes(message[first + i]);
    }
    return;
  }
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t begin = (first + i) * 4;
    uint32_t word = begin < bytes ? ipsec::SwapBytes(message[first + i]) : 0u;
    // The first byte behind the message is 0x80.
    if (begin + 4 > bytes && begin <= bytes) {
      const uint32_t left = 8 * (bytes - begin);
      const uint32_t keep = left == 0 ? 0 : ~0u << (32 - left);
      word = (word & keep) | 0x80000000u >> left;
    }
    block[i] = word;
  }
  if (at + 1 == PaddedBlocks(bytes)) {
    const uint64_t bits = (uint64_t{before} + bytes) * 8;
    block[14] = static_cast<uint32_t>(bits >> 32);
    block[15] = static_cast<uint32_t>(bits);
  }
}

// The digest of what `before` bytes of whole blocks have made `state` of, and
// the message.
CARILLON_DEVICE State Digest(State state, uint32_t before,
                             const uint32_t* message, uint32_t bytes) {
  const uint32_t blocks = PaddedBlocks(bytes);
  for (uint32_t at = 0; at < blocks; ++at) {
    uint32_t block[16];
    LoadBlock(message, bytes, before, at, block);
    Compress(state, block);
  }
  return state;
}

// What HMAC's key makes of the inner and the outer hash.
struct HmacKey {
  State inner;
  State outer;
};

// For the host. `key` has at most 64 bytes.
constexpr HmacKey MakeHmacKey(const uint8_t* key, uint32_t bytes) {
  HmacKey made{kInitial, kInitial};
  for (State* const state : {&made.inner, &made.outer}) {
    const uint8_t pad = state == &made.inner ? 0x36 : 0x5c;
    uint32_t block[16] = {};
    for (uint32_t i = 0; i < kBlockBytes; ++i) {
      const uint8_t byte = static_cast<uint8_t>((i < bytes ? key[i] : 0) ^ pad);
      block[i / 4] = block[i / 4] << 8 | byte;
    }
    Compress(*state, block);
  }
  return made;
}

// The message's HMAC. The digest's words are big-endian.
CARILLON_DEVICE State Hmac(const HmacKey& key, const uint32_t* message,
                           uint32_t bytes) {
  State state = key.inner;
  const uint32_t blocks = PaddedBlocks(bytes);
  // The outer hash is one block more in the same loop: so there is one copy of
  // the 80 steps.
  for (uint32_t at = 0; at <= blocks; ++at) {
    uint32_t block[16];
    if (at < blocks) {
      LoadBlock(message, bytes, kBlockBytes, at, block);
    } else {
      for (uint32_t i = 0; i < 16; ++i) {
        block[i] = i < kDigestWords ? state.words[i] : 0;
      }
      block[kDigestWords] = 0x80000000u;
      block[15] = 8 * (kBlockBytes + 4 * kDigestWords);
      state = key.outer;
    }
    Compress(state, block);
  }
  return state;
}

}  // namespace carillon::kernels::sha1

#endif  // CARILLON_KERNELS_IPSEC_SHA1_CUH_
