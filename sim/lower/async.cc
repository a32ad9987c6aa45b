// cp.async and mbarrier.
#include <algorithm>
#include <utility>

#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using ptx::Type;
using Kind = ptx::Operand::Kind;

// A cluster has one block here.
bool TakeShared(Suffixes& suffixes) {
  return suffixes.Take("shared") || suffixes.Take("shared::cta") ||
         suffixes.Take("shared::cluster");
}

}  // namespace

uint8_t FunctionLowering::SharedAddress(const Operand& operand, Slot& base,
                                        Slot& offset) {
  // Address() fills the present operation's own address.
  const Op before = op_;
  op_.space = MemorySpace::kShared;
  Address(operand, false);
  const Op there = std::exchange(op_, before);
  base = there.operands[kAddress];
  offset = constants_->Value(8, static_cast<uint64_t>(there.offset));
  return there.address_bytes;
}

// cp.async.{ca, cg}.shared.global [to], [from], bytes{, read or ignore};
// cp.async.commit_group; cp.async.wait_group n; cp.async.wait_all;
// cp.async.mbarrier.arrive{.noinc}.b64 [at];
// cp.async.bulk.shared.global.mbarrier::complete_tx::bytes [to], [from], bytes,
// [mbarrier].
void FunctionLowering::LowerCopyAsync(const Instruction& i) {
  Suffixes suffixes(i);
  if (!suffixes.Take("async")) return Unsupported();
  if (suffixes.Take("commit_group")) {
    s_.operation = Operation::kCopyCommit;
    if (!OperandCount(i, 0, 0)) return;
    return Finish(suffixes);
  }
  const bool all = suffixes.Take("wait_all");
  if (all || suffixes.Take("wait_group")) {
    s_.operation = Operation::kCopyWait;
    // Those that are in no group yet count as well.
    s_.variant = kCopyWaitAll;
    if (!OperandCount(i, all ? 0 : 1, all ? 0 : 1)) return;
    if (!all) {
      const Operand& groups = i.operands[0];
      if (groups.kind != Kind::kImmediate || groups.is_float) {
        return Fail(groups.at, "{}: how many groups is a constant", i.name);
      }
      s_.variant = static_cast<uint8_t>(
          std::min<uint64_t>(groups.value, kCopyWaitAll - 1));
    }
    return Finish(suffixes);
  }
  if (suffixes.Take("mbarrier")) {
    s_.operation = Operation::kCopyArrive;
    const bool shared = TakeShared(suffixes);
    op_.space = shared ? MemorySpace::kShared : MemorySpace::kGeneric;
    op_.variant = s_.variant = suffixes.Take("noinc") ? 1 : 0;
    if (!suffixes.Take("arrive") || !suffixes.Take("b64")) return Unsupported();
    if (!OperandCount(i, 1, 1)) return;
    Address(i.operands[0], false);
    return Finish(suffixes, Flow::kNextUnlessFault);
  }
  const bool bulk = suffixes.Take("bulk");
  if (suffixes.Take("tensor")) return Unsupported();
  if (!TakeShared(suffixes) || !suffixes.Take("global")) return Unsupported();
  suffixes.TakeAllThatBeginWith("L2::");
  op_.space = MemorySpace::kGlobal;
  if (bulk) {
    s_.operation = Operation::kCopyBulk;
    if (!suffixes.Take("mbarrier::complete_tx::bytes")) return Unsupported();
    if (!OperandCount(i, 4, 4)) return;
    op_.from.register_bytes =
        SharedAddress(i.operands[3], op_.operands[3], op_.operands[5]);
  } else {
    s_.operation = Operation::kCopyAsync;
    const bool large = suffixes.Take("cg");
    if (!large && !suffixes.Take("ca")) return Unsupported();
    if (!OperandCount(i, 3, 4)) return;
    const Operand& bytes = i.operands[2];
    const bool fits = bytes.kind == Kind::kImmediate &&
                      (bytes.value == 16 ||
                       (!large && (bytes.value == 4 || bytes.value == 8)));
    if (!fits) {
      return Fail(bytes.at, "{} copies {} bytes at once", i.name,
                  large ? "16" : "4, 8 or 16");
    }
    op_.variant = static_cast<uint8_t>(bytes.value);
    s_.type = bytes.value == 4   ? Type::kB32
              : bytes.value == 8 ? Type::kB64
                                 : Type::kB128;
  }
  op_.to.register_bytes =
      SharedAddress(i.operands[0], op_.operands[0], op_.operands[1]);
  Address(i.operands[1], false);
  const bool ignores =
      !bulk && i.operands.size() == 4 &&
      i.operands[3].kind == Kind::kRegister &&
      function_.registers[i.operands[3].index].type == Type::kPred;
  op_.operands[2] =
      Source(i.operands[!bulk && !ignores && i.operands.size() == 4 ? 3 : 2],
             Type::kU32);
  if (!bulk) {
    op_.operands[3] = ignores ? PredicateSource(i.operands[3], nullptr)
                              : constants_->Predicate(false);
  }
  Finish(suffixes, Flow::kNextUnlessFault);
}

// mbarrier.init [at], count; .inval [at]; .expect_tx, .complete_tx [at], bytes;
// .arrive, .arrive_drop {state}, [at]{, count}; with .expect_tx: bytes for count;
// .test_wait, .try_wait{.parity} p, [at], state{, hint}; .pending_count n, state.
void FunctionLowering::LowerMbarrier(const Instruction& i) {
  Suffixes suffixes(i);
  s_.operation = Operation::kMbarrier;
  const auto operation = suffixes.TakeOneOf<uint8_t>(
      {{"init", kMbarrierInit},
       {"inval", kMbarrierInvalidate},
       {"arrive", kMbarrierArrive},
       {"arrive_drop", kMbarrierArrive | kMbarrierDrop},
       {"test_wait", kMbarrierTest},
       {"try_wait", kMbarrierTest},
       {"pending_count", kMbarrierPendingCount},
       {"complete_tx", kMbarrierComplete},
       {"expect_tx", kMbarrierExpect}});
  // "mbarrier.arrive.expect_tx" has both.
  const bool expects = operation &&
                       (*operation & kMbarrierOperation) == kMbarrierArrive &&
                       suffixes.Take("expect_tx");
  if (!operation || !suffixes.Take("b64")) return Unsupported();
  s_.variant = *operation;
  if (suffixes.Take("noComplete")) s_.variant |= kMbarrierNoComplete;
  if (suffixes.Take("parity")) s_.variant |= kMbarrierParity;
  op_.variant = s_.variant;
  if (*operation == kMbarrierPendingCount) {
    if (!OperandCount(i, 2, 2)) return;
    op_.operands[0] = Result(i.operands[0], 4);
    op_.operands[1] = Source(i.operands[1], Type::kB64);
    return Finish(suffixes);
  }
  // Each of these does more than they may ask for.
  for (const std::string_view order :
       {"release", "acquire", "relaxed", "cta", "cluster"}) {
    suffixes.Take(order);
  }
  op_.space =
      TakeShared(suffixes) ? MemorySpace::kShared : MemorySpace::kGeneric;
  const uint8_t what = *operation & kMbarrierOperation;
  const bool arrives = what == kMbarrierArrive;
  // An arrive may leave the state out.
  const bool has_result =
      what == kMbarrierTest ||
      (arrives && !i.operands.empty() && i.operands[0].kind != Kind::kAddress);
  const size_t first = has_result ? 1 : 0;
  const size_t least = what == kMbarrierInvalidate || arrives ? 1 : 2;
  const size_t most = what == kMbarrierInvalidate ? 1
                      : what == kMbarrierTest     ? 3
                                                  : 2;
  if (!OperandCount(i, first + least, first + most)) return;
  Address(i.operands[first], false);
  const bool has_count = i.operands.size() > first + 1;
  const Slot one = constants_->Value(4, 1);
  const Slot zero = constants_->Value(4, 0);
  switch (what) {
    case kMbarrierTest:
      op_.operands[0] = PredicateResult(i.operands[0]);
      op_.operands[1] =
          Source(i.operands[2],
                 (s_.variant & kMbarrierParity) != 0 ? Type::kB32 : Type::kB64);
      return Finish(suffixes, Flow::kWait);
    case kMbarrierArrive: {
      if (expects && !has_count) return Unsupported();
      if (has_result) {
        op_.operands[0] = Result(i.operands[0], 8, Sink::kAllowed);
      }
      const Slot given =
          has_count ? Source(i.operands[first + 1], Type::kU32) : one;
      op_.operands[1] = expects ? one : given;
      op_.operands[2] = expects ? given : zero;
      break;
    }
    default:
      if (has_count) op_.operands[1] = Source(i.operands[1], Type::kU32);
      break;
  }
  Finish(suffixes, Flow::kNextUnlessFault);
}

}  // namespace carillon::sim
