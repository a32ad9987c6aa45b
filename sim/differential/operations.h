// PTX's arithmetic as the host does it, written from the text of the PTX ISA
// (9.0, chapter 9.7) and with nothing of sim/exec: one value at a time, in plain
// C++.
#ifndef CARILLON_SIM_DIFFERENTIAL_OPERATIONS_H_
#define CARILLON_SIM_DIFFERENTIAL_OPERATIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace carillon::sim::differential {

// The register of a value. A value's bits are the low ones of 64.
enum class Type : uint8_t { kPred, kB16, kB32, kB64, kF32, kF64 };
inline constexpr size_t kTypes = 6;

using Arguments = std::array<uint64_t, 4>;

struct Operation {
  const char* name = "";  // "add.u32"
  Type result = Type::kB32;
  std::array<Type, 4> sources{};
  size_t count = 0;       // of the sources
  const char* tail = "";  // ", 0x96" behind the sources
  uint64_t (*host)(const Arguments& a) = nullptr;
  bool tame_divisor = false;  // the second source must be from 1 to 0x7fff
};
std::span<const Operation> Operations();

// Whether two values are the same as far as PTX says: which NaN of f64 comes out
// is left open.
bool Same(Type type, uint64_t a, uint64_t b);

}  // namespace carillon::sim::differential

#endif  // CARILLON_SIM_DIFFERENTIAL_OPERATIONS_H_
