#include "sim/lower/function_lowering.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/exec/operations/handlers.h"

namespace carillon::sim {
namespace {

using Kind = ptx::Operand::Kind;

constexpr std::array<uint32_t, ptx::kRegisterClasses> kSlotBytes = {
    sizeof(LaneMask), kLanes * 2, kLanes * 4, kLanes * 8, kLanes * 16};

// Registers of 32 bits. A GPU has 255 per thread and spills the rest to local
// memory; here all stay registers.
constexpr uint32_t kMaxRegisters = 1 << 14;

}  // namespace

FunctionLowering::FunctionLowering(const ptx::Module& module, uint32_t function,
                                   const Placement& placement,
                                   Constants* constants, Program* program)
    : module_(module),
      index_(function),
      function_(module.functions[function]),
      placement_(placement),
      places_(placement.functions[function]),
      constants_(constants),
      program_(program),
      flow_(ptx::AnalyzeControlFlow(function_)),
      registers_(ptx::AllocateRegisters(function_, flow_)) {
  // Place the widest first, so that all are aligned.
  uint32_t at = 0;
  for (size_t kind = kSlotBytes.size(); kind-- > 0;) {
    class_base_[kind] = at;
    at += registers_.count[kind] * kSlotBytes[kind];
  }
  ProgramFunction& to = program_->functions[index_];
  to.frame_bytes = (at + 63) / 64 * 64;
  to.registers = registers_.pressure;
}

absl::Status FunctionLowering::Run() {
  entry_ = static_cast<Pc>(program_->ops.size());
  if (!function_.unsupported.empty()) {
    Unsupported(function_.at, "'{}' of '{}' is not supported",
                function_.unsupported, function_.name);
    return error_;
  }
  if (registers_.pressure > kMaxRegisters) {
    Fail(function_.at, "'{}' needs {} registers a thread: the limit is {}",
         function_.name, registers_.pressure, kMaxRegisters);
    return error_;
  }
  for (uint32_t i = 0; i < function_.body.size(); ++i) {
    const Instruction& instruction = function_.body[i];
    Begin(instruction);
    const Lowerer lower = LowererOf(instruction.opcode);
    if (lower == nullptr) {
      Unsupported();
    } else {
      (this->*lower)(instruction);
    }
    if (failed()) return error_;
    program_->ops.push_back(op_);
    program_->info.push_back(std::move(info_));
  }
  // Reaching the end of the text leaves the function.
  Instruction end;
  end.name = "ret";
  end.opcode = "ret";
  end.at = function_.body.empty() ? function_.at : function_.body.back().at;
  Begin(end);
  LowerLeave(end);
  program_->ops.push_back(op_);
  program_->info.push_back(std::move(info_));
  ProgramFunction& to = program_->functions[index_];
  to.entry = entry_;
  to.end = static_cast<Pc>(program_->ops.size());
  return error_;
}

void FunctionLowering::Record(absl::StatusCode code, ptx::Location at,
                              std::string_view what) {
  if (failed()) return;
  error_ = absl::Status(code, fmt::format("{}:{}:{}: {}", module_.file, at.line,
                                          at.column, what));
}

bool FunctionLowering::OperandCount(const Instruction& i, size_t least,
                                    size_t most) {
  const size_t count = i.operands.size();
  if (count >= least && count <= most) return true;
  if (least == most) {
    Fail(i.at, "{} takes {} operands, not {}", i.name, least, count);
  } else {
    Fail(i.at, "{} takes {} to {} operands, not {}", i.name, least, most,
         count);
  }
  return false;
}

uint32_t FunctionLowering::BytesOfRegister(const Operand& operand) const {
  return std::max(ptx::BytesOf(function_.registers[operand.index].type), 2u);
}

Slot FunctionLowering::SlotOf(uint32_t reg) const {
  const auto kind =
      static_cast<size_t>(ptx::ClassOf(function_.registers[reg].type));
  return Slot::Register(class_base_[kind] +
                        registers_.place[reg] * kSlotBytes[kind]);
}

Slot FunctionLowering::Result(const Operand& operand, uint32_t bytes,
                              Sink sink) {
  if (operand.kind == Kind::kSink && sink == Sink::kAllowed) return Slot();
  if (operand.kind != Kind::kRegister) {
    Fail(operand.at, "'{}' is no register to write to", operand.name);
    return Slot();
  }
  const Type type = function_.registers[operand.index].type;
  if (type == Type::kPred || ptx::BytesOf(type) != bytes) {
    Fail(operand.at,
         "register '{}' is .{}, the instruction's result has {} bits",
         operand.name, ptx::NameOf(type), 8 * bytes);
  }
  return SlotOf(operand.index);
}

Slot FunctionLowering::PredicateResult(const Operand& operand, Sink sink) {
  if (operand.kind == Kind::kSink && sink == Sink::kAllowed) return Slot();
  if (operand.kind != Kind::kRegister ||
      function_.registers[operand.index].type != Type::kPred) {
    Fail(operand.at, "'{}' is no predicate register", operand.name);
    return Slot();
  }
  return SlotOf(operand.index);
}

Slot FunctionLowering::Source(const Operand& operand, Type type) {
  switch (operand.kind) {
    case Kind::kRegister: {
      const Type declared = function_.registers[operand.index].type;
      if ((declared == Type::kPred) != (type == Type::kPred) ||
          ptx::BytesOf(declared) != ptx::BytesOf(type)) {
        Fail(operand.at, "register '{}' is .{}, the instruction wants .{}",
             operand.name, ptx::NameOf(declared), ptx::NameOf(type));
      }
      return SlotOf(operand.index);
    }
    case Kind::kImmediate:
      if (type == Type::kPred) {
        return constants_->Predicate(operand.value != 0);
      }
      return Immediate(operand, type, std::max(ptx::BytesOf(type), 2u));
    case Kind::kSpecial:
      Fail(operand.at, "special register '{}' is read by mov only",
           operand.name);
      return Slot();
    default:
      Fail(operand.at, "'{}' is neither a register nor a constant",
           operand.name);
      return Slot();
  }
}

Slot FunctionLowering::PredicateSource(const Operand& operand, bool* negated) {
  const Slot slot = Source(operand, Type::kPred);
  if (operand.negated && negated == nullptr) {
    Fail(operand.at, "'!' is not for this operand");
  }
  if (negated != nullptr) *negated = operand.negated;
  return slot;
}

Slot FunctionLowering::Immediate(const Operand& operand, Type type,
                                 uint32_t bytes) {
  if (bytes <= sizeof(operand.value)) {
    return constants_->Value(bytes, ImmediateAs(operand, type));
  }
  Fail(operand.at, "the constant '{}' has 64 bits, the instruction wants {}",
       operand.name, 8 * bytes);
  return Slot();
}

uint64_t FunctionLowering::ImmediateAs(const Operand& operand, Type type) {
  if (!operand.is_float) {
    // An integer literal for a float means its value.
    if (type == Type::kF32) {
      return std::bit_cast<uint32_t>(
          static_cast<float>(static_cast<int64_t>(operand.value)));
    }
    if (type == Type::kF64) {
      return std::bit_cast<uint64_t>(
          static_cast<double>(static_cast<int64_t>(operand.value)));
    }
    return operand.value;
  }
  const uint32_t bytes = ptx::BytesOf(type);
  if (operand.is_single) {
    if (type == Type::kF64) {
      return std::bit_cast<uint64_t>(static_cast<double>(
          std::bit_cast<float>(static_cast<uint32_t>(operand.value))));
    }
    if (bytes == 4) return operand.value;
  } else {
    if (bytes == 8) return operand.value;
    if (bytes == 4) {
      return std::bit_cast<uint32_t>(
          static_cast<float>(std::bit_cast<double>(operand.value)));
    }
  }
  Fail(operand.at, "the floating-point constant '{}' does not fit type .{}",
       operand.name, ptx::NameOf(type));
  return 0;
}

FunctionLowering::Location FunctionLowering::Locate(const Operand& operand) {
  Location location;
  const ptx::Variable& variable = operand.of_module
                                      ? module_.variables[operand.index]
                                      : function_.variables[operand.index];
  location.address = operand.of_module ? placement_.of_module[operand.index]
                                       : places_.variables[operand.index];
  switch (variable.space) {
    case ptx::Space::kConst:
      location.space = MemorySpace::kConst;
      break;
    case ptx::Space::kGlobal:
      location.space = MemorySpace::kGlobal;
      break;
    case ptx::Space::kShared:
      location.space = MemorySpace::kShared;
      break;
    case ptx::Space::kLocal:
      location.space = MemorySpace::kLocal;
      location.in_frame = true;
      break;
    case ptx::Space::kParam: {
      // A kernel's own parameters are in constant memory; all others are in the
      // frame.
      const bool own =
          function_.is_entry && operand.index < function_.parameters.size();
      location.space = own ? MemorySpace::kKernelParam : MemorySpace::kLocal;
      location.in_frame = !own;
      break;
    }
  }
  if (operand.of_module && variable.space == ptx::Space::kLocal) {
    Unsupported(operand.at, "local variables of a module are not supported");
  }
  return location;
}

FrameVariable FunctionLowering::InFrame(const Operand& operand) {
  if (operand.kind != Kind::kVariable || operand.of_module ||
      function_.variables[operand.index].space != ptx::Space::kParam ||
      !Locate(operand).in_frame) {
    Unsupported(operand.at,
                "'{}': what is passed to a function must be a .param variable",
                operand.name);
    return {};
  }
  return {static_cast<uint32_t>(places_.variables[operand.index]),
          static_cast<uint32_t>(function_.variables[operand.index].bytes)};
}

void FunctionLowering::Address(const Operand& operand, bool is_param) {
  if (operand.kind != Kind::kAddress) {
    return Fail(operand.at, "'{}' is no address", operand.name);
  }
  op_.operands[kAddress] = Slot::Constant(0);
  op_.offset = operand.offset;
  op_.address_bytes = 8;
  switch (operand.base) {
    case Kind::kRegister: {
      const Type type = function_.registers[operand.index].type;
      if ((type >= Type::kF16 && type <= Type::kBf16x2) || type == Type::kF32 ||
          type == Type::kF64) {
        return Fail(operand.at,
                    "register '{}' is .{}: an address is whole numbers or bits",
                    operand.name, ptx::NameOf(type));
      }
      const uint32_t bytes = BytesOfRegister(operand);
      if (bytes != 4 && bytes != 8) {
        return Fail(operand.at,
                    "register '{}' has {} bits: an address has 32 or 64",
                    operand.name, 8 * bytes);
      }
      op_.operands[kAddress] = SlotOf(operand.index);
      op_.address_bytes = static_cast<uint8_t>(bytes);
      if (is_param && !function_.is_entry) op_.space = MemorySpace::kLocal;
      return;
    }
    case Kind::kVariable: {
      const Location location = Locate(operand);
      const bool other = is_param
                             ? location.space != MemorySpace::kKernelParam &&
                                   !location.in_frame
                             : location.space != op_.space;
      if (op_.space == MemorySpace::kGeneric) {
        if (location.space == MemorySpace::kShared) {
          op_.offset += static_cast<int64_t>(kSharedWindow);
        } else if (location.space != MemorySpace::kGlobal &&
                   location.space != MemorySpace::kConst) {
          Fail(operand.at, "'{}' needs the space that it lies in",
               operand.name);
        }
      } else if (other) {
        Fail(operand.at, "'{}' lies in another space", operand.name);
      } else {
        op_.space = location.space;
      }
      op_.offset += static_cast<int64_t>(location.address);
      return;
    }
    case Kind::kImmediate:
      op_.offset += static_cast<int64_t>(operand.value);
      return;
    default:
      Fail(operand.at, "'{}' is no address", operand.name);
  }
}

void FunctionLowering::Begin(const Instruction& instruction) {
  op_ = Op();
  op_.pc = static_cast<Pc>(program_->ops.size());
  info_ = OpInfo();
  info_.name = instruction.name;
  info_.at = instruction.at;
  info_.function = index_;
  if (instruction.guard) {
    op_.guarded = true;
    op_.negated = instruction.guard->negated;
    op_.guard = SlotOf(instruction.guard->reg);
  }
  const ptx::RegisterUse use = ptx::UseOf(instruction);
  const auto add = [&](uint32_t reg, std::vector<uint16_t>& to) {
    const auto place = static_cast<uint16_t>(registers_.place[reg]);
    const auto widest = static_cast<uint16_t>(4 * registers_.count[4]);
    const auto wide = static_cast<uint16_t>(widest + 2 * registers_.count[3]);
    switch (ptx::ClassOf(function_.registers[reg].type)) {
      case ptx::RegisterClass::kPredicate:
        to.push_back(kPredicateRegisters + place);
        break;
      case ptx::RegisterClass::k64:
        to.push_back(static_cast<uint16_t>(widest + 2 * place));
        to.push_back(static_cast<uint16_t>(widest + 2 * place + 1));
        break;
      case ptx::RegisterClass::k128:
        for (uint32_t part = 0; part < 4; ++part) {
          to.push_back(static_cast<uint16_t>(4 * place + part));
        }
        break;
      case ptx::RegisterClass::k32:
        to.push_back(static_cast<uint16_t>(wide + place));
        break;
      case ptx::RegisterClass::k16:
        to.push_back(static_cast<uint16_t>(wide + registers_.count[2] + place));
        break;
    }
  };
  for (const uint32_t reg : use.reads) add(reg, info_.reads);
  for (const uint32_t reg : use.writes) add(reg, info_.writes);
}

void FunctionLowering::TakeType(Suffixes& suffixes) {
  if (const auto type = suffixes.TakeType()) {
    s_.type = *type;
  } else if (suffixes.left().empty()) {
    Fail(info_.at, "{} has no type", info_.name);
  } else {
    Unsupported();
  }
}

void FunctionLowering::Finish(const Suffixes& suffixes, Flow flow) {
  if (failed()) return;
  if (!suffixes.left().empty()) {
    return Unsupported(info_.at, "{}: '.{}' is not supported", info_.name,
                       fmt::join(suffixes.left(), "."));
  }
  op_.flow = flow;
  s_.space = op_.space;
  s_.order = op_.order;
  if (flow != Flow::kNext && flow != Flow::kNextUnlessFault &&
      flow != Flow::kWarpSync && flow != Flow::kWholeWarp &&
      flow != Flow::kWait) {
    return;
  }
  op_.handler = FindHandler(s_);
  if (op_.handler == nullptr) Unsupported();
}

void FunctionLowering::Plain(const Instruction& i, const Suffixes& suffixes,
                             Operation operation, uint32_t sources) {
  if (s_.type != Type::kPred) {
    return Mixed(i, suffixes, operation, ptx::BytesOf(s_.type),
                 std::vector<Type>(sources, s_.type));
  }
  s_.operation = operation;
  if (!OperandCount(i, sources + 1, sources + 1)) return;
  op_.operands[0] = PredicateResult(i.operands[0]);
  for (uint32_t n = 1; n <= sources; ++n) {
    op_.operands[n] = Source(i.operands[n], Type::kPred);
  }
  Finish(suffixes);
}

void FunctionLowering::Mixed(const Instruction& i, const Suffixes& suffixes,
                             Operation operation, uint32_t bytes,
                             const std::vector<Type>& sources, Flow flow) {
  s_.operation = operation;
  if (!OperandCount(i, sources.size() + 1, sources.size() + 1)) return;
  op_.operands[0] = Result(i.operands[0], bytes);
  for (size_t n = 0; n < sources.size(); ++n) {
    op_.operands[n + 1] = Source(i.operands[n + 1], sources[n]);
  }
  Finish(suffixes, flow);
}

const std::map<std::string_view, FunctionLowering::Lowerer>&
FunctionLowering::Lowerers() {
  using F = FunctionLowering;
  static const std::map<std::string_view, Lowerer> kLowerers = {
      {"abs", &F::LowerMinMax},          {"activemask", &F::LowerActiveMask},
      {"add", &F::LowerAddSub},          {"addc", &F::LowerAddSub},
      {"and", &F::LowerPlain},           {"atom", &F::LowerAtomic},
      {"bar", &F::LowerBarrier},         {"barrier", &F::LowerBarrier},
      {"bfe", &F::LowerField},           {"bfi", &F::LowerField},
      {"bfind", &F::LowerCount},         {"bmsk", &F::LowerMaskOrExtend},
      {"bra", &F::LowerBranch},          {"brev", &F::LowerPlain},
      {"call", &F::LowerCall},           {"clz", &F::LowerCount},
      {"cnot", &F::LowerPlain},          {"copysign", &F::LowerFloat},
      {"cos", &F::LowerFloat},           {"cp", &F::LowerCopyAsync},
      {"cvt", &F::LowerConvert},         {"div", &F::LowerDiv},
      {"cvta", &F::LowerConvertAddress}, {"mbarrier", &F::LowerMbarrier},
      {"dp2a", &F::LowerDotProduct},     {"dp4a", &F::LowerDotProduct},
      {"ex2", &F::LowerFloat},           {"exit", &F::LowerLeave},
      {"fence", &F::LowerFence},         {"fma", &F::LowerFloat},
      {"fns", &F::LowerPlain},           {"isspacep", &F::LowerIsInSpace},
      {"ld", &F::LowerAccess},           {"ldu", &F::LowerAccess},
      {"lg2", &F::LowerFloat},           {"lop3", &F::LowerLogic3},
      {"mad", &F::LowerMulMad},          {"mad24", &F::LowerMul24},
      {"madc", &F::LowerMulMad},         {"match", &F::LowerMatch},
      {"max", &F::LowerMinMax},          {"membar", &F::LowerFence},
      {"min", &F::LowerMinMax},          {"mov", &F::LowerMove},
      {"mul", &F::LowerMulMad},          {"mul24", &F::LowerMul24},
      {"nanosleep", &F::LowerSleep},     {"neg", &F::LowerMinMax},
      {"not", &F::LowerPlain},           {"or", &F::LowerPlain},
      {"popc", &F::LowerCount},          {"prefetch", &F::LowerHint},
      {"prefetchu", &F::LowerHint},      {"prmt", &F::LowerPermute},
      {"rcp", &F::LowerFloat},           {"red", &F::LowerAtomic},
      {"redux", &F::LowerReduce},        {"rem", &F::LowerPlain},
      {"ret", &F::LowerLeave},           {"rsqrt", &F::LowerFloat},
      {"sad", &F::LowerPlain},           {"selp", &F::LowerSelect},
      {"set", &F::LowerCompare},         {"setp", &F::LowerCompare},
      {"shf", &F::LowerFunnel},          {"shfl", &F::LowerShuffle},
      {"shl", &F::LowerShift},           {"shr", &F::LowerShift},
      {"sin", &F::LowerFloat},           {"slct", &F::LowerSelect},
      {"sqrt", &F::LowerFloat},          {"st", &F::LowerAccess},
      {"sub", &F::LowerAddSub},          {"subc", &F::LowerAddSub},
      {"stackrestore", &F::LowerStack},  {"stacksave", &F::LowerStack},
      {"alloca", &F::LowerStack},        {"ldmatrix", &F::LowerMoveMatrix},
      {"mma", &F::LowerMma},             {"movmatrix", &F::LowerMoveMatrix},
      {"wmma", &F::LowerWmma},           {"stmatrix", &F::LowerMoveMatrix},
      {"szext", &F::LowerMaskOrExtend},  {"tanh", &F::LowerFloat},
      {"testp", &F::LowerTestProperty},  {"trap", &F::LowerLeave},
      {"vabsdiff2", &F::LowerVideo},     {"vabsdiff4", &F::LowerVideo},
      {"vadd2", &F::LowerVideo},         {"vadd4", &F::LowerVideo},
      {"vavrg2", &F::LowerVideo},        {"vavrg4", &F::LowerVideo},
      {"vmax2", &F::LowerVideo},         {"vmax4", &F::LowerVideo},
      {"vmin2", &F::LowerVideo},         {"vmin4", &F::LowerVideo},
      {"vote", &F::LowerVote},           {"vset2", &F::LowerVideo},
      {"vset4", &F::LowerVideo},         {"vsub2", &F::LowerVideo},
      {"vsub4", &F::LowerVideo},         {"xor", &F::LowerPlain},
  };
  return kLowerers;
}

FunctionLowering::Lowerer FunctionLowering::LowererOf(std::string_view opcode) {
  const auto found = Lowerers().find(opcode);
  return found == Lowerers().end() ? nullptr : found->second;
}

std::vector<std::string_view> FunctionLowering::Opcodes() {
  std::vector<std::string_view> names;
  for (const auto& [name, lowerer] : Lowerers()) names.push_back(name);
  return names;
}

}  // namespace carillon::sim
