// Matrices whose elements are spread over the registers of a warp's lanes, for
// mma and wmma (PTX ISA 9.7.14).
#ifndef CARILLON_SIM_EXEC_MATRIX_H_
#define CARILLON_SIM_EXEC_MATRIX_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/exec/slot.h"

namespace carillon::sim {

// kB1 is a word of 32 bits, as binary matrices are multiplied.
enum class MatrixType : uint8_t {
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32,
};
uint32_t BitsOf(MatrixType type);

// D and C are m x n, A is m x k, B is k x n.
struct MatrixShape {
  std::string_view name;  // "m16n8k16"
  uint32_t m = 0;
  uint32_t n = 0;
  uint32_t k = 0;
};

enum class MatrixRole : uint8_t { kA, kB, kAccumulator };

// One matrix of a warp: lane by lane, each with `registers` registers.
struct Fragment {
  MatrixRole role = MatrixRole::kA;
  MatrixType type = MatrixType::kF16;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t registers = 0;
  std::array<Slot, 8> slots;
  // Where element i of a lane lies, as row * columns + column: at [32 i + lane].
  // A register's elements follow each other, the lowest first.
  std::vector<uint16_t> places;

  uint32_t elements_of_register() const {
    return type == MatrixType::kF64 ? 1 : 32 / BitsOf(type);
  }
  uint32_t elements() const { return registers * elements_of_register(); }
};

// Fills Fragment::places.
//
// mma's fragments are those of the PTX ISA: with g = lane / 4, t = lane % 4 and e
// elements in a register of 32 bits,
//
//   A     a strip of 16 rows: register r has row g + 8 (r % 2) and columns
//         from 4e (r / 2) + e t on; of 8 rows: row g, columns from 4e r + e t on
//   B     as A of 8 rows, transposed
//   C, D  element i: row g + 8 (i / 2), column 2 t + i % 2
//
// wmma's, which the PTX ISA leaves open, are put together of these: m16n16 has two
// strips of B and of C side by side, m32n8 two of A and of C below each other,
// and m8n32 is m32n8 with all matrices transposed. Where there are more registers
// than elements (.f16), the strips repeat, and products take the first ones.
void SetPlaces(Fragment& fragment);

// An instruction's matrices: D = A * B + C, or one that is loaded or stored.
struct MatrixOperands {
  Fragment d;  // or the one that is loaded or stored
  Fragment a;
  Fragment b;
  Fragment c;
  bool saturate = false;      // .satfinite
  bool exclusive = false;     // of binary matrices: .xor.popc, not .and.popc
  bool column_major = false;  // in memory
  uint64_t multiply_adds() const {
    return uint64_t{d.rows} * d.columns * a.columns;
  }
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_MATRIX_H_
