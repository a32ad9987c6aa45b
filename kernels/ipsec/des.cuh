// DES and triple DES (FIPS 46-3, SP 800-67), one or more blocks a thread.
//
// The S-boxes with the permutation P behind them are 8 tables of 64 words. A
// block's shared memory may hold a copy of them.
#ifndef CARILLON_KERNELS_IPSEC_DES_CUH_
#define CARILLON_KERNELS_IPSEC_DES_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/ipsec/words.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels::des {

inline constexpr uint32_t kBoxWords = 64;
inline constexpr uint32_t kTableWords = 8 * kBoxWords;
inline constexpr uint32_t kBlockBytes = 8;
inline constexpr uint32_t kKeyBytes = 24;
inline constexpr uint32_t kKeyWords = 96;  // 48 rounds, two words each

// What the rounds of triple DES use of a key, in the order of the rounds.
struct RoundKeys {
  uint32_t words[kKeyWords];
};

namespace internal {

// FIPS 46-3. Bits count from 1, the highest.

constexpr uint8_t kBoxes[8][4][16] = {
    {{14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7},
     {0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8},
     {4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0},
     {15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13}},
    {{15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10},
     {3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5},
     {0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15},
     {13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9}},
    {{10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8},
     {13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1},
     {13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7},
     {1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12}},
    {{7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15},
     {13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9},
     {10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4},
     {3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14}},
    {{2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9},
     {14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6},
     {4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14},
     {11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3}},
    {{12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11},
     {10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8},
     {9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6},
     {4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13}},
    {{4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1},
     {13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6},
     {1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2},
     {6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12}},
    {{13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7},
     {1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2},
     {7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8},
     {2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11}}};

constexpr uint8_t kP[32] = {16, 7, 20, 21, 29, 12, 28, 17, 1,  15, 23,
                            26, 5, 18, 31, 10, 2,  8,  24, 14, 32, 27,
                            3,  9, 19, 13, 30, 6,  22, 11, 4,  25};

// Permuted choice 1, its halves C and D; and 2, out of both.
constexpr uint8_t kC[28] = {57, 49, 41, 33, 25, 17, 9,  1,  58, 50,
                            42, 34, 26, 18, 10, 2,  59, 51, 43, 35,
                            27, 19, 11, 3,  60, 52, 44, 36};
constexpr uint8_t kD[28] = {63, 55, 47, 39, 31, 23, 15, 7,  62, 54,
                            46, 38, 30, 22, 14, 6,  61, 53, 45, 37,
                            29, 21, 13, 5,  28, 20, 12, 4};
constexpr uint8_t kChoice2[48] = {
    14, 17, 11, 24, 1,  5,  3,  28, 15, 6,  21, 10, 23, 19, 12, 4,
    26, 8,  16, 7,  27, 20, 13, 2,  41, 52, 31, 37, 47, 55, 30, 40,
    51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32};
constexpr uint8_t kShifts[16] = {1, 1, 2, 2, 2, 2, 2, 2,
                                 1, 2, 2, 2, 2, 2, 2, 1};

struct SpTables {
  uint32_t words[kTableWords];
};

constexpr SpTables MakeSpTables() {
  SpTables tables{};
  for (uint32_t box = 0; box < 8; ++box) {
    for (uint32_t value = 0; value < kBoxWords; ++value) {
      const uint32_t row = (value >> 4 & 2) | (value & 1);
      const uint32_t out = kBoxes[box][row][value >> 1 & 15];
      const uint32_t before = out << (28 - 4 * box);
      uint32_t after = 0;
      for (const uint8_t bit : kP) {
        after = after << 1 | (before >> (32 - bit) & 1);
      }
      tables.words[box * kBoxWords + value] = after;
    }
  }
  return tables;
}

inline constexpr SpTables kSpTables = MakeSpTables();

constexpr uint32_t Choose(uint64_t key, const uint8_t (&bits)[28]) {
  uint32_t half = 0;
  for (const uint8_t bit : bits) {
    half = half << 1 | static_cast<uint32_t>(key >> (64 - bit) & 1);
  }
  return half;
}

// The keys of DES's 16 rounds: of each, first the word for S1, S3, S5, S7, at
// 26, 18, 10 and 2, then the one for S2, S4, S6, S8.
constexpr void Schedule(const uint8_t* bytes, uint32_t (&rounds)[16][2]) {
  uint64_t key = 0;
  for (uint32_t i = 0; i < 8; ++i) key = key << 8 | bytes[i];
  uint32_t c = Choose(key, kC);
  uint32_t d = Choose(key, kD);
  for (uint32_t round = 0; round < 16; ++round) {
    const uint32_t by = kShifts[round];
    const uint32_t mask = (1u << 28) - 1;
    c = (c << by | c >> (28 - by)) & mask;
    d = (d << by | d >> (28 - by)) & mask;
    const uint64_t both = static_cast<uint64_t>(c) << 28 | d;
    rounds[round][0] = rounds[round][1] = 0;
    for (uint32_t i = 0; i < 48; ++i) {
      const uint32_t bit = both >> (56 - kChoice2[i]) & 1;
      const uint32_t box = i / 6;
      rounds[round][box % 2] |= bit << (26 - box / 2 * 8 + 5 - i % 6);
    }
  }
}

}  // namespace internal

// The kTableWords words of S1 to S8, in global memory. A local variable, since
// nvcc would name another one after the folder in which it runs.
CARILLON_DEVICE const uint32_t* Tables() {
  static constexpr internal::SpTables kTables = internal::kSpTables;
  return kTables.words;
}

// For the host. `key` has kKeyBytes bytes, whose parity bits do not count. To
// decrypt is to encrypt with the rounds' keys in reverse order.
constexpr RoundKeys EncryptKeys(const uint8_t* key) {
  uint32_t rounds[3][16][2] = {};
  for (uint32_t i = 0; i < 3; ++i) internal::Schedule(key + 8 * i, rounds[i]);
  RoundKeys keys{};
  for (uint32_t i = 0; i < kKeyWords; ++i) {
    const uint32_t round = i / 2 % 16;
    keys.words[i] = rounds[i / 32][i / 32 == 1 ? 15 - round : round][i % 2];
  }
  return keys;
}
constexpr RoundKeys DecryptKeys(const uint8_t* key) {
  const RoundKeys encrypt = EncryptKeys(key);
  RoundKeys keys{};
  for (uint32_t i = 0; i < kKeyWords; ++i) {
    keys.words[i] = encrypt.words[(kKeyWords / 2 - 1 - i / 2) * 2 + i % 2];
  }
  return keys;
}

// A block as two numbers; the first byte is the highest of `left`.
struct Block {
  uint32_t left;
  uint32_t right;
};

using ipsec::SwapBytes;
// Of and to 8 bytes in memory, as two words of a little-endian machine.
CARILLON_DEVICE Block LoadBlock(const uint32_t* words) {
  return {SwapBytes(words[0]), SwapBytes(words[1])};
}
CARILLON_DEVICE void StoreBlock(const Block& block, uint32_t* words) {
  words[0] = SwapBytes(block.left);
  words[1] = SwapBytes(block.right);
}

// Exchanges the bits of `mask` in b with those `shift` higher in a.
CARILLON_DEVICE void SwapBits(uint32_t& a, uint32_t& b, uint32_t shift,
                              uint32_t mask) {
  const uint32_t differ = (a >> shift ^ b) & mask;
  b ^= differ;
  a ^= differ << shift;
}

// The change of one half in a round, computed from the other half: E, the key,
// the S-boxes, P. Rotated right by 1, a half has the 6 bits of S1, S3, S5 and
// S7 at 26, 18, 10 and 2; rotated left by 3, those of S2, S4, S6 and S8.
CARILLON_DEVICE uint32_t Round(const uint32_t* tables, uint32_t half,
                               const uint32_t* key) {
  const uint32_t odd = (half >> 1 | half << 31) ^ key[0];
  const uint32_t even = (half << 3 | half >> 29) ^ key[1];
  return tables[odd >> 26] ^ tables[kBoxWords + (even >> 26)] ^
         tables[2 * kBoxWords + (odd >> 18 & 63)] ^
         tables[3 * kBoxWords + (even >> 18 & 63)] ^
         tables[4 * kBoxWords + (odd >> 10 & 63)] ^
         tables[5 * kBoxWords + (even >> 10 & 63)] ^
         tables[6 * kBoxWords + (odd >> 2 & 63)] ^
         tables[7 * kBoxWords + (even >> 2 & 63)];
}

// Triple DES of kBlocks independent blocks, each with rounds' keys of its own,
// made by EncryptKeys() or DecryptKeys(). Several at a time keep a core busy while
// lookups are under way.
template <uint32_t kBlocks>
CARILLON_DEVICE void Crypt(const uint32_t* tables,
                           const uint32_t* const (&keys)[kBlocks],
                           Block (&blocks)[kBlocks]) {
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kBlocks; ++i) {
    uint32_t& left = blocks[i].left;
    uint32_t& right = blocks[i].right;
    // The initial permutation.
    SwapBits(left, right, 4, 0x0f0f0f0f);
    SwapBits(left, right, 16, 0x0000ffff);
    SwapBits(right, left, 2, 0x33333333);
    SwapBits(right, left, 8, 0x00ff00ff);
    SwapBits(left, right, 1, 0x55555555);
  }
  uint32_t at = 0;
  for (uint32_t pass = 0; pass < 3; ++pass) {
    for (uint32_t round = 0; round < 16; round += 2) {
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kBlocks; ++i) {
        blocks[i].left ^= Round(tables, blocks[i].right, keys[i] + at);
      }
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kBlocks; ++i) {
        blocks[i].right ^= Round(tables, blocks[i].left, keys[i] + at + 2);
      }
      at += 4;
    }
    // The last round does not exchange the halves. Between passes the final
    // permutation and the initial one cancel.
    CARILLON_UNROLL
    for (uint32_t i = 0; i < kBlocks; ++i) {
      blocks[i] = {blocks[i].right, blocks[i].left};
    }
  }
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kBlocks; ++i) {
    uint32_t& left = blocks[i].left;
    uint32_t& right = blocks[i].right;
    SwapBits(left, right, 1, 0x55555555);
    SwapBits(right, left, 8, 0x00ff00ff);
    SwapBits(right, left, 2, 0x33333333);
    SwapBits(left, right, 16, 0x0000ffff);
    SwapBits(left, right, 4, 0x0f0f0f0f);
  }
}

// The same with one key.
template <uint32_t kBlocks>
CARILLON_DEVICE void Crypt(const uint32_t* tables, const uint32_t* keys,
                           Block (&blocks)[kBlocks]) {
  const uint32_t* same[kBlocks];
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kBlocks; ++i) same[i] = keys;
  Crypt(tables, same, blocks);
}

CARILLON_DEVICE Block CryptOne(const uint32_t* tables, const uint32_t* keys,
                               Block block) {
  Block blocks[1] = {block};
  Crypt(tables, keys, blocks);
  return blocks[0];
}

}  // namespace carillon::kernels::des

#endif  // CARILLON_KERNELS_IPSEC_DES_CUH_
