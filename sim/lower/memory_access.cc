// Loads, stores, atomics and fences.
#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;

// Atomics that name no scope have the GPU's.
MemoryScope TakeScope(Suffixes& suffixes) {
  return suffixes
      .TakeOneOf<MemoryScope>({{"cta", MemoryScope::kBlock},
                               {"cluster", MemoryScope::kBlock},
                               {"gpu", MemoryScope::kGpu},
                               {"gl", MemoryScope::kGpu},
                               {"sys", MemoryScope::kSystem}})
      .value_or(MemoryScope::kGpu);
}

}  // namespace

std::optional<MemorySpace> FunctionLowering::TakeSpace(Suffixes& suffixes,
                                                       bool& is_param) {
  const auto space = suffixes.TakeOneOf<MemorySpace>(
      {{"global", MemorySpace::kGlobal},
       {"const", MemorySpace::kConst},
       {"shared", MemorySpace::kShared},
       {"shared::cta", MemorySpace::kShared},
       {"local", MemorySpace::kLocal},
       {"param", MemorySpace::kKernelParam},
       {"param::entry", MemorySpace::kKernelParam},
       {"param::func", MemorySpace::kKernelParam}});
  is_param = space == MemorySpace::kKernelParam;
  return space;
}

void FunctionLowering::TakeOrder(Suffixes& suffixes) {
  op_.order =
      suffixes
          .TakeOneOf<MemoryOrder>({{"weak", MemoryOrder::kWeak},
                                   {"volatile", MemoryOrder::kRelaxed},
                                   {"mmio", MemoryOrder::kRelaxed},
                                   {"relaxed", MemoryOrder::kRelaxed},
                                   {"acquire", MemoryOrder::kAcquire},
                                   {"release", MemoryOrder::kRelease},
                                   {"acq_rel", MemoryOrder::kAcquireRelease},
                                   {"sc", MemoryOrder::kSequential}})
          .value_or(MemoryOrder::kWeak);
  // "ld.mmio.relaxed.sys" has two such suffixes.
  suffixes.Take("relaxed");
  op_.scope = TakeScope(suffixes);
}

// ld result, [address]; st [address], source. Operands 0 and up hold the
// values, one or a vector.
void FunctionLowering::LowerAccess(const Instruction& i) {
  Suffixes suffixes(i);
  const bool store = i.opcode == "st";
  s_.operation = store ? Operation::kStore : Operation::kLoad;
  TakeOrder(suffixes);
  bool is_param = false;
  op_.space = TakeSpace(suffixes, is_param).value_or(MemorySpace::kGeneric);
  // These are hints to caches.
  for (const std::string_view hint :
       {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"}) {
    suffixes.Take(hint);
  }
  suffixes.TakeAllThatBeginWith("L1::");
  suffixes.TakeAllThatBeginWith("L2::");
  op_.elements = s_.elements = static_cast<uint8_t>(
      suffixes.TakeOneOf<int>({{"v2", 2}, {"v4", 4}}).value_or(1));
  TakeType(suffixes);
  if (!OperandCount(i, 2, 2)) return;
  if (store && op_.space == MemorySpace::kConst) {
    return Fail(i.at, "{}: constants are read-only", i.name);
  }
  // A GPU keeps a function's parameters in registers.
  if (is_param) s_.variant = 1;
  Address(i.operands[store ? 0 : 1], is_param);
  const Operand& values = i.operands[store ? 1 : 0];
  std::vector<const Operand*> parts;
  if (values.kind == Kind::kVector) {
    for (const Operand& part : values.parts) parts.push_back(&part);
  } else {
    parts.push_back(&values);
  }
  if (parts.size() != op_.elements) {
    return Fail(values.at, "{} moves {} values, not {}", i.name, op_.elements,
                parts.size());
  }
  const uint32_t bytes = ptx::BytesOf(s_.type);
  if (bytes * op_.elements > 16) {
    return Unsupported(i.at, "{}: more than 16 bytes at once are not supported",
                       i.name);
  }
  uint32_t register_bytes = 0;
  for (const Operand* part : parts) {
    if (part->kind == Kind::kRegister &&
        function_.registers[part->index].type != Type::kPred) {
      register_bytes = std::max(register_bytes, BytesOfRegister(*part));
    }
  }
  // All are constants: they are as wide as the type, except that no register
  // has one byte.
  if (register_bytes == 0) register_bytes = std::max(bytes, 2u);
  if (register_bytes < bytes) {
    return Fail(values.at, "register '{}' has fewer bits than .{}", values.name,
                ptx::NameOf(s_.type));
  }
  s_.register_bytes = static_cast<uint8_t>(register_bytes);
  const Type as = register_bytes == 2   ? Type::kB16
                  : register_bytes == 4 ? Type::kB32
                  : register_bytes == 8 ? Type::kB64
                                        : Type::kB128;
  for (size_t n = 0; n < parts.size(); ++n) {
    if (store && parts[n]->kind == Kind::kImmediate) {
      op_.operands[n] = Immediate(*parts[n], s_.type, register_bytes);
    } else {
      op_.operands[n] =
          store ? Source(*parts[n], as)
                : Result(*parts[n], register_bytes,
                         parts.size() > 1 ? Sink::kAllowed : Sink::kRefused);
    }
  }
  Finish(suffixes, Flow::kNextUnlessFault);
}

// atom result, [address], b{, c}; red [address], b.
void FunctionLowering::LowerAtomic(const Instruction& i) {
  Suffixes suffixes(i);
  const bool has_result = i.opcode == "atom";
  s_.operation = Operation::kAtomic;
  if (std::ranges::count(i.operands, Operand::Kind::kVector, &Operand::kind)) {
    return Unsupported();
  }
  TakeOrder(suffixes);
  bool is_param = false;
  op_.space = TakeSpace(suffixes, is_param).value_or(MemorySpace::kGeneric);
  const auto operation = suffixes.TakeOneOf<AtomicOperation>(
      {{"add", AtomicOperation::kAdd},
       {"min", AtomicOperation::kMin},
       {"max", AtomicOperation::kMax},
       {"and", AtomicOperation::kAnd},
       {"or", AtomicOperation::kOr},
       {"xor", AtomicOperation::kXor},
       {"exch", AtomicOperation::kExchange},
       {"cas", AtomicOperation::kCompareAndSwap},
       {"inc", AtomicOperation::kIncrement},
       {"dec", AtomicOperation::kDecrement}});
  TakeType(suffixes);
  if (!operation) return Fail(i.at, "{} does not say what it does", i.name);
  // Sums of halves keep subnormal numbers, and must say so.
  const bool halves = s_.type >= Type::kF16 && s_.type <= Type::kBf16x2;
  if (halves && !suffixes.Take("noftz")) {
    return Fail(i.at, "{}: needs .noftz", i.name);
  }
  if (op_.space != MemorySpace::kGeneric && op_.space != MemorySpace::kGlobal &&
      op_.space != MemorySpace::kShared) {
    return Fail(i.at, "{}: atomics are for global and shared memory", i.name);
  }
  op_.variant = s_.variant = static_cast<uint8_t>(*operation);
  const bool two = *operation == AtomicOperation::kCompareAndSwap;
  const size_t count = (has_result ? 1 : 0) + 1 + (two ? 2 : 1);
  if (!OperandCount(i, count, count)) return;
  size_t n = 0;
  if (has_result) {
    op_.operands[0] =
        Result(i.operands[n++], ptx::BytesOf(s_.type), Sink::kAllowed);
  }
  Address(i.operands[n++], false);
  op_.operands[1] = Source(i.operands[n++], s_.type);
  if (two) op_.operands[2] = Source(i.operands[n++], s_.type);
  Finish(suffixes, Flow::kNextUnlessFault);
}

void FunctionLowering::LowerFence(const Instruction& i) {
  Suffixes suffixes(i);
  s_.operation = Operation::kFence;
  // What these order is done when it is issued.
  if (suffixes.Take("proxy")) {
    if (!suffixes.Take("async")) return Unsupported();
    bool is_param = false;
    TakeSpace(suffixes, is_param);
  }
  suffixes.Take("mbarrier_init");
  TakeOrder(suffixes);
  if (!OperandCount(i, 0, 0)) return;
  // It may be all that lanes do while they wait: Warp::Looks().
  Finish(suffixes, Flow::kNextUnlessFault);
}

// The operation has no effect that a program can see.
void FunctionLowering::LowerHint(const Instruction& i) {
  Suffixes suffixes(i);
  s_.operation = Operation::kNothing;
  bool is_param = false;
  TakeSpace(suffixes, is_param);
  for (const std::string_view level : {"L1", "L2"}) suffixes.Take(level);
  suffixes.TakeAllThatBeginWith("L2::");
  Finish(suffixes);
}

}  // namespace carillon::sim
