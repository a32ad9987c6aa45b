// cp.async and mbarrier (PTX ISA 9.7.9.25 and 9.7.13.15). A copy is done when it
// is issued, so nobody ever waits for one; a phase of an mbarrier is waited for.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "sim/exec/access_faults.h"
#include "sim/exec/mbarrier.h"
#include "sim/exec/operations/access.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

using Value = std::array<std::byte, 16>;

template <class F>
void ForEachLane(LaneMask mask, F f) {
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    f(static_cast<uint32_t>(__builtin_ctz(left)));
  }
}

// Other processes may write there meanwhile.
void LoadOnce(const std::byte* from, uint32_t bytes, std::byte* to) {
  const auto load = [&]<class T>(T) {
    for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
      const T part = __atomic_load_n(reinterpret_cast<const T*>(from + at),
                                     __ATOMIC_RELAXED);
      std::memcpy(to + at, &part, sizeof(T));
    }
  };
  if (bytes % 8 == 0) return load(uint64_t{});
  if (bytes == 4) return load(uint32_t{});
  load(uint8_t{});
}

// The operation at its other address, in shared memory: `base` is a register of
// so many bytes, `offset` a constant.
Op AtShared(const Op& op, Slot base, Slot offset, uint8_t bytes,
            const Warp& warp) {
  Op other = op;
  other.space = MemorySpace::kShared;
  other.operands[kAddress] = base;
  other.offset = *warp.From<int64_t>(offset);
  other.address_bytes = bytes;
  other.elements = 1;
  return other;
}

// Loads what the lanes copy. Lanes of `whole` read all of `bytes`, others as
// many as `counts` says. Core::access then has all of them.
bool LoadSources(const Op& op, Warp& warp, LaneMask whole, LaneMask some,
                 uint32_t bytes, const std::array<uint32_t, kLanes>& counts,
                 std::array<Value, kLanes>& values) {
  Core& core = warp.core();
  std::array<uint64_t, kLanes> addresses{};
  if (whole != 0) {
    if (!Resolve(op, warp, whole, bytes, false, false)) return false;
    addresses = core.access.address;
    ForEachLane(whole, [&](uint32_t lane) {
      LoadOnce(core.At(lane), bytes, values[lane].data());
    });
  }
  for (uint32_t byte = 0; some != 0 && byte < bytes; ++byte) {
    LaneMask lanes = 0;
    ForEachLane(some, [&](uint32_t lane) {
      if (byte < counts[lane]) lanes |= LaneMask{1} << lane;
    });
    if (lanes == 0) break;
    Op one = op;
    one.offset += byte;
    if (!Resolve(one, warp, lanes, 1, false, false)) return false;
    ForEachLane(lanes, [&](uint32_t lane) {
      LoadOnce(core.At(lane), 1, values[lane].data() + byte);
      if (byte == 0) addresses[lane] = core.access.address[lane];
    });
    if (byte != 0) continue;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) != 0 && addresses[lane] % bytes != 0) {
        return Misaligned(op, warp, lanes, bytes);
      }
    }
  }
  core.access.mask = whole | some;
  core.access.bytes = bytes;
  if (core.access.mask != 0) {
    const auto first = static_cast<uint32_t>(__builtin_ctz(core.access.mask));
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const bool reads = (core.access.mask >> lane & 1) != 0;
      core.access.address[lane] = addresses[reads ? lane : first];
    }
  }
  return true;
}

// cp.async [0 + 1], [address], variant, 2, 3: operand 2 says how many bytes
// there are to read, 3 is the predicate that ignores them; zeros follow.
void CopyAsync(const Op& op, Warp& warp, LaneMask mask) {
  Core& core = warp.core();
  const uint32_t bytes = op.variant;
  const uint32_t* const given = warp.From<uint32_t>(op.operands[2]);
  const LaneMask ignores = warp.Predicate(op.operands[3]);
  std::array<uint32_t, kLanes> counts{};
  LaneMask whole = 0;
  LaneMask some = 0;
  LaneMask wrong = 0;
  ForEachLane(mask, [&](uint32_t lane) {
    const LaneMask bit = LaneMask{1} << lane;
    counts[lane] = (ignores & bit) != 0 ? 0 : given[lane];
    if (counts[lane] > bytes) wrong |= bit;
    if (counts[lane] == bytes) whole |= bit;
    if (counts[lane] != 0 && counts[lane] < bytes) some |= bit;
  });
  if (wrong != 0) {
    return warp.Fail(op, wrong,
                     fmt::format("reads {} bytes, where {} are copied",
                                 given[__builtin_ctz(wrong)], bytes));
  }
  std::array<Value, kLanes> values{};
  if (!LoadSources(op, warp, whole, some, bytes, counts, values)) return;
  const Access loads = core.access;
  const Op to =
      AtShared(op, op.operands[0], op.operands[1], op.to.register_bytes, warp);
  if (!Resolve(to, warp, mask, bytes, true, false)) return;
  ForEachLane(mask, [&](uint32_t lane) {
    std::memcpy(core.At(lane), values[lane].data(), bytes);
  });
  ++core.writes;
  // A model of time asks about the loads, if there are any.
  if ((whole | some) != 0) core.access = loads;
}

// --- mbarrier.

// Finds the lanes' mbarriers. They do not go through weak memory: what their
// instructions order is done after them (WeakMemory::After()).
bool ResolveMbarriers(const Op& op, Warp& warp, LaneMask mask, bool store) {
  Core& core = warp.core();
  WeakMemory* const weak = std::exchange(core.weak, nullptr);
  const bool found = Resolve(op, warp, mask, sizeof(uint64_t), store, store);
  core.weak = weak;
  if (found && core.access.space != MemorySpace::kShared) {
    warp.Fail(op, mask, "an mbarrier lies in shared memory");
    return false;
  }
  return found;
}
uint64_t BitsAt(const Core& core, uint32_t lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, core.At(lane), sizeof(bits));
  return bits;
}

// Calls change(mbarrier, lane), which returns what is wrong, for one lane after
// the other. Returns false after a failure.
template <class F>
bool ChangeMbarriers(const Op& op, Warp& warp, LaneMask mask, F change) {
  if (!ResolveMbarriers(op, warp, mask, true)) return false;
  Core& core = warp.core();
  bool fine = true;
  ForEachLane(mask, [&](uint32_t lane) {
    if (!fine) return;
    auto barrier = Mbarrier::Of(BitsAt(core, lane));
    const std::string wrong =
        barrier ? change(*barrier, lane)
                : std::string("there is no initialized mbarrier");
    if (!wrong.empty()) {
      fine = false;
      return warp.Fail(op, LaneMask{1} << lane,
                       fmt::format("shared address {:#x}: {}",
                                   core.access.address[lane], wrong));
    }
    const uint64_t bits = barrier->bits();
    std::memcpy(core.At(lane), &bits, sizeof(bits));
  });
  ++core.writes;
  return fine;
}

void InitMbarrier(const Op& op, Warp& warp, LaneMask mask) {
  if (!ResolveMbarriers(op, warp, mask, true)) return;
  Core& core = warp.core();
  const bool begins = op.variant == kMbarrierInit;
  const uint32_t* const counts = warp.From<uint32_t>(op.operands[1]);
  ForEachLane(mask, [&](uint32_t lane) {
    if (begins && (counts[lane] == 0 || counts[lane] > Mbarrier::kMaxCount)) {
      return warp.Fail(op, LaneMask{1} << lane,
                       fmt::format("an mbarrier for {} arrivals: must be from "
                                   "1 to {}",
                                   counts[lane], Mbarrier::kMaxCount));
    }
    const uint64_t bits = begins ? Mbarrier(counts[lane]).bits() : 0;
    std::memcpy(core.At(lane), &bits, sizeof(bits));
  });
  ++core.writes;
}

// Operand 0 receives the state before, 1 says how many arrive, 2 how many bytes
// are expected.
void Arrive(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const counts = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const bytes = warp.From<uint32_t>(op.operands[2]);
  std::array<uint64_t, kLanes> states;
  const bool fine =
      ChangeMbarriers(op, warp, mask, [&](Mbarrier& barrier, uint32_t lane) {
        states[lane] = barrier.bits();
        std::string wrong = barrier.Expect(bytes[lane]);
        if (!wrong.empty()) return wrong;
        return barrier.Arrive(counts[lane], (op.variant & kMbarrierDrop) != 0,
                              (op.variant & kMbarrierNoComplete) == 0);
      });
  if (!fine || op.operands[0].is_constant()) return;
  ForLanes(mask, warp.To<uint64_t>(op.operands[0]),
           [&](uint32_t lane) { return states[lane]; });
}

void Expect(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const bytes = warp.From<uint32_t>(op.operands[1]);
  const int64_t sign = op.variant == kMbarrierComplete ? -1 : 1;
  ChangeMbarriers(op, warp, mask, [&](Mbarrier& barrier, uint32_t lane) {
    return barrier.Expect(sign * int64_t{bytes[lane]});
  });
}

// The predicate: whether the phase has completed that operand 1 names, a state
// or a parity.
void TestWait(const Op& op, Warp& warp, LaneMask mask) {
  if (!ResolveMbarriers(op, warp, mask, false)) return;
  Core& core = warp.core();
  const bool by_parity = (op.variant & kMbarrierParity) != 0;
  LaneMask done = 0;
  LaneMask wrong = 0;
  ForEachLane(mask, [&](uint32_t lane) {
    const auto barrier = Mbarrier::Of(BitsAt(core, lane));
    bool phase = false;
    bool known = true;
    if (by_parity) {
      phase = (warp.From<uint32_t>(op.operands[1])[lane] & 1) != 0;
    } else {
      const auto then = Mbarrier::Of(warp.From<uint64_t>(op.operands[1])[lane]);
      known = then.has_value();
      phase = known && then->phase();
    }
    if (!barrier || !known) {
      wrong |= LaneMask{1} << lane;
    } else if (barrier->phase() != phase) {
      done |= LaneMask{1} << lane;
    }
  });
  if (wrong != 0) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(wrong));
    return warp.Fail(
        op, wrong,
        fmt::format("shared address {:#x}: {}", core.access.address[lane],
                    Mbarrier::Of(BitsAt(core, lane))
                        ? "no arrive has returned that state"
                        : "there is no initialized mbarrier"));
  }
  warp.SetPredicate(op.operands[0], mask, done);
  if (const LaneMask waits = mask & ~done; waits != 0) {
    warp.WaitForPhase(
        op, core.access.address[static_cast<uint32_t>(__builtin_ctz(waits))]);
  } else {
    warp.PhaseCompleted();
  }
}

void PendingCount(const Op& op, Warp& warp, LaneMask mask) {
  const uint64_t* const states = warp.From<uint64_t>(op.operands[1]);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t lane) {
    return static_cast<uint32_t>(states[lane]) & Mbarrier::kMaxCount;
  });
}

// cp.async.mbarrier.arrive: its copies are done, so without .noinc it takes back
// at once what it adds to the count.
void ArriveForCopies(const Op& op, Warp& warp, LaneMask mask) {
  ChangeMbarriers(op, warp, mask, [&](Mbarrier& barrier, uint32_t) {
    return op.variant != 0 ? barrier.Arrive(1, false, true) : std::string();
  });
}

// cp.async.bulk [0 + 1], [address], 2, [3 + 5].
void CopyBulk(const Op& op, Warp& warp, LaneMask mask) {
  Core& core = warp.core();
  const uint32_t* const sizes = warp.From<uint32_t>(op.operands[2]);
  constexpr uint32_t kStep = sizeof(Value);
  Access loads;
  bool fine = true;
  ForEachLane(mask, [&](uint32_t lane) {
    if (!fine) return;
    const LaneMask bit = LaneMask{1} << lane;
    if (sizes[lane] % kStep != 0) {
      fine = false;
      return warp.Fail(op, bit,
                       fmt::format("copies {} bytes: must be a multiple of {}",
                                   sizes[lane], kStep));
    }
    Op from = op;
    Op to = AtShared(op, op.operands[0], op.operands[1], op.to.register_bytes,
                     warp);
    for (uint32_t at = 0; fine && at < sizes[lane]; at += kStep) {
      Value value;
      fine = Resolve(from, warp, bit, kStep, false, false);
      if (!fine) return;
      if (at == 0) loads = core.access;
      LoadOnce(core.At(lane), kStep, value.data());
      WeakMemory* const weak = std::exchange(core.weak, nullptr);
      fine = Resolve(to, warp, bit, kStep, true, false);
      core.weak = weak;
      if (!fine) return;
      std::memcpy(core.At(lane), value.data(), kStep);
      from.offset += kStep;
      to.offset += kStep;
    }
    // The transaction counts what a model of time sees: up to 32 places, evenly
    // apart.
    const uint32_t places = std::min<uint32_t>((sizes[lane] + 31) / 32, kLanes);
    if (places == 0) return;
    const uint32_t apart = (sizes[lane] / places + 31) / 32 * 32;
    const uint64_t first = loads.address[lane];
    for (uint32_t i = 0; i < kLanes; ++i) {
      loads.address[i] = first + (i < places ? i * apart : 0);
    }
    loads.mask = static_cast<LaneMask>((uint64_t{1} << places) - 1);
  });
  if (!fine) return;
  const Op barrier = AtShared(op, op.operands[3], op.operands[5],
                              op.from.register_bytes, warp);
  ChangeMbarriers(barrier, warp, mask, [&](Mbarrier& at, uint32_t lane) {
    return at.Expect(-int64_t{sizes[lane]});
  });
  if (loads.mask != 0) core.access = loads;
}

void Nothing(const Op& /*op*/, Warp& /*warp*/, LaneMask /*mask*/) {}

}  // namespace

Handler FindAsync(const Semantics& s) {
  switch (s.operation) {
    case Operation::kCopyAsync:
      return &CopyAsync;
    case Operation::kCopyBulk:
      return &CopyBulk;
    case Operation::kCopyCommit:
    case Operation::kCopyWait:
      return &Nothing;
    case Operation::kCopyArrive:
      return &ArriveForCopies;
    case Operation::kMbarrier:
      break;
    default:
      return nullptr;
  }
  switch (s.variant & kMbarrierOperation) {
    case kMbarrierInit:
    case kMbarrierInvalidate:
      return &InitMbarrier;
    case kMbarrierExpect:
    case kMbarrierComplete:
      return &Expect;
    case kMbarrierArrive:
      return &Arrive;
    case kMbarrierTest:
      return &TestWait;
    default:
      return &PendingCount;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
