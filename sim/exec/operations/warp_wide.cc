// What lanes of a warp do with each other (PTX ISA 9.7.9.6, 9.7.13), special
// registers, and fences.
//
// Each handler is called for the lanes of one member mask, when all of them have
// come (Warp::WarpSync()).
#include <atomic>
#include <ctime>

#include "base/clock.h"
#include "fmt/format.h"
#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

void Shuffle(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[3]);
  const uint32_t* const c = warp.From<uint32_t>(op.operands[4]);
  const auto mode = static_cast<ShuffleMode>(op.variant);
  uint32_t read[kLanes];
  LaneMask valid = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t by = b[lane] & 0x1f;
    const uint32_t segment = c[lane] >> 8 & 0x1f;
    const uint32_t clamp = c[lane] & 0x1f;
    const uint32_t most = (lane & segment) | (clamp & ~segment);
    const uint32_t least = lane & segment;
    uint32_t from = 0;
    bool within = false;
    switch (mode) {
      case ShuffleMode::kUp:
        from = lane - by;
        within = static_cast<int32_t>(from) >= static_cast<int32_t>(most);
        break;
      case ShuffleMode::kDown:
        from = lane + by;
        within = from <= most;
        break;
      case ShuffleMode::kButterfly:
        from = lane ^ by;
        within = from <= most;
        break;
      case ShuffleMode::kIndex:
        from = least | (by & ~segment);
        within = from <= most;
        break;
    }
    if (!within) from = lane;
    // A lane that has exited still has the last values in its registers; PTX
    // leaves open what is read.
    read[lane] = a[from & 0x1f];
    valid |= static_cast<LaneMask>(within) << lane;
  }
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [&](uint32_t i) { return read[i]; });
  if (!op.operands[1].is_constant()) {
    warp.SetPredicate(op.operands[1], mask, valid);
  }
}

void Vote(const Op& op, Warp& warp, LaneMask mask) {
  LaneMask votes = warp.Predicate(op.operands[1]);
  if (op.offset != 0) votes = ~votes;
  votes &= mask;
  const auto mode = static_cast<VoteMode>(op.variant);
  if (mode == VoteMode::kBallot) {
    ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
             [=](uint32_t) { return votes; });
    return;
  }
  const bool all = votes == mask;
  const bool any = votes != 0;
  const bool result = mode == VoteMode::kAll   ? all
                      : mode == VoteMode::kAny ? any
                                               : all || !any;
  warp.SetPredicate(op.operands[0], mask, result ? kAllLanes : 0);
}

template <class T>
void MatchAny(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[2]);
  uint32_t same[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    same[lane] = MaskOf([&](uint32_t i) { return a[i] == a[lane]; }) & mask;
  }
  if (op.operands[0].is_constant()) return;  // "_"
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [&](uint32_t i) { return same[i]; });
}
template <class T>
void MatchAll(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[2]);
  const T first = a[__builtin_ctz(mask)];
  const bool all =
      (MaskOf([&](uint32_t i) { return a[i] == first; }) & mask) == mask;
  if (!op.operands[0].is_constant()) {
    ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
             [=](uint32_t) { return all ? mask : 0; });
  }
  if (!op.operands[1].is_constant()) {
    warp.SetPredicate(op.operands[1], mask, all ? kAllLanes : 0);
  }
}

template <class T>
void Reduce(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  T result = a[__builtin_ctz(mask)];
  for (LaneMask left = mask & (mask - 1); left != 0; left &= left - 1) {
    const T value = a[__builtin_ctz(left)];
    switch (static_cast<AtomicOperation>(op.variant)) {
      case AtomicOperation::kAdd:
        result = static_cast<T>(static_cast<uint32_t>(result) +
                                static_cast<uint32_t>(value));
        break;
      case AtomicOperation::kMin:
        result = value < result ? value : result;
        break;
      case AtomicOperation::kMax:
        result = value > result ? value : result;
        break;
      case AtomicOperation::kAnd:
        result &= value;
        break;
      case AtomicOperation::kOr:
        result |= value;
        break;
      default:
        result ^= value;
        break;
    }
  }
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t) { return result; });
}

void ActiveMask(const Op& op, Warp& warp, LaneMask mask) {
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [=](uint32_t) { return mask; });
}

void Fence(const Op& op, Warp& warp, LaneMask mask) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  warp.Looks(op, mask, 0);
}

void Nothing(const Op&, Warp&, LaneMask) {}

template <class T, class F>
void Special32(const Op& op, Warp& warp, LaneMask mask, F value) {
  ForLanes(mask, warp.To<T>(op.operands[0]),
           [&](uint32_t i) { return static_cast<T>(value(i)); });
}

uint64_t Nanoseconds(const Core& core, uint64_t clock) {
  return core.nanoseconds ? core.nanoseconds() : clock;
}

// T is the register's type, as wide as the value or wider.
template <class T>
void ReadSpecial(const Op& op, Warp& warp, LaneMask mask) {
  const Launch& launch = warp.launch();
  Core& core = warp.core();
  const auto all = [&](uint64_t value) {
    Special32<T>(op, warp, mask, [=](uint32_t) { return value; });
  };
  const auto each = [&](auto value) { Special32<T>(op, warp, mask, value); };
  const auto& tid = warp.thread_index();
  // The steps of this run are added to the core's clock, so that time advances
  // with every instruction.
  const uint64_t clock = core.clock + warp.steps();
  switch (static_cast<Special>(op.variant)) {
    case Special::kTidX:
      return each([&](uint32_t i) { return tid[0][i]; });
    case Special::kTidY:
      return each([&](uint32_t i) { return tid[1][i]; });
    case Special::kTidZ:
      return each([&](uint32_t i) { return tid[2][i]; });
    case Special::kNtidX:
      return all(launch.block.x);
    case Special::kNtidY:
      return all(launch.block.y);
    case Special::kNtidZ:
      return all(launch.block.z);
    case Special::kCtaidX:
      return all(warp.block().index().x);
    case Special::kCtaidY:
      return all(warp.block().index().y);
    case Special::kCtaidZ:
      return all(warp.block().index().z);
    case Special::kNctaidX:
      return all(launch.grid.x);
    case Special::kNctaidY:
      return all(launch.grid.y);
    case Special::kNctaidZ:
      return all(launch.grid.z);
    case Special::kLaneId:
      return each([](uint32_t i) { return i; });
    case Special::kWarpId:
      return all(warp.index());
    case Special::kNwarpId:
      return all(launch.block_warps());
    case Special::kSmId:
      return all(core.sm);
    case Special::kNsmId:
      return all(core.sms);
    case Special::kGridId:
      return all(launch.id);
    case Special::kGraphExec:
      return all(launch.graph_exec);
    case Special::kLanemaskEq:
      return each([](uint32_t i) { return 1u << i; });
    case Special::kLanemaskLe:
      return each([](uint32_t i) { return ~0u >> (31 - i); });
    case Special::kLanemaskLt:
      return each([](uint32_t i) { return (1u << i) - 1; });
    case Special::kLanemaskGe:
      return each([](uint32_t i) { return ~0u << i; });
    case Special::kLanemaskGt:
      return each([](uint32_t i) { return ~0u << i << 1; });
    case Special::kClock:
      ++core.time_reads;
      return all(static_cast<uint32_t>(clock));
    case Special::kClockHi:
      ++core.time_reads;
      return all(clock >> 32);
    case Special::kClock64:
      ++core.time_reads;
      return all(clock);
    case Special::kGlobalTimer:
      ++core.time_reads;
      return all(Nanoseconds(core, clock));
    case Special::kGlobalTimerLo:
      ++core.time_reads;
      return all(static_cast<uint32_t>(Nanoseconds(core, clock)));
    case Special::kGlobalTimerHi:
      ++core.time_reads;
      return all(Nanoseconds(core, clock) >> 32);
    case Special::kDynamicSharedBytes:
      return all(launch.dynamic_shared_bytes);
    case Special::kTotalSharedBytes:
      return all(launch.shared_bytes());
    case Special::kGridWorkspaceLow:
      return all(static_cast<uint32_t>(launch.grid_workspace));
    case Special::kGridWorkspaceHigh:
      return all(launch.grid_workspace >> 32);
    case Special::kFrameAddress:
      return all(warp.local_base() + static_cast<uint64_t>(op.offset));
  }
}

void IsInSpace(const Op& op, Warp& warp, LaneMask mask) {
  const uint64_t* const a = warp.From<uint64_t>(op.operands[1]);
  const auto space = static_cast<MemorySpace>(op.variant);
  warp.SetPredicate(op.operands[0], mask, MaskOf([=](uint32_t i) {
                      const uint64_t window = a[i] & ~(kWindowBytes - 1);
                      switch (space) {
                        case MemorySpace::kShared:
                          return window == kSharedWindow;
                        case MemorySpace::kLocal:
                          return window == kLocalWindow;
                        case MemorySpace::kKernelParam:
                          return window == kParamWindow;
                        default:
                          return window != kSharedWindow &&
                                 window != kLocalWindow &&
                                 window != kParamWindow;
                      }
                    }));
}

}  // namespace

Handler FindWarpWide(const Semantics& s) {
  switch (s.operation) {
    case Operation::kShuffle:
      return &Shuffle;
    case Operation::kVote:
      return &Vote;
    case Operation::kMatchAny:
      return ptx::BytesOf(s.type) == 8 ? &MatchAny<uint64_t>
                                       : &MatchAny<uint32_t>;
    case Operation::kMatchAll:
      return ptx::BytesOf(s.type) == 8 ? &MatchAll<uint64_t>
                                       : &MatchAll<uint32_t>;
    case Operation::kReduce:
      return s.type == Type::kS32 ? &Reduce<int32_t> : &Reduce<uint32_t>;
    case Operation::kIsInSpace:
      return &IsInSpace;
    case Operation::kActiveMask:
      return &ActiveMask;
    case Operation::kFence:
      return &Fence;
    case Operation::kWarpBarrier:
    case Operation::kSleep:
    case Operation::kNothing:
      return &Nothing;
    case Operation::kReadSpecial:
      switch (s.register_bytes) {
        case 2:
          return &ReadSpecial<uint16_t>;
        case 4:
          return &ReadSpecial<uint32_t>;
        case 8:
          return &ReadSpecial<uint64_t>;
        default:
          return nullptr;
      }
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
