#include "sim/timing/op_table.h"

#include <algorithm>
#include <initializer_list>

#include "fmt/format.h"
#include "sim/timing/scoreboard.h"

namespace carillon::sim::timing {
namespace {

using ptx::Type;

CostType TypeOf(const Semantics& s) {
  switch (s.type) {
    case Type::kF64:
      return CostType::kDouble;
    case Type::kF16:
    case Type::kF16x2:
    case Type::kBf16:
    case Type::kBf16x2:
    case Type::kF32:
      return CostType::kFloat;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
      return CostType::kLong;
    default:
      return CostType::kInt;
  }
}

bool IsOneOf(Operation operation, std::initializer_list<Operation> of) {
  return std::ranges::find(of, operation) != of.end();
}

CostClass ClassOf(Operation operation) {
  using enum Operation;
  if (IsOneOf(operation, {kMin, kMax})) return CostClass::kMax;
  if (IsOneOf(operation,
              {kMul, kMulLow, kMulHigh, kMulWide, kMul24Low, kMul24High})) {
    return CostClass::kMul;
  }
  if (IsOneOf(operation,
              {kMadLow, kMadHigh, kMadWide, kMad24Low, kMad24High, kMadLowCarry,
               kMadHighCarry, kSumOfDifferences, kDotProduct4, kDotProduct2,
               kFma, kVideoAdd, kVideoSub, kVideoAverage, kVideoDifference,
               kVideoMin, kVideoMax, kVideoSet})) {
    return CostClass::kMad;
  }
  if (IsOneOf(operation, {kDiv, kRem, kSqrt})) return CostClass::kDiv;
  return CostClass::kAdd;
}

bool IsSpecial(Operation operation) {
  using enum Operation;
  return IsOneOf(operation,
                 {kDivApprox, kRcp, kRsqrt, kSin, kCos, kLog2, kExp2, kTanh});
}

bool IsExchange(Operation operation) {
  using enum Operation;
  return IsOneOf(operation,
                 {kShuffle, kVote, kMatchAny, kMatchAll, kReduce, kTranspose});
}

bool IsMove(Operation operation) {
  using enum Operation;
  return IsOneOf(operation, {kMove, kSelect, kPack, kUnpack, kReadSpecial});
}

// Whether the values have 64 bits, whatever they mean to mov and its like.
bool IsWide(const Semantics& s) {
  return s.type == Type::kF64 || TypeOf(s) == CostType::kLong ||
         (s.operation == Operation::kMulWide && s.register_bytes == 8);
}

Cost Arithmetic(const Semantics& s, const Config& config, Unit* unit) {
  *unit = Unit::kSp;
  if (IsExchange(s.operation)) return config.exchange;
  CostClass cost_class = ClassOf(s.operation);
  CostType type = TypeOf(s);
  if (s.operation == Operation::kConvert && s.from == Type::kF64) {
    type = CostType::kDouble;
  }
  // mov.f64, selp.f64 and comparisons of bits do not need the DP unit.
  if (IsMove(s.operation)) {
    type = IsWide(s) ? CostType::kLong : CostType::kInt;
  }
  if (IsSpecial(s.operation)) {
    *unit = Unit::kSfu;
    if (type != CostType::kDouble) return config.special;
    cost_class = CostClass::kDiv;
  }
  if (cost_class == CostClass::kDiv) {
    *unit = Unit::kSfu;
  } else if (type == CostType::kDouble) {
    *unit = Unit::kDp;
  }
  return config
      .costs[static_cast<size_t>(type)][static_cast<size_t>(cost_class)];
}

// In proportion to the multiply-adds, of which an A100's tensor core does half as
// many in a cycle of tf32 as of f16, a 16th of f64, and twice, four and 16 times
// as many of 8 bits, 4 bits and one.
Cost MatrixCost(const MatrixOperands& matrices, const Config& config) {
  constexpr uint64_t kWhole = 4 * 2048;
  const auto weight = [&]() -> uint64_t {
    switch (matrices.a.type) {
      case MatrixType::kTf32:
      case MatrixType::kB1:  // 32 at once
        return 8;
      case MatrixType::kF64:
        return 64;
      case MatrixType::kS8:
      case MatrixType::kU8:
        return 2;
      case MatrixType::kS4:
      case MatrixType::kU4:
        return 1;
      default:
        return 4;
    }
  };
  const Cost& whole = config.matrix;
  const uint64_t work = matrices.multiply_adds() * weight() * whole.interval;
  const auto interval = static_cast<uint32_t>((work + kWhole - 1) / kWhole);
  const uint32_t rest =
      whole.latency > whole.interval ? whole.latency - whole.interval : 0;
  return {.latency = rest + interval, .interval = interval};
}

// Parameters are in registers or in the constant bank, which arithmetic reads.
bool IsParameter(const Semantics& s) {
  return s.space == MemorySpace::kKernelParam ||
         (s.space == MemorySpace::kLocal && s.variant == 1);
}

// How many sources one bank must deliver at most, less the one that it can.
uint32_t BankConflicts(const std::vector<uint16_t>& reads, uint32_t banks) {
  std::array<uint8_t, 64> used{};
  uint32_t most = 1;
  for (const uint16_t reg : reads) {
    if (reg >= kPredicateRegisters) continue;
    most = std::max<uint32_t>(most, ++used[reg % banks]);
  }
  return most - 1;
}

}  // namespace

absl::StatusOr<std::vector<OpTiming>> BuildOpTable(const Program& program,
                                                   const Config& config) {
  std::vector<OpTiming> table(program.ops.size());
  for (size_t pc = 0; pc < table.size(); ++pc) {
    const OpInfo& info = program.info[pc];
    const Semantics& s = info.semantics;
    OpTiming& t = table[pc];
    const auto add = [&](const std::vector<uint16_t>& registers) {
      for (const uint16_t reg : registers) {
        const uint16_t place = Scoreboard::Place(reg);
        const auto end = t.places.begin() + t.places_used;
        if (std::find(t.places.begin(), end, place) != end) continue;
        if (t.places_used == t.places.size()) return false;
        t.places[t.places_used++] = place;
      }
      return true;
    };
    const bool fits = add(info.writes);
    t.writes = t.places_used;
    if (!fits || !add(info.reads)) {
      return absl::InternalError(fmt::format(
          "{}:{}: {}: has more than {} registers", program.module->file,
          info.at.line, info.name, t.places.size()));
    }
    uint32_t latency = config.operands.latency +
                       BankConflicts(info.reads, config.operands.banks);
    const auto arithmetic = [&] {
      const Cost cost = Arithmetic(s, config, &t.unit);
      latency += cost.latency;
      t.interval = static_cast<uint16_t>(cost.interval);
    };
    switch (s.operation) {
      case Operation::kLoad:
      case Operation::kStore:
      case Operation::kAtomic:
        if (IsParameter(s)) {
          arithmetic();
          break;
        }
        t.unit = Unit::kMemory;
        t.kind = s.operation == Operation::kLoad    ? OpKind::kLoad
                 : s.operation == Operation::kStore ? OpKind::kStore
                                                    : OpKind::kAtomic;
        t.past_l1 = s.order != MemoryOrder::kWeak;
        break;
      case Operation::kLoadMatrix:
      case Operation::kLoadFragment:
        t.unit = Unit::kMemory;
        t.kind = OpKind::kLoad;
        break;
      case Operation::kStoreMatrix:
      case Operation::kStoreFragment:
        t.unit = Unit::kMemory;
        t.kind = OpKind::kStore;
        break;
      case Operation::kMultiply: {
        const Cost cost =
            MatrixCost(program.matrices[program.ops[pc].target], config);
        t.unit = Unit::kTensor;
        latency += cost.latency;
        t.interval = static_cast<uint16_t>(cost.interval);
        break;
      }
      case Operation::kFence:
        t.kind = OpKind::kFence;
        break;
      case Operation::kCopyAsync:
      case Operation::kCopyBulk:
        t.unit = Unit::kMemory;
        t.kind = OpKind::kLoad;
        t.copies = true;
        break;
      case Operation::kCopyCommit:
        t.kind = OpKind::kCommitCopies;
        break;
      case Operation::kCopyWait:
        t.kind = OpKind::kAwaitCopies;
        t.groups = s.variant;
        break;
      case Operation::kCopyArrive:
        t.kind = OpKind::kAwaitCopies;
        t.groups = kCopyWaitAll;
        break;
      case Operation::kMbarrier:
        if (s.variant == kMbarrierPendingCount) {
          arithmetic();
          break;
        }
        t.unit = Unit::kMemory;
        t.kind = s.variant == kMbarrierTest ||
                         s.variant == (kMbarrierTest | kMbarrierParity)
                     ? OpKind::kLoad
                     : OpKind::kAtomic;
        break;
      case Operation::kBarrier:
        t.kind = OpKind::kBarrier;
        break;
      case Operation::kExit:
      case Operation::kTrap:
        t.kind = OpKind::kExit;
        break;
      case Operation::kSleep:
        t.kind = OpKind::kSleep;
        break;
      case Operation::kBranch:
      case Operation::kCall:
      case Operation::kReturn:
        t.kind = OpKind::kControl;
        t.unit = Unit::kSp;
        break;
      case Operation::kWarpBarrier:
      case Operation::kNothing:
        break;
      default:
        arithmetic();
        break;
    }
    t.latency = static_cast<uint16_t>(std::max(latency, 1u));
  }
  return table;
}

}  // namespace carillon::sim::timing
