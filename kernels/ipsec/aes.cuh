// AES-128 (FIPS 197), encryption, one block a thread: all that counter modes
// need.
//
// SubBytes, ShiftRows and MixColumns are one table of 256 words and rotations of
// it, as in the algorithm's proposal (Daemen, Rijmen).
#ifndef CARILLON_KERNELS_IPSEC_AES_CUH_
#define CARILLON_KERNELS_IPSEC_AES_CUH_

#include <cstdint>

#include "kernels/simt/simt.h"

namespace carillon::kernels::aes {

inline constexpr uint32_t kBlockBytes = 16;
inline constexpr uint32_t kKeyBytes = 16;
inline constexpr uint32_t kRounds = 10;
inline constexpr uint32_t kKeyWords = 4 * (kRounds + 1);
inline constexpr uint32_t kTableWords = 256;

struct RoundKeys {
  uint32_t words[kKeyWords];
};

// Its columns, big-endian.
struct Block {
  uint32_t words[4];
};

namespace internal {

constexpr uint8_t Times2(uint8_t value) {
  return static_cast<uint8_t>(value << 1 ^ (value >> 7) * 0x1b);
}

// The column that the S-box's output makes in row 0: {2, 1, 1, 3} times it.
struct Table {
  uint32_t words[kTableWords];
};

constexpr Table MakeTable() {
  Table table{};
  // 3 generates all elements but 0; `inverse` is that of `value`.
  uint8_t value = 1;
  uint8_t inverse = 1;
  const auto put = [&table](uint8_t at, uint8_t of) {
    const auto rotated = [of](uint32_t by) {
      return static_cast<uint32_t>(of << by | of >> (8 - by));
    };
    const uint8_t out = static_cast<uint8_t>(of ^ rotated(1) ^ rotated(2) ^
                                             rotated(3) ^ rotated(4) ^ 0x63);
    const uint32_t twice = Times2(out);
    table.words[at] =
        twice << 24 | uint32_t{out} << 16 | uint32_t{out} << 8 | (twice ^ out);
  };
  put(0, 0);
  do {
    put(value, inverse);
    value = static_cast<uint8_t>(value ^ Times2(value));
    // Times 0xf6, which is 1/3.
    uint8_t next = 0;
    for (uint32_t bit = 8; bit-- > 0;) {
      next = Times2(next);
      if ((0xf6u >> bit & 1) != 0) next ^= inverse;
    }
    inverse = next;
  } while (value != 1);
  return table;
}

inline constexpr Table kTable = MakeTable();

CARILLON_HOST_DEVICE constexpr uint32_t Rotate(uint32_t word, uint32_t by) {
  return word >> by | word << (32 - by);
}

}  // namespace internal

// The table, in global memory. A local variable, since nvcc would name another
// one after the folder in which it runs.
CARILLON_DEVICE const uint32_t* Tables() {
  static constexpr internal::Table kTable = internal::kTable;
  return kTable.words;
}

// For the host. `key` has kKeyBytes bytes.
constexpr RoundKeys EncryptKeys(const uint8_t* key) {
  const auto box = [](uint32_t byte) {
    return internal::kTable.words[byte & 0xff] >> 8 & 0xff;
  };
  RoundKeys keys{};
  for (uint32_t i = 0; i < kKeyBytes; ++i) {
    keys.words[i / 4] = keys.words[i / 4] << 8 | key[i];
  }
  uint8_t constant = 1;
  for (uint32_t i = 4; i < kKeyWords; ++i) {
    uint32_t word = keys.words[i - 1];
    if (i % 4 == 0) {
      word = box(word >> 16) << 24 | box(word >> 8) << 16 | box(word) << 8 |
             box(word >> 24);
      word ^= uint32_t{constant} << 24;
      constant = internal::Times2(constant);
    }
    keys.words[i] = keys.words[i - 4] ^ word;
  }
  return keys;
}

CARILLON_DEVICE Block Encrypt(const uint32_t* table, const uint32_t* keys,
                              Block block) {
  using internal::Rotate;
  CARILLON_UNROLL
  for (uint32_t i = 0; i < 4; ++i) block.words[i] ^= keys[i];
  for (uint32_t round = 1; round < kRounds; ++round) {
    Block next;
    CARILLON_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      next.words[i] = table[block.words[i] >> 24] ^
                      Rotate(table[block.words[(i + 1) % 4] >> 16 & 0xff], 8) ^
                      Rotate(table[block.words[(i + 2) % 4] >> 8 & 0xff], 16) ^
                      Rotate(table[block.words[(i + 3) % 4] & 0xff], 24) ^
                      keys[4 * round + i];
    }
    block = next;
  }
  // The last round has no MixColumns: the S-box is the table's second byte.
  Block out;
  CARILLON_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    out.words[i] =
        ((table[block.words[i] >> 24] << 8 & 0xff000000) |
         (table[block.words[(i + 1) % 4] >> 16 & 0xff] & 0x00ff0000) |
         (table[block.words[(i + 2) % 4] >> 8 & 0xff] & 0x0000ff00) |
         (table[block.words[(i + 3) % 4] & 0xff] >> 8 & 0x000000ff)) ^
        keys[4 * kRounds + i];
  }
  return out;
}

}  // namespace carillon::kernels::aes

#endif  // CARILLON_KERNELS_IPSEC_AES_CUH_
