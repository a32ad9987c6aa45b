// A PTX module lowered to executable form: one flat list of operations, each
// with the code that executes it and the places of its operands.
#ifndef CARILLON_SIM_EXEC_PROGRAM_H_
#define CARILLON_SIM_EXEC_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/exec/aligned_bytes.h"
#include "sim/exec/matrix.h"
#include "sim/exec/semantics.h"
#include "sim/exec/slot.h"
#include "sim/ptx/module.h"

namespace carillon::sim {

// A function's address; no memory is there. It means something only in the
// function's own program.
inline constexpr uint64_t kCodeWindow = uint64_t{4} << 32;
inline constexpr uint64_t kCodeStep = 16;
constexpr uint64_t AddressOfFunction(uint32_t function) {
  return kCodeWindow + (function + 1) * kCodeStep;
}

// CUDA's own limit of a thread's local memory.
inline constexpr uint64_t kMaxLocalBytes = 512 << 10;

// The index of an operation in Program::ops.
using Pc = uint32_t;
inline constexpr Pc kNoPc = ~Pc{0};

class Warp;
struct Op;
// Executes the operation for the lanes of the mask. Reports a fault to the
// warp.
using Handler = void (*)(const Op& op, Warp& warp, LaneMask mask);

// How a warp goes on after the operation.
enum class Flow : uint8_t {
  kNext,
  kNextUnlessFault,  // the next operation, unless this one fails
  kBranch,
  kCall,
  kReturn,
  kExit,
  kBarrier,
  kWarpSync,   // lanes of a warp do something together; it can fail
  kWholeWarp,  // all 32 lanes do the same operation together; it can fail
  kYield,      // lanes that wait let others of their warp go on
  kWait,       // a warp that must wait lets other warps go on; it can fail
  kStack,      // changes a thread's stack, or fails
  kTrap,
};

struct Op {
  Handler handler = nullptr;  // for kNext and kNextUnlessFault
  // The results come first, then the sources in the order of the text. The
  // address of a memory operation is at kAddress.
  std::array<Slot, 6> operands;
  int64_t offset =
      0;       // bytes, of an address; of bar.red, 1: negates its source
  Slot guard;  // a predicate, if guarded
  // A branch's target; for a call, its index in Program::calls, and for an
  // operation on fragments that in Program::matrices.
  Pc target = kNoPc;
  Pc reconverge = kNoPc;  // where the sides of a branch meet: its immediate
                          // post-dominator
  Pc pc = 0;
  Flow flow = Flow::kNext;
  bool guarded = false;
  bool negated = false;  // the guard
  uint8_t variant = 0;
  uint8_t elements = 1;
  uint8_t address_bytes = 8;  // size of the register that holds the address
  MemorySpace space = MemorySpace::kGeneric;
  MemoryOrder order = MemoryOrder::kWeak;
  MemoryScope scope = MemoryScope::kGpu;
  uint8_t members = 0;  // for kWarpSync: the operand that names the members
  // The result and the source of a cvt. Of set, `to` has the register's size; of
  // copies these have the sizes of what addresses shared memory.
  WholeNumber to;
  WholeNumber from;
};

inline constexpr size_t kAddress = 4;

// The bytes of a function's parameter or result in its frame of local memory.
struct FrameVariable {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// Functions of the hardware's library, of which there is no PTX.
enum class Builtin : uint8_t {
  kNone,
  kPrintf,
  kAssertFail,
  // EDGE's wait-release barrier (thesis 5.4.3): kernels/simt/wait_release.cuh.
  kWaitThreads,
  kReleaseThreads,
  // The device runtime's (CUDA Runtime API, "Device Graph Launch").
  kGraphLaunch,
  kMalloc,         // (bytes)
  kAlignedMalloc,  // (bytes, alignment)
  kFree,
};

struct ProgramFunction {
  std::string_view name;
  bool is_entry = false;
  Pc entry = 0;
  Pc end = 0;                // one past its last operation
  uint32_t frame_bytes = 0;  // registers of a warp
  uint32_t local_bytes = 0;  // per thread, its parameters and results included
  // The 32-bit registers per thread that are live at once, in this function and
  // below it in its calls. Occupancy counts these.
  uint32_t registers = 0;
  // Where a called function has its parameters.
  std::vector<FrameVariable> parameters;
  std::vector<FrameVariable> results;
  const ptx::Function* source = nullptr;
  uint32_t static_shared_bytes = 0;
  // It asks for Launch::grid_workspace, or a function does that it may call.
  bool asks_for_workspace = false;
  // Why it cannot be launched, if so: what it or a function that it may call
  // does is not supported.
  std::string refused;
};

struct Call {
  uint32_t function = 0;
  bool by_address = false;  // the operation's operand 0 in place of `function`
  Builtin builtin = Builtin::kNone;
  // Where the caller has them in its frame.
  std::vector<FrameVariable> arguments;
  std::vector<FrameVariable> results;
};

// What only a person or a timing model asks about an operation.
struct OpInfo {
  Semantics semantics;
  std::string_view name;  // "ld.global.u32"
  ptx::Location at;
  uint32_t function = 0;
  // The physical registers, 32 bits each, that it reads and writes, for
  // scoreboards. Predicates count from kPredicateRegisters.
  std::vector<uint16_t> reads;
  std::vector<uint16_t> writes;
};
inline constexpr uint16_t kPredicateRegisters = 1 << 12;

// A variable of the module, in global or constant memory.
struct ProgramVariable {
  std::string_view name;
  uint64_t address = 0;
  uint64_t bytes = 0;
  const ptx::Variable* source = nullptr;
};

struct Program {
  std::vector<Op> ops;
  std::vector<OpInfo> info;  // one for each of ops
  std::vector<ProgramFunction> functions;
  std::vector<Call> calls;
  std::vector<MatrixOperands> matrices;
  std::vector<ProgramVariable> variables;
  // 32 copies of each.
  AlignedBytes constants;
  std::shared_ptr<const ptx::Module> module;

  const ProgramFunction* FindEntry(std::string_view name) const {
    for (const ProgramFunction& function : functions) {
      if (function.is_entry && function.name == name) return &function;
    }
    return nullptr;
  }
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_PROGRAM_H_
