// Which registers of a function are live where, and their physical registers.
// PTX has as many registers as it likes and writes most of them once.
#ifndef CARILLON_SIM_PTX_REGISTERS_H_
#define CARILLON_SIM_PTX_REGISTERS_H_

#include <cstdint>
#include <vector>

#include "sim/ptx/control_flow.h"
#include "sim/ptx/module.h"

namespace carillon::sim::ptx {

// Indices into Function::registers.
struct RegisterUse {
  std::vector<uint32_t> reads;
  std::vector<uint32_t> writes;
};
RegisterUse UseOf(const Instruction& instruction);

// Register classes by size: predicates, 16, 32, 64 and 128 bits.
enum class RegisterClass : uint8_t { kPredicate, k16, k32, k64, k128 };
inline constexpr size_t kRegisterClasses = 5;
RegisterClass ClassOf(Type type);

struct RegisterPlan {
  // Each virtual register's place among the physical ones of its class.
  std::vector<uint32_t> place;
  std::array<uint32_t, kRegisterClasses>
      count{};  // physical registers of each class
  // How many 32-bit registers per thread are live at once, at most: what the
  // hardware's register file must hold. 64 bits take two, 16 bits one;
  // predicates are apart.
  uint32_t pressure = 0;
  // The virtual registers that are live before each instruction.
  std::vector<std::vector<uint32_t>> live;
};

// Allocates by a linear scan over the text: a register is occupied from the
// first instruction to the last at which it is live.
RegisterPlan AllocateRegisters(const Function& function,
                               const ControlFlow& flow);

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_REGISTERS_H_
