// Lowers one function's instructions to operations. Internal to lower/.
#ifndef CARILLON_SIM_LOWER_FUNCTION_LOWERING_H_
#define CARILLON_SIM_LOWER_FUNCTION_LOWERING_H_

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/lower/constants.h"
#include "sim/lower/suffixes.h"
#include "sim/ptx/control_flow.h"
#include "sim/ptx/module.h"
#include "sim/ptx/registers.h"

namespace carillon::sim {

// The addresses of the variables of a module and its functions, each within its
// own space.
struct Placement {
  bool device_graphs = false;  // as LowerOptions
  std::vector<uint64_t> of_module;
  // The places of one function's variables, as Function::variables.
  struct OfFunction {
    std::vector<uint64_t> variables;
    uint32_t local_bytes = 0;
  };
  std::vector<OfFunction> functions;
};

class FunctionLowering {
 public:
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;
  using Type = ptx::Type;
  using Lowerer = void (FunctionLowering::*)(const Instruction&);

  FunctionLowering(const ptx::Module& module, uint32_t function,
                   const Placement& placement, Constants* constants,
                   Program* program);

  // Appends the function to the program. Errors: those of Lower().
  absl::Status Run();

  // Returns nullptr for an unknown opcode.
  static Lowerer LowererOf(std::string_view opcode);
  static std::vector<std::string_view> Opcodes();

 private:
  static const std::map<std::string_view, Lowerer>& Lowerers();
  // Records a failure; only the first one counts.
  void Record(absl::StatusCode code, ptx::Location at, std::string_view what);
  template <class... Args>
  void Fail(ptx::Location at, fmt::format_string<Args...> what,
            Args&&... args) {
    Record(absl::StatusCode::kInvalidArgument, at,
           fmt::format(what, std::forward<Args>(args)...));
  }
  template <class... Args>
  void Unsupported(ptx::Location at, fmt::format_string<Args...> what,
                   Args&&... args) {
    Record(absl::StatusCode::kUnimplemented, at,
           fmt::format(what, std::forward<Args>(args)...));
  }
  // The instruction at hand is not supported.
  void Unsupported() {
    Unsupported(info_.at, "instruction '{}' is not supported", info_.name);
  }
  bool failed() const { return !error_.ok(); }
  bool OperandCount(const Instruction& i, size_t least, size_t most);

  // --- Operands. After a failure the slots mean nothing.

  // Registers of 8 bits have 16 here; the upper ones mean nothing.
  uint32_t BytesOfRegister(const Operand& operand) const;
  Slot SlotOf(uint32_t reg) const;
  // The register of this size. Where "_" is allowed it gives a constant slot:
  // the operation's code must check for it and write nothing.
  enum class Sink { kRefused, kAllowed };
  Slot Result(const Operand& operand, uint32_t bytes,
              Sink sink = Sink::kRefused);
  Slot PredicateResult(const Operand& operand, Sink sink = Sink::kRefused);
  // A register of the type's size, or an immediate.
  Slot Source(const Operand& operand, Type type);
  Slot PredicateSource(const Operand& operand, bool* negated);
  // A constant of so many bytes.
  Slot Immediate(const Operand& operand, Type type, uint32_t bytes);
  uint64_t ImmediateAs(const Operand& operand, Type type);
  // For memory operations: fills operands[kAddress], offset, address_bytes and,
  // if the text does not name it, the space.
  void Address(const Operand& operand, bool is_param);
  // For a second address, in shared memory: its register, and what is added to
  // it as a constant of 64 bits. Returns the register's size.
  uint8_t SharedAddress(const Operand& operand, Slot& base, Slot& offset);
  struct Location {
    MemorySpace space = MemorySpace::kGlobal;
    uint64_t address = 0;
    bool in_frame = false;
  };
  Location Locate(const Operand& variable);
  FrameVariable InFrame(const Operand& variable);

  // --- The operation under construction.

  void Begin(const Instruction& instruction);
  // Takes the type; fails if there is none.
  void TakeType(Suffixes& suffixes);
  // Finds the operation's code. Refuses the suffixes that are left.
  void Finish(const Suffixes& suffixes, Flow flow = Flow::kNext);
  // result, sources of the instruction's type.
  void Plain(const Instruction& i, const Suffixes& suffixes,
             Operation operation, uint32_t sources);
  // result of so many bytes, sources of these types.
  void Mixed(const Instruction& i, const Suffixes& suffixes,
             Operation operation, uint32_t bytes,
             const std::vector<Type>& sources, Flow flow = Flow::kNext);
  void TakeFloatModifiers(Suffixes& suffixes);
  // Moves the address of a variable to operand 0.
  void MoveAddress(const Location& location, uint64_t address, uint32_t bytes);

  // --- One function for each opcode, or for a few that are alike.

  void LowerAddSub(const Instruction& i);
  void LowerMulMad(const Instruction& i);
  void LowerMul24(const Instruction& i);
  void LowerDiv(const Instruction& i);
  void LowerMinMax(const Instruction& i);
  void LowerFloat(const Instruction& i);
  void LowerPlain(const Instruction& i);
  void LowerDotProduct(const Instruction& i);
  void LowerVideo(const Instruction& i);
  void LowerMaskOrExtend(const Instruction& i);
  void LowerShift(const Instruction& i);
  void LowerFunnel(const Instruction& i);
  void LowerPermute(const Instruction& i);
  void LowerLogic3(const Instruction& i);
  void LowerField(const Instruction& i);
  void LowerCount(const Instruction& i);
  void LowerSelect(const Instruction& i);
  void LowerCompare(const Instruction& i);
  void LowerTestProperty(const Instruction& i);
  void LowerConvert(const Instruction& i);
  void LowerToTf32(const Instruction& i, Suffixes& suffixes);
  void LowerConvertAddress(const Instruction& i);
  void LowerIsInSpace(const Instruction& i);
  void LowerMove(const Instruction& i);
  void LowerMoveVector(const Instruction& i, Suffixes& suffixes);
  void LowerMoveSpecial(const Instruction& i, Suffixes& suffixes);
  void LowerMoveAddress(const Instruction& i, Suffixes& suffixes);

  void LowerAccess(const Instruction& i);
  void LowerAtomic(const Instruction& i);
  void LowerFence(const Instruction& i);
  void LowerCopyAsync(const Instruction& i);
  void LowerMbarrier(const Instruction& i);
  void LowerHint(const Instruction& i);
  std::optional<MemorySpace> TakeSpace(Suffixes& suffixes, bool& is_param);
  void TakeOrder(Suffixes& suffixes);

  void LowerShuffle(const Instruction& i);
  void LowerVote(const Instruction& i);
  void LowerMatch(const Instruction& i);
  void LowerReduce(const Instruction& i);
  void LowerActiveMask(const Instruction& i);

  void LowerMoveMatrix(const Instruction& i);
  void LowerMma(const Instruction& i);
  void LowerWmma(const Instruction& i);
  // A fragment's registers, of which there must be as many as it says.
  void TakeFragment(const Operand& operand, bool result, Fragment& fragment);
  // `types` are those of D, A, B and C.
  void LowerMultiply(const Instruction& i, Suffixes& suffixes,
                     const std::optional<MatrixShape>& shape,
                     const std::array<MatrixType, 4>& types, bool of_wmma);

  void LowerBranch(const Instruction& i);
  void LowerCall(const Instruction& i);
  void LowerLeave(const Instruction& i);
  void LowerBarrier(const Instruction& i);
  void LowerSleep(const Instruction& i);
  void LowerStack(const Instruction& i);

  const ptx::Module& module_;
  const uint32_t index_;
  const ptx::Function& function_;
  const Placement& placement_;
  const Placement::OfFunction& places_;
  Constants* const constants_;
  Program* const program_;
  const ptx::ControlFlow flow_;
  const ptx::RegisterPlan registers_;
  std::array<uint32_t, ptx::kRegisterClasses> class_base_{};
  absl::Status error_;
  Pc entry_ = 0;
  // The instruction at hand:
  Op op_;
  OpInfo info_;
  Semantics& s_ = info_.semantics;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_LOWER_FUNCTION_LOWERING_H_
