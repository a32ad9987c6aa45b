// Branches, calls, barriers, and what lanes of a warp do together.
#include <bit>

#include "fmt/format.h"
#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;

// `name`(), or `name`_on(u32 barrier).
bool TakesBarrier(const ptx::Function& function, std::string_view name) {
  const auto& parameters = function.parameters;
  if (!function.results.empty()) return false;
  if (function.name == name) return parameters.empty();
  return function.name == fmt::format("{}_on", name) &&
         parameters.size() == 1 && parameters[0].bytes == 4;
}

}  // namespace

void FunctionLowering::LowerBranch(const Instruction& i) {
  Suffixes suffixes(i);
  suffixes.Take("uni");  // a promise that is not needed
  s_.operation = Operation::kBranch;
  if (!OperandCount(i, 1, 1)) return;
  if (i.operands[0].kind != Kind::kLabel) {
    return Fail(i.operands[0].at, "'{}' is no label", i.operands[0].name);
  }
  op_.target = entry_ + i.operands[0].index;
  if (i.guard) {
    const uint32_t meet = flow_.MeetingPoint(op_.pc - entry_);
    if (meet != ptx::kNoBlock) op_.reconverge = entry_ + meet;
  }
  Finish(suffixes, Flow::kBranch);
}

// call (results), function, (arguments).
void FunctionLowering::LowerCall(const Instruction& i) {
  Suffixes suffixes(i);
  suffixes.Take("uni");
  s_.operation = Operation::kCall;
  Call call;
  const ptx::Function* callee = nullptr;
  const ptx::Prototype* prototype = nullptr;
  for (const Operand& operand : i.operands) {
    if (operand.kind == Kind::kFunction) {
      callee = &module_.functions[operand.index];
      call.function = operand.index;
    } else if (operand.kind == Kind::kRegister && !call.by_address) {
      call.by_address = true;
      op_.operands[0] = Source(operand, Type::kU64);
    } else if (operand.kind == Kind::kPrototype && call.by_address) {
      prototype = &function_.prototypes[operand.index];
    } else if (operand.kind == Kind::kTuple) {
      for (const Operand& part : operand.parts) {
        (callee == nullptr && !call.by_address ? call.results : call.arguments)
            .push_back(InFrame(part));
      }
    } else {
      return Fail(operand.at, "'{}' is no function", operand.name);
    }
  }
  if (failed()) return;
  if (call.by_address ? prototype == nullptr : callee == nullptr) {
    return Fail(i.at, "a call names a function, or an address and a prototype");
  }
  const std::string_view name =
      call.by_address ? "the prototype" : callee->name;
  const auto check = [&](const std::vector<FrameVariable>& given,
                         const std::vector<ptx::Variable>& wanted,
                         std::string_view what) {
    if (given.size() != wanted.size()) {
      return Fail(i.at, "'{}' has {} {}, not {}", name, wanted.size(), what,
                  given.size());
    }
    for (size_t n = 0; n < given.size(); ++n) {
      if (given[n].bytes == wanted[n].bytes) continue;
      Fail(i.at, "{} {} of '{}' has {} bytes, not {}", what, n + 1, name,
           wanted[n].bytes, given[n].bytes);
    }
  };
  const auto& parameters =
      call.by_address ? prototype->parameters : callee->parameters;
  const auto& results = call.by_address ? prototype->results : callee->results;
  check(call.arguments, parameters, "parameters");
  check(call.results, results, "results");
  if (callee != nullptr && !callee->defined) {
    const auto takes = [&](std::string_view function,
                           const std::vector<uint32_t>& arguments,
                           const std::vector<uint32_t>& returns) {
      return callee->name == function &&
             std::ranges::equal(call.arguments, arguments, {},
                                &FrameVariable::bytes) &&
             std::ranges::equal(call.results, returns, {},
                                &FrameVariable::bytes);
    };
    if (callee->name == "vprintf" && call.arguments.size() == 2) {
      call.builtin = Builtin::kPrintf;
    } else if (takes("malloc", {8}, {8})) {
      call.builtin = Builtin::kMalloc;
    } else if (takes("__cuda_syscall_aligned_malloc", {8, 8}, {8})) {
      call.builtin = Builtin::kAlignedMalloc;
    } else if (takes("free", {8}, {})) {
      call.builtin = Builtin::kFree;
    } else if (callee->name == "__assertfail" && !call.arguments.empty()) {
      call.builtin = Builtin::kAssertFail;
    } else if (TakesBarrier(*callee, "__wait_threads")) {
      call.builtin = Builtin::kWaitThreads;
    } else if (TakesBarrier(*callee, "__release_threads")) {
      call.builtin = Builtin::kReleaseThreads;
    } else if (placement_.device_graphs && callee->name == "cudaGraphLaunch" &&
               call.arguments.size() == 2 && call.results.size() == 1 &&
               call.results[0].bytes == 4) {
      call.builtin = Builtin::kGraphLaunch;
    } else {
      Unsupported(
          i.at,
          "'{}' is not defined here: of CUDA's own functions there are "
          "printf, assert, malloc and free, of EDGE's __wait_threads() "
          "and __release_threads(), and both with _on(unsigned "
          "barrier){}",
          callee->name,
          callee->name.starts_with("cuda") || callee->name.starts_with("__cuda")
              ? "; kernels do not launch others here"
              : "");
    }
  }
  op_.target = static_cast<Pc>(program_->calls.size());
  program_->calls.push_back(std::move(call));
  Finish(suffixes, Flow::kCall);
}

void FunctionLowering::LowerLeave(const Instruction& i) {
  Suffixes suffixes(i);
  suffixes.Take("uni");
  if (!OperandCount(i, 0, 0)) return;
  if (i.opcode == "trap") {
    s_.operation = Operation::kTrap;
    Finish(suffixes, Flow::kTrap);
  } else if (i.opcode == "exit") {
    s_.operation = Operation::kExit;
    Finish(suffixes, Flow::kExit);
  } else {
    s_.operation = Operation::kReturn;
    Finish(suffixes, Flow::kReturn);
  }
}

// bar.sync a{, b}; bar.arrive a, b; bar.red.popc.u32 d, a{, b}, {!}c;
// bar.warp.sync mask.
void FunctionLowering::LowerBarrier(const Instruction& i) {
  Suffixes suffixes(i);
  if (suffixes.Take("warp")) {
    suffixes.Take("sync");
    s_.operation = Operation::kWarpBarrier;
    if (!OperandCount(i, 1, 1)) return;
    op_.operands[0] = Source(i.operands[0], Type::kB32);
    Finish(suffixes, Flow::kWarpSync);
    return;
  }
  s_.operation = Operation::kBarrier;
  if (suffixes.Take("cluster")) return Unsupported();
  suffixes.Take("cta");
  suffixes.Take("aligned");
  BarrierMode mode = BarrierMode::kSync;
  size_t first = 0;
  if (suffixes.Take("red")) {
    const auto reduction =
        suffixes.TakeOneOf<BarrierMode>({{"popc", BarrierMode::kCount},
                                         {"and", BarrierMode::kAnd},
                                         {"or", BarrierMode::kOr}});
    const auto type = suffixes.TakeType();
    if (!reduction || !type) {
      return Fail(i.at, "{}: needs .popc, .and or .or, and a type", i.name);
    }
    mode = *reduction;
    if (!OperandCount(i, 3, 4)) return;
    op_.operands[0] = mode == BarrierMode::kCount
                          ? Result(i.operands[0], 4)
                          : PredicateResult(i.operands[0]);
    bool negated = false;
    op_.operands[3] = PredicateSource(i.operands.back(), &negated);
    op_.offset = negated ? 1 : 0;
    first = 1;
  } else if (suffixes.Take("arrive")) {
    mode = BarrierMode::kArrive;
    if (!OperandCount(i, 2, 2)) return;
  } else if (suffixes.Take("sync")) {
    if (!OperandCount(i, 1, 2)) return;
  } else {
    return Unsupported();
  }
  op_.variant = static_cast<uint8_t>(mode);
  op_.operands[1] = Source(i.operands[first], Type::kB32);
  const size_t counted =
      i.operands.size() - first -
      (mode == BarrierMode::kCount || mode == BarrierMode::kAnd ||
               mode == BarrierMode::kOr
           ? 1
           : 0);
  op_.operands[2] = counted > 1 ? Source(i.operands[first + 1], Type::kB32)
                                : Slot::Constant(0);
  Finish(suffixes, Flow::kBarrier);
}

void FunctionLowering::LowerSleep(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.operation = Operation::kSleep;
  if (!OperandCount(i, 1, 1)) return;
  op_.operands[0] = Source(i.operands[0], Type::kU32);
  Finish(suffixes, Flow::kYield);
}

// alloca.type ptr, size{, align}; stacksave.type d; stackrestore.type a.
void FunctionLowering::LowerStack(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  s_.operation = Operation::kStack;
  const uint32_t bytes = ptx::BytesOf(s_.type);
  if (s_.type != Type::kU32 && s_.type != Type::kU64) return Unsupported();
  op_.address_bytes = static_cast<uint8_t>(bytes);
  StackChange change = StackChange::kAllocate;
  if (i.opcode == "stackrestore") {
    change = StackChange::kRestore;
    if (!OperandCount(i, 1, 1)) return;
    op_.operands[1] = Source(i.operands[0], s_.type);
  } else {
    const bool save = i.opcode == "stacksave";
    if (save) change = StackChange::kSave;
    if (!OperandCount(i, save ? 1 : 2, save ? 1 : 3)) return;
    op_.operands[0] = Result(i.operands[0], bytes);
    if (!save) op_.operands[1] = Source(i.operands[1], s_.type);
  }
  op_.offset = 8;  // the default alignment
  if (i.operands.size() == 3) {
    const Operand& align = i.operands[2];
    if (align.kind != Kind::kImmediate || !std::has_single_bit(align.value) ||
        align.value > kMaxLocalBytes) {
      return Fail(align.at, "'{}' is no alignment: a power of two", align.name);
    }
    op_.offset = static_cast<int64_t>(align.value);
  }
  op_.variant = static_cast<uint8_t>(change);
  Finish(suffixes, Flow::kStack);
}

// shfl.sync.mode.b32 d{|p}, a, b, c, members.
void FunctionLowering::LowerShuffle(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const bool sync = suffixes.Take("sync");
  const auto mode =
      suffixes.TakeOneOf<ShuffleMode>({{"up", ShuffleMode::kUp},
                                       {"down", ShuffleMode::kDown},
                                       {"bfly", ShuffleMode::kButterfly},
                                       {"idx", ShuffleMode::kIndex}});
  if (!sync || !mode || s_.type != Type::kB32) {
    return Unsupported();
  }
  s_.operation = Operation::kShuffle;
  op_.variant = static_cast<uint8_t>(*mode);
  if (!OperandCount(i, 5, 5)) return;
  const Operand& to = i.operands[0];
  op_.operands[0] = Result(to.kind == Kind::kPair ? to.parts[0] : to, 4);
  if (to.kind == Kind::kPair) {
    op_.operands[1] = PredicateResult(to.parts[1], Sink::kAllowed);
  }
  for (size_t n = 1; n < 5; ++n) {
    op_.operands[n + 1] = Source(i.operands[n], Type::kB32);
  }
  op_.members = 5;
  Finish(suffixes, Flow::kWarpSync);
}

// vote.sync.mode.pred d, {!}a, members.
void FunctionLowering::LowerVote(const Instruction& i) {
  Suffixes suffixes(i);
  const bool sync = suffixes.Take("sync");
  const auto mode =
      suffixes.TakeOneOf<VoteMode>({{"all", VoteMode::kAll},
                                    {"any", VoteMode::kAny},
                                    {"uni", VoteMode::kUniform},
                                    {"ballot", VoteMode::kBallot}});
  TakeType(suffixes);
  if (!sync || !mode) {
    return Unsupported();
  }
  s_.operation = Operation::kVote;
  op_.variant = static_cast<uint8_t>(*mode);
  if (!OperandCount(i, 3, 3)) return;
  op_.operands[0] = *mode == VoteMode::kBallot ? Result(i.operands[0], 4)
                                               : PredicateResult(i.operands[0]);
  bool negated = false;
  op_.operands[1] = PredicateSource(i.operands[1], &negated);
  op_.offset = negated ? 1 : 0;
  op_.operands[2] = Source(i.operands[2], Type::kB32);
  op_.members = 2;
  Finish(suffixes, Flow::kWarpSync);
}

// match.any.sync.b32 d, a, members; match.all.sync.b32 d{|p}, a, members.
void FunctionLowering::LowerMatch(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  const auto all = suffixes.TakeOneOf<bool>({{"all", true}, {"any", false}});
  const uint32_t bytes = ptx::BytesOf(s_.type);
  if (!suffixes.Take("sync") || !all || (bytes != 4 && bytes != 8)) {
    return Unsupported();
  }
  s_.operation = *all ? Operation::kMatchAll : Operation::kMatchAny;
  if (!OperandCount(i, 3, 3)) return;
  const Operand& to = i.operands[0];
  op_.operands[0] =
      Result(to.kind == Kind::kPair ? to.parts[0] : to, 4, Sink::kAllowed);
  if (to.kind == Kind::kPair) {
    op_.operands[1] = PredicateResult(to.parts[1], Sink::kAllowed);
  }
  op_.operands[2] = Source(i.operands[1], s_.type);
  op_.operands[3] = Source(i.operands[2], Type::kB32);
  op_.members = 3;
  Finish(suffixes, Flow::kWarpSync);
}

void FunctionLowering::LowerReduce(const Instruction& i) {
  Suffixes suffixes(i);
  const bool sync = suffixes.Take("sync");
  const auto operation =
      suffixes.TakeOneOf<AtomicOperation>({{"add", AtomicOperation::kAdd},
                                           {"min", AtomicOperation::kMin},
                                           {"max", AtomicOperation::kMax},
                                           {"and", AtomicOperation::kAnd},
                                           {"or", AtomicOperation::kOr},
                                           {"xor", AtomicOperation::kXor}});
  TakeType(suffixes);
  if (!sync || !operation || ptx::BytesOf(s_.type) != 4 ||
      s_.type == Type::kF32) {
    return Unsupported();
  }
  op_.variant = static_cast<uint8_t>(*operation);
  op_.members = 2;
  Mixed(i, suffixes, Operation::kReduce, 4, {s_.type, Type::kB32},
        Flow::kWarpSync);
}

void FunctionLowering::LowerActiveMask(const Instruction& i) {
  Suffixes suffixes(i);
  TakeType(suffixes);
  Mixed(i, suffixes, Operation::kActiveMask, 4, {});
}

}  // namespace carillon::sim
