// GHASH (NIST SP 800-38D): a hash by multiplication in GF(2^128).
//
// It needs no tables: a product without carries comes of integer products whose
// operands have three zero bits between any two others, so that no carry reaches
// a bit that counts. The time does not depend on the numbers.
//
// A warp hashes a message of n blocks X[0..n) with the powers H^1..H^32. Zero
// blocks before the first change nothing, so let n be a multiple of 32. Lane k
// computes with Y = Y * H^32 + X[i] what its blocks k, k + 32, ... make, and
// multiplies it by H^(32 - k). The sum of all lanes is the hash.
#ifndef CARILLON_KERNELS_IPSEC_GHASH_CUH_
#define CARILLON_KERNELS_IPSEC_GHASH_CUH_

#include <cstdint>

#include "kernels/simt/simt.h"

namespace carillon::kernels::ghash {

// A polynomial. The coefficient of x^0 is the highest bit of `high`: the block's
// 16 bytes as two big-endian numbers.
struct Element {
  uint64_t high;
  uint64_t low;
};

inline constexpr uint32_t kPowers = simt::kWarpSize;

namespace internal {

CARILLON_HOST_DEVICE uint64_t ReverseBits(uint64_t word) {
#if defined(__CUDA_ARCH__)
  return __brevll(word);
#else
  const auto swap = [](uint64_t bits, uint32_t by, uint64_t mask) {
    return (bits >> by & mask) | (bits & mask) << by;
  };
  word = swap(word, 1, 0x5555555555555555);
  word = swap(word, 2, 0x3333333333333333);
  word = swap(word, 4, 0x0f0f0f0f0f0f0f0f);
  return __builtin_bswap64(word);
#endif
}

// The coefficients of x^0 to x^63 of the product, where x^0 is the lowest bit.
CARILLON_HOST_DEVICE uint64_t LowProduct(uint64_t a, uint64_t b) {
  constexpr uint64_t kEveryFourth = 0x1111111111111111;
  const uint64_t a0 = a & kEveryFourth;
  const uint64_t a1 = a & kEveryFourth << 1;
  const uint64_t a2 = a & kEveryFourth << 2;
  const uint64_t a3 = a & kEveryFourth << 3;
  const uint64_t b0 = b & kEveryFourth;
  const uint64_t b1 = b & kEveryFourth << 1;
  const uint64_t b2 = b & kEveryFourth << 2;
  const uint64_t b3 = b & kEveryFourth << 3;
  const uint64_t c0 = (a0 * b0) ^ (a1 * b3) ^ (a2 * b2) ^ (a3 * b1);
  const uint64_t c1 = (a0 * b1) ^ (a1 * b0) ^ (a2 * b3) ^ (a3 * b2);
  const uint64_t c2 = (a0 * b2) ^ (a1 * b1) ^ (a2 * b0) ^ (a3 * b3);
  const uint64_t c3 = (a0 * b3) ^ (a1 * b2) ^ (a2 * b1) ^ (a3 * b0);
  return (c0 & kEveryFourth) | (c1 & kEveryFourth << 1) |
         (c2 & kEveryFourth << 2) | (c3 & kEveryFourth << 3);
}

}  // namespace internal

CARILLON_HOST_DEVICE Element Add(const Element& a, const Element& b) {
  return {a.high ^ b.high, a.low ^ b.low};
}

CARILLON_HOST_DEVICE Element Multiply(const Element& a, const Element& b) {
  using internal::LowProduct;
  using internal::ReverseBits;
  // With the numbers as they are, a product's low half has its high
  // coefficients, and with their bits reversed the low ones. Karatsuba: the sum
  // of both middle products is that of the sums, less the two others.
  const uint64_t ar_high = ReverseBits(a.high);
  const uint64_t ar_low = ReverseBits(a.low);
  const uint64_t br_high = ReverseBits(b.high);
  const uint64_t br_low = ReverseBits(b.low);
  const uint64_t low = LowProduct(a.low, b.low);
  const uint64_t high = LowProduct(a.high, b.high);
  const uint64_t middle =
      LowProduct(a.low ^ a.high, b.low ^ b.high) ^ low ^ high;
  const uint64_t low_r = LowProduct(ar_low, br_low);
  const uint64_t high_r = LowProduct(ar_high, br_high);
  const uint64_t middle_r =
      LowProduct(ar_low ^ ar_high, br_low ^ br_high) ^ low_r ^ high_r;
  // The product has 255 bits. Shifted left by one it has its lowest coefficient
  // in the highest bit, as an Element; p3 is the highest word.
  const uint64_t p0 = low << 1;
  uint64_t p1 = ReverseBits(low_r) ^ middle << 1;
  uint64_t p2 = ReverseBits(middle_r) ^ high << 1;
  uint64_t p3 = ReverseBits(high_r);
  // x^128 = 1 + x + x^2 + x^7.
  p2 ^= p0 ^ p0 >> 1 ^ p0 >> 2 ^ p0 >> 7;
  p1 ^= p0 << 63 ^ p0 << 62 ^ p0 << 57;
  p3 ^= p1 ^ p1 >> 1 ^ p1 >> 2 ^ p1 >> 7;
  p2 ^= p1 << 63 ^ p1 << 62 ^ p1 << 57;
  return {p3, p2};
}

// For the host: H^1 to H^32.
inline void MakePowers(const Element& h, Element (&powers)[kPowers]) {
  powers[0] = h;
  for (uint32_t i = 1; i < kPowers; ++i) {
    powers[i] = Multiply(powers[i - 1], h);
  }
}

// What one lane adds to the hash of `count` blocks; block(i) is one of them.
template <class Get>
CARILLON_DEVICE Element LaneSum(const Element* powers, uint32_t lane,
                                uint32_t count, Get block) {
  const uint32_t zeros = (kPowers - count % kPowers) % kPowers;
  Element sum{0, 0};
  bool any = false;
  for (uint32_t at = lane; at < count + zeros; at += kPowers) {
    if (at < zeros) continue;
    if (any) sum = Multiply(sum, powers[kPowers - 1]);
    sum = Add(sum, block(at - zeros));
    any = true;
  }
  return any ? Multiply(sum, powers[kPowers - 1 - lane]) : sum;
}

}  // namespace carillon::kernels::ghash

#endif  // CARILLON_KERNELS_IPSEC_GHASH_CUH_
