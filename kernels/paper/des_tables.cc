#include "kernels/paper/des_tables.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace carillon::kernels {
namespace {

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

struct RoundKey {
  uint32_t odd;   // for S1, S3, S5, S7, at 26, 18, 10 and 2
  uint32_t even;  // for S2, S4, S6, S8
};

uint32_t Choose(uint64_t key, const uint8_t (&bits)[28]) {
  uint32_t half = 0;
  for (const uint8_t bit : bits) {
    half = half << 1 | static_cast<uint32_t>(key >> (64 - bit) & 1);
  }
  return half;
}

std::array<RoundKey, 16> Schedule(std::span<const uint8_t, 8> bytes) {
  uint64_t key = 0;
  for (const uint8_t byte : bytes) key = key << 8 | byte;
  uint32_t c = Choose(key, kC);
  uint32_t d = Choose(key, kD);
  std::array<RoundKey, 16> rounds = {};
  for (size_t round = 0; round < rounds.size(); ++round) {
    const uint32_t by = kShifts[round];
    const uint32_t mask = (1u << 28) - 1;
    c = (c << by | c >> (28 - by)) & mask;
    d = (d << by | d >> (28 - by)) & mask;
    const uint64_t both = static_cast<uint64_t>(c) << 28 | d;
    for (size_t i = 0; i < 48; ++i) {
      const uint32_t bit = both >> (56 - kChoice2[i]) & 1;
      const size_t box = i / 6;
      uint32_t& word = box % 2 == 0 ? rounds[round].odd : rounds[round].even;
      word |= bit << (26 - box / 2 * 8 + 5 - i % 6);
    }
  }
  return rounds;
}

std::vector<uint32_t> Flatten(const std::vector<RoundKey>& rounds) {
  std::vector<uint32_t> words;
  for (const RoundKey& round : rounds) {
    words.push_back(round.odd);
    words.push_back(round.even);
  }
  return words;
}

std::vector<RoundKey> EncryptRounds(const TripleDesKey& key) {
  const std::span all(key);
  const auto first = Schedule(all.subspan<0, 8>());
  const auto second = Schedule(all.subspan<8, 8>());
  const auto third = Schedule(all.subspan<16, 8>());
  std::vector<RoundKey> rounds(first.begin(), first.end());
  rounds.insert(rounds.end(), second.rbegin(), second.rend());
  rounds.insert(rounds.end(), third.begin(), third.end());
  return rounds;
}

}  // namespace

std::vector<uint32_t> DesTables() {
  std::vector<uint32_t> tables(kFigDesTables);
  for (uint32_t box = 0; box < 8; ++box) {
    for (uint32_t value = 0; value < kFigDesTable; ++value) {
      const uint32_t row = (value >> 4 & 2) | (value & 1);
      const uint32_t out = kBoxes[box][row][value >> 1 & 15];
      const uint32_t before = out << (28 - 4 * box);
      uint32_t after = 0;
      for (const uint8_t bit : kP) {
        after = after << 1 | (before >> (32 - bit) & 1);
      }
      tables[box * kFigDesTable + value] = after;
    }
  }
  return tables;
}

std::vector<uint32_t> TripleDesEncryptKeys(const TripleDesKey& key) {
  return Flatten(EncryptRounds(key));
}

std::vector<uint32_t> TripleDesDecryptKeys(const TripleDesKey& key) {
  std::vector<RoundKey> rounds = EncryptRounds(key);
  std::ranges::reverse(rounds);
  return Flatten(rounds);
}

}  // namespace carillon::kernels
