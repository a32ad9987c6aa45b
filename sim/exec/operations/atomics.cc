// atom and red (PTX ISA 9.7.13). Lanes execute one by one, the lowest first.
// Another process may share the memory, so each access is an atomic operation
// of the host.
#include <array>
#include <atomic>
#include <bit>

#include "sim/exec/operations/access.h"
#include "sim/exec/operations/half.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

std::memory_order OrderOf(MemoryOrder order) {
  switch (order) {
    case MemoryOrder::kWeak:
    case MemoryOrder::kRelaxed:
      return std::memory_order_relaxed;
    case MemoryOrder::kAcquire:
      return std::memory_order_acquire;
    case MemoryOrder::kRelease:
      return std::memory_order_release;
    case MemoryOrder::kAcquireRelease:
      return std::memory_order_acq_rel;
    case MemoryOrder::kSequential:
      break;
  }
  return std::memory_order_seq_cst;
}

template <class H, size_t kCount>
[[gnu::always_inline]] inline Halves<H, kCount> SumOf(Halves<H, kCount> a,
                                                      Halves<H, kCount> b) {
  for (size_t n = 0; n < kCount; ++n) {
    a.of[n] = Rounded<H>(OddSum(ToDouble(a.of[n]), ToDouble(b.of[n])),
                         Rounding::kNearest);
  }
  return a;
}

// T says how the numbers count, U holds their bits.
template <class T, class U, AtomicOperation kOperation>
[[gnu::always_inline]] inline U Changed(U before, U by, U to) {
  const T old = std::bit_cast<T>(before);
  const T value = std::bit_cast<T>(by);
  switch (kOperation) {
    case AtomicOperation::kAdd:
      if constexpr (std::is_floating_point_v<T>) {
        return std::bit_cast<U>(CanonicalOf(old + value, old, value));
      } else if constexpr (requires { SumOf(old, value); }) {
        return std::bit_cast<U>(SumOf(old, value));
      } else {
        return before + by;
      }
    case AtomicOperation::kMin:
      if constexpr (std::is_arithmetic_v<T>) return value < old ? by : before;
      break;
    case AtomicOperation::kMax:
      if constexpr (std::is_arithmetic_v<T>) return value > old ? by : before;
      break;
    case AtomicOperation::kAnd:
      return before & by;
    case AtomicOperation::kOr:
      return before | by;
    case AtomicOperation::kXor:
      return before ^ by;
    case AtomicOperation::kExchange:
      return by;
    case AtomicOperation::kCompareAndSwap:
      return before == by ? to : before;
    case AtomicOperation::kIncrement:
      return before >= by ? 0 : before + 1;
    case AtomicOperation::kDecrement:
      return before == 0 || before > by ? by : before - 1;
  }
  return before;
}

// Lanes change the bytes at `place`, one after the other. `befores` receives
// what each found. Returns whether any changed it. One operation of the host
// does for all of them: nobody could tell that from their coming one by one.
template <class T, class U, AtomicOperation kOperation>
[[gnu::always_inline]] inline bool ChangeOnePlace(std::byte* place,
                                                  LaneMask lanes, const U* by,
                                                  const U* to, U* befores,
                                                  std::memory_order order) {
  const std::atomic_ref<U> cell(*reinterpret_cast<U*>(place));
  U before = cell.load(std::memory_order_relaxed);
  U value = 0;
  U changed = 0;
  do {
    value = before;
    changed = 0;
    const auto change = [&](uint32_t lane) {
      const U old = value;
      befores[lane] = old;
      value = Changed<T, U, kOperation>(old, by[lane], to[lane]);
      changed |= old ^ value;
    };
    if (lanes == kAllLanes) {
#pragma GCC unroll 8
      for (uint32_t lane = 0; lane < kLanes; ++lane) change(lane);
    } else {
      for (LaneMask left = lanes; left != 0; left &= left - 1) {
        change(static_cast<uint32_t>(__builtin_ctz(left)));
      }
    }
  } while (!cell.compare_exchange_weak(before, value, order,
                                       std::memory_order_relaxed));
  return changed != 0;
}

// Only the thread that executes a block reaches its shared memory.
template <class T, class U, AtomicOperation kOperation>
[[gnu::always_inline]] inline bool ChangeShared(const Core& core,
                                                LaneMask lanes, const U* by,
                                                const U* to, U* befores) {
  U changed = 0;
  for (LaneMask left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
    U& cell = *reinterpret_cast<U*>(core.At(lane));
    const U old = cell;
    befores[lane] = old;
    cell = Changed<T, U, kOperation>(old, by[lane], to[lane]);
    changed |= old ^ cell;
  }
  return changed != 0;
}

template <class T, class U, AtomicOperation kOperation>
void Atomic(const Op& op, Warp& warp, LaneMask mask) {
  if (!Resolve(op, warp, mask, sizeof(U), true, true)) return;
  Core& core = warp.core();
  const U* const by = warp.From<U>(op.operands[1]);
  const U* const to = kOperation == AtomicOperation::kCompareAndSwap
                          ? warp.From<U>(op.operands[2])
                          : by;
  const std::memory_order order = OrderOf(op.order);
  const auto& address = core.access.address;
  // The result may be a source, so it is written last.
  std::array<U, kLanes> befores;
  bool changed = false;
  uint64_t apart = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    apart |= address[lane] ^ address[0];
  }
  if (apart == 0) {
    changed = ChangeOnePlace<T, U, kOperation>(
        core.At(static_cast<uint32_t>(__builtin_ctz(mask))), mask, by, to,
        befores.data(), order);
  } else if (core.access.space == MemorySpace::kShared) {
    changed =
        ChangeShared<T, U, kOperation>(core, mask, by, to, befores.data());
  } else {
    // The host waits for each atomic operation before it begins the next, but
    // not for prefetches, so the lanes' cache misses overlap.
    for (LaneMask left = mask; left != 0; left &= left - 1) {
      __builtin_prefetch(core.At(static_cast<uint32_t>(__builtin_ctz(left))),
                         /*rw=*/1);
    }
    for (LaneMask left = mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
      if constexpr (kOperation == AtomicOperation::kAdd &&
                    std::is_integral_v<T>) {
        // One instruction of the host, which never has to try again.
        const std::atomic_ref<U> cell(*reinterpret_cast<U*>(core.At(lane)));
        befores[lane] = cell.fetch_add(by[lane], order);
        changed |= by[lane] != 0;
      } else {
        changed |= ChangeOnePlace<T, U, kOperation>(
            core.At(lane), left & -left, by, to, befores.data(), order);
      }
    }
  }
  if (!op.operands[0].is_constant()) {
    ForLanes(mask, warp.To<U>(op.operands[0]),
             [&](uint32_t lane) { return befores[lane]; });
  }
  // An atomic that changes nothing, such as a failed attempt to take a lock, is
  // not progress.
  if (changed) {
    warp.Wrote();
  } else if (!op.operands[0].is_constant()) {
    warp.Looks(op, mask, Seen(core, mask, befores.data(), 0));
  }
}

template <class T, class U>
Handler ForOperation(const Semantics& s) {
  using enum AtomicOperation;
  const auto operation = static_cast<AtomicOperation>(s.variant);
  const auto code = []<AtomicOperation kOperation>() -> Handler {
    return &Atomic<T, U, kOperation>;
  };
  if constexpr (std::is_floating_point_v<T> || !std::is_arithmetic_v<T>) {
    return ForOneOf<kAdd>(operation, code);
  } else if constexpr (sizeof(U) == 2) {
    return ForOneOf<kCompareAndSwap>(operation, code);
  } else if constexpr (sizeof(U) == 8) {
    return ForOneOf<kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange,
                    kCompareAndSwap>(operation, code);
  } else {
    return ForOneOf<kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange,
                    kCompareAndSwap, kIncrement, kDecrement>(operation, code);
  }
}

}  // namespace

Handler FindAtomic(const Semantics& s) {
  if (s.operation != Operation::kAtomic) return nullptr;
  switch (s.type) {
    case Type::kB32:
    case Type::kU32:
      return ForOperation<uint32_t, uint32_t>(s);
    case Type::kS32:
      return ForOperation<int32_t, uint32_t>(s);
    case Type::kB64:
    case Type::kU64:
      return ForOperation<uint64_t, uint64_t>(s);
    case Type::kS64:
      return ForOperation<int64_t, uint64_t>(s);
    case Type::kF32:
      return ForOperation<float, uint32_t>(s);
    case Type::kF64:
      return ForOperation<double, uint64_t>(s);
    case Type::kB16:
      return ForOperation<uint16_t, uint16_t>(s);
    default:
      return ForHalves(s.type, [&]<class H, size_t kCount>() -> Handler {
        using U = std::conditional_t<kCount == 1, uint16_t, uint32_t>;
        return ForOperation<Halves<H, kCount>, U>(s);
      });
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
