// Which registers of a function are live where, and the physical ones that
// they get: PTX has as many as it likes and writes most of them once.
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

// By size: a predicate, 16, 32 and 64 bits.
enum class RegisterClass : uint8_t { kPredicate, k16, k32, k64 };
RegisterClass ClassOf(Type type);

struct RegisterPlan {
  // Of each virtual register: its place among the physical ones of its class.
  std::vector<uint32_t> place;
  std::array<uint32_t, 4> count{};  // physical registers of each class
  // 32-bit registers that are live at once, at most, a thread: what the
  // hardware's register file must hold. 64 bits take two, 16 bits one;
  // predicates are apart.
  uint32_t pressure = 0;
  // Before each instruction: the virtual registers that are live there.
  std::vector<std::vector<uint32_t>> live;
};

// A linear scan over the text: a register is taken from the first instruction
// to the last at which it is live.
RegisterPlan AllocateRegisters(const Function& function,
                               const ControlFlow& flow);

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_REGISTERS_H_
