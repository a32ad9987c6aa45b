// ld and st (PTX ISA 9.7.9).
#include "sim/exec/operations/access.h"

#include <emmintrin.h>

#include <atomic>
#include <cstring>

#include "sim/exec/access_faults.h"
#include "sim/exec/weak_memory.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

using Addresses = std::array<uint64_t, kLanes>;

// Returns whether any lane's `bytes` bytes reach beyond the first `size`.
// `bits` is the OR of all addresses: no address is greater, so one comparison
// usually answers for the whole warp.
bool AnyBeyond(const Addresses& address, uint64_t bits, uint32_t bytes,
               uint64_t size) {
  if (size < bytes) return true;
  const uint64_t room = size - bytes;
  if (bits <= room) [[likely]]
    return false;
  uint64_t beyond = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    beyond |= static_cast<uint64_t>(address[lane] > room);
  }
  return beyond != 0;
}

bool ResolveGlobal(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                   bool store) {
  Core& core = warp.core();
  const Addresses& address = core.access.address;
  const auto first = static_cast<uint32_t>(__builtin_ctz(mask));
  const SegmentTable& segments = *core.segments;
  size_t& hint = core.hints[op.pc];
  if (hint >= segments.size() ||
      !segments.segment(hint).Contains(address[first], bytes)) {
    hint = segments.Find(address[first], bytes);
    if (hint == SegmentTable::kNone) {
      return ResolveOutside(op, warp, mask, bytes, store);
    }
  }
  const Segment& segment = segments.segment(hint);
  if (store && !segment.writable) {
    return GlobalFault(op, warp, first, bytes, &segment);
  }
  const uint64_t room = segment.bytes - bytes;
  uint64_t outside = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    outside |= static_cast<uint64_t>(address[lane] - segment.begin > room);
  }
  if (outside == 0) [[likely]] {
    core.scattered = false;
    core.base = segment.host - static_cast<ptrdiff_t>(segment.begin);
    return true;
  }
  core.scattered = true;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const size_t index = segments.Find(address[lane], bytes);
    if (index == SegmentTable::kNone) {
      return ResolveOutside(op, warp, mask, bytes, store);
    }
    const Segment& other = segments.segment(index);
    if (store && !other.writable) {
      return GlobalFault(op, warp, lane, bytes, &other);
    }
    core.places[lane] = other.host + (address[lane] - other.begin);
  }
  return true;
}

// `bits` is the OR of all addresses, as in AnyBeyond().
[[gnu::always_inline]] inline bool ResolveFlat(const Op& op, Warp& warp,
                                               LaneMask mask, uint64_t bits,
                                               uint32_t bytes, std::byte* base,
                                               uint64_t size,
                                               std::string_view space) {
  Core& core = warp.core();
  if (AnyBeyond(core.access.address, bits, bytes, size)) [[unlikely]] {
    return OutOfRange(op, warp, mask, bytes, space, size);
  }
  core.scattered = false;
  core.base = base;
  return true;
}

bool ResolveLocal(const Op& op, Warp& warp, LaneMask mask, uint64_t bits,
                  uint32_t bytes) {
  Core& core = warp.core();
  const Addresses& address = core.access.address;
  const uint64_t size = warp.local_bytes();
  if (AnyBeyond(address, bits, bytes, size)) [[unlikely]] {
    return OutOfRange(op, warp, mask, bytes, "local", size);
  }
  core.scattered = true;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    core.places[lane] = warp.Local(address[lane], lane);
  }
  return true;
}

// Kernel parameters are constant, so a store to one is a mistake of the
// program.
bool ResolveParameters(const Op& op, Warp& warp, LaneMask mask, uint64_t bits,
                       uint32_t bytes, bool store) {
  if (store) {
    return StoreToParameters(op, warp, mask);
  }
  const auto& parameters = warp.launch().parameters;
  return ResolveFlat(op, warp, mask, bits, bytes,
                     const_cast<std::byte*>(parameters.data()),
                     parameters.size(), "parameter");
}

[[gnu::always_inline]] inline bool ResolveIn(MemorySpace space, const Op& op,
                                             Warp& warp, LaneMask mask,
                                             uint64_t bits, uint32_t bytes,
                                             bool store) {
  switch (space) {
    case MemorySpace::kGlobal:
    case MemorySpace::kConst:
      return ResolveGlobal(op, warp, mask, bytes, store);
    case MemorySpace::kShared:
      return ResolveFlat(op, warp, mask, bits, bytes, warp.block().shared(),
                         warp.block().shared_bytes(), "shared");
    case MemorySpace::kLocal:
      return ResolveLocal(op, warp, mask, bits, bytes);
    case MemorySpace::kKernelParam:
      return ResolveParameters(op, warp, mask, bits, bytes, store);
    case MemorySpace::kGeneric:
      break;
  }
  return false;
}

MemorySpace SpaceOf(uint64_t generic) {
  switch (generic / kWindowBytes) {
    case kSharedWindow / kWindowBytes:
      return MemorySpace::kShared;
    case kLocalWindow / kWindowBytes:
      return MemorySpace::kLocal;
    case kParamWindow / kWindowBytes:
      return MemorySpace::kKernelParam;
    default:
      return MemorySpace::kGlobal;
  }
}

// Resolves a generic address by its window. Usually all lanes are in the same
// one.
bool ResolveGeneric(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                    bool store) {
  Core& core = warp.core();
  Addresses& address = core.access.address;
  const Addresses generic = address;
  std::array<std::byte*, kLanes> places{};
  LaneMask left = mask;
  while (left != 0) {
    const auto first = static_cast<uint32_t>(__builtin_ctz(left));
    const MemorySpace space = SpaceOf(generic[first]);
    const LaneMask here =
        left & MaskOf([&](uint32_t i) { return SpaceOf(generic[i]) == space; });
    const uint64_t window = space == MemorySpace::kGlobal
                                ? 0
                                : generic[first] & ~(kWindowBytes - 1);
    uint64_t bits = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      address[lane] = generic[here >> lane & 1 ? lane : first] - window;
      bits |= address[lane];
    }
    core.access.space = space;
    core.access.mask = here;
    if (!ResolveIn(space, op, warp, here, bits, bytes, store)) return false;
    if (here == mask) return true;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((here | ~mask) >> lane & 1) places[lane] = core.At(lane);
    }
    left &= ~here;
  }
  // The lanes are in different windows. A timing model sees them as global.
  core.scattered = true;
  core.places = places;
  core.access.space = MemorySpace::kGlobal;
  core.access.mask = mask;
  address = generic;
  return true;
}

// Computes the lanes' addresses, A wide, with `offset`. Lanes outside the mask
// get the first lane's address, so that later code need not ask about them.
// Returns the OR of all addresses.
template <class A>
uint64_t TakeAddresses(const A* from, uint64_t offset, LaneMask mask,
                       Addresses& address) {
  uint64_t bits = 0;
  const auto take = [&](auto value) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      // The sum is as wide: an index may be negative.
      address[lane] = static_cast<A>(value(lane) + static_cast<A>(offset));
      bits |= address[lane];
    }
  };
  if (mask == kAllLanes) {
    take([=](uint32_t lane) { return from[lane]; });
  } else {
    const A first = from[__builtin_ctz(mask)];
    take([=](uint32_t lane) {
      return (mask >> lane & 1) != 0 ? from[lane] : first;
    });
  }
  return bits;
}

[[gnu::noinline]] bool ResolveAligned(const Op& op, Warp& warp, LaneMask mask,
                                      uint64_t bits, uint32_t bytes,
                                      bool store) {
  return op.space == MemorySpace::kGeneric
             ? ResolveGeneric(op, warp, mask, bytes, store)
             : ResolveIn(op.space, op, warp, mask, bits, bytes, store);
}

// Finds where Core::access's addresses lie; `bits` is the OR of them.
[[gnu::always_inline]] inline bool ResolveTaken(const Op& op, Warp& warp,
                                                LaneMask mask, uint64_t bits,
                                                uint32_t bytes, bool store,
                                                bool atomic) {
  // Every access comes by here, so there is one test for what is rare.
  Core& core = warp.core();
  if (((bits & (bytes - 1)) | reinterpret_cast<uintptr_t>(core.weak)) != 0)
      [[unlikely]] {
    if ((bits & (bytes - 1)) != 0) return Misaligned(op, warp, mask, bytes);
    if (!ResolveAligned(op, warp, mask, bits, bytes, store)) return false;
    core.weak->Redirect(op, warp, mask, bytes, store, atomic);
    return true;
  }
  return op.space == MemorySpace::kGeneric
             ? ResolveGeneric(op, warp, mask, bytes, store)
             : ResolveIn(op.space, op, warp, mask, bits, bytes, store);
}

}  // namespace

bool Resolve(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
             bool store, bool atomic) {
  Access& access = warp.core().access;
  access.space = op.space;
  access.store = store;
  access.atomic = atomic;
  access.bytes = bytes;
  access.mask = mask;
  const Slot slot = op.operands[kAddress];
  const auto offset =
      static_cast<uint64_t>(op.offset) +
      (op.space == MemorySpace::kLocal && slot.is_constant() ? warp.local_base()
                                                             : 0);
  const uint64_t bits = op.address_bytes == 4
                            ? TakeAddresses(warp.From<uint32_t>(slot), offset,
                                            mask, access.address)
                            : TakeAddresses(warp.From<uint64_t>(slot), offset,
                                            mask, access.address);
  return ResolveTaken(op, warp, mask, bits, bytes, store, atomic);
}

bool ResolveAt(const Op& op, Warp& warp, const Addresses& addresses,
               uint32_t bytes, bool store) {
  Access& access = warp.core().access;
  access.space = op.space;
  access.store = store;
  access.atomic = false;
  access.bytes = bytes;
  access.mask = kAllLanes;
  access.address = addresses;
  uint64_t bits = 0;
  for (const uint64_t address : addresses) bits |= address;
  return ResolveTaken(op, warp, kAllLanes, bits, bytes, store, false);
}

namespace {

// Calls f(at), where at(lane) is where the lane's bytes lie in the host's
// memory.
template <class F>
[[gnu::always_inline]] inline void WithPlaces(const Core& core, F f) {
  if (!core.scattered) [[likely]] {
    f([base = core.base, address = core.access.address.data()](uint32_t lane) {
      return base + address[lane];
    });
  } else {
    f([places = core.places.data()](uint32_t lane) { return places[lane]; });
  }
}

// M is the type in memory, R the register's unsigned type. Other processes may
// write there at this moment, so each element is one load or one store.
// The code's own fences order what is shared with other threads.
// ThreadSanitizer sees none.
#ifdef __SANITIZE_THREAD__
constexpr int kLoadOrder = __ATOMIC_ACQUIRE;
constexpr int kStoreOrder = __ATOMIC_RELEASE;
#else
constexpr int kLoadOrder = __ATOMIC_RELAXED;
constexpr int kStoreOrder = __ATOMIC_RELAXED;
#endif

// A processor with AVX moves 16 aligned bytes at once.
template <class M>
[[gnu::always_inline]] inline M LoadOnce(const std::byte* from) {
  if constexpr (sizeof(M) == 16) {
    M value;
    const __m128i bytes =
        _mm_load_si128(reinterpret_cast<const __m128i*>(from));
    std::memcpy(&value, &bytes, sizeof(value));
    return value;
  } else {
    return __atomic_load_n(reinterpret_cast<const M*>(from), kLoadOrder);
  }
}
template <class M>
[[gnu::always_inline]] inline void StoreOnce(std::byte* to, M value) {
  if constexpr (sizeof(M) == 16) {
#ifdef __SANITIZE_THREAD__
    // It takes a store of 16 bytes for a plain one.
    StoreOnce(to, static_cast<uint64_t>(value));
    StoreOnce(to + 8, static_cast<uint64_t>(value >> 64));
#else
    __m128i bytes;
    std::memcpy(&bytes, &value, sizeof(value));
    _mm_store_si128(reinterpret_cast<__m128i*>(to), bytes);
#endif
  } else {
    __atomic_store_n(reinterpret_cast<M*>(to), value, kStoreOrder);
  }
}

template <class M, class R, class F>
[[gnu::always_inline]] inline void LoadElement(LaneMask mask, R* to, F from) {
  const auto value = [=](uint32_t lane) {
    return static_cast<R>(LoadOnce<M>(from(lane)));
  };
  if (mask == kAllLanes) {
#pragma GCC unroll 8
    for (uint32_t lane = 0; lane < kLanes; ++lane) to[lane] = value(lane);
    return;
  }
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
    to[lane] = value(lane);
  }
}
template <class M, class R, class F>
[[gnu::always_inline]] inline void StoreElement(LaneMask mask, const R* from,
                                                F to) {
  const auto store = [=](uint32_t lane) {
    StoreOnce<M>(to(lane), static_cast<M>(from[lane]));
  };
  if (mask == kAllLanes) {
#pragma GCC unroll 8
    for (uint32_t lane = 0; lane < kLanes; ++lane) store(lane);
    return;
  }
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    store(static_cast<uint32_t>(__builtin_ctz(left)));
  }
}

template <class M, class R>
void Load(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t elements = op.elements;
  if (!Resolve(op, warp, mask, static_cast<uint32_t>(sizeof(M)) * elements,
               false, false)) {
    return;
  }
  WithPlaces(warp.core(), [&](auto at) {
    for (uint32_t element = 0; element < elements; ++element) {
      const Slot slot = op.operands[element];
      if (slot.is_constant()) continue;  // "_"
      LoadElement<M>(mask, warp.To<R>(slot), [=](uint32_t lane) {
        return at(lane) + element * sizeof(M);
      });
    }
  });
  if (op.order != MemoryOrder::kWeak) [[unlikely]] {
    if (op.order == MemoryOrder::kAcquire) {
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    uint64_t seen = 0;
    for (uint32_t element = 0; element < elements; ++element) {
      const Slot slot = op.operands[element];
      if (!slot.is_constant()) {
        seen = Seen(warp.core(), mask, warp.To<R>(slot), seen);
      }
    }
    warp.Looks(op, mask, seen);
  }
}
template <class M, class R>
void Store(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t elements = op.elements;
  if (!Resolve(op, warp, mask, static_cast<uint32_t>(sizeof(M)) * elements,
               true, false)) {
    return;
  }
  Core& core = warp.core();
  // Nobody waits for what a thread stores for itself, as calls do.
  if (core.access.space != MemorySpace::kLocal) warp.Wrote();
  if (op.order == MemoryOrder::kRelease) {
    std::atomic_thread_fence(std::memory_order_release);
  }
  WithPlaces(core, [&](auto at) {
    for (uint32_t element = 0; element < elements; ++element) {
      StoreElement<M>(
          mask, warp.From<R>(op.operands[element]),
          [=](uint32_t lane) { return at(lane) + element * sizeof(M); });
    }
  });
}

template <class M, class R>
Handler Code(const Semantics& s) {
  if (s.operation == Operation::kStore) {
    if constexpr (std::is_signed_v<M>)
      return nullptr;
    else
      return &Store<M, R>;
  }
  return &Load<M, R>;
}
template <class M>
Handler ForRegister(const Semantics& s) {
  if constexpr (sizeof(M) <= 2) {
    if (s.register_bytes == 2) return Code<M, uint16_t>(s);
  }
  if constexpr (sizeof(M) <= 4) {
    if (s.register_bytes == 4) return Code<M, uint32_t>(s);
  }
  if constexpr (sizeof(M) == 16) {
    return Code<M, unsigned __int128>(s);
  } else {
    return s.register_bytes == 8 ? Code<M, uint64_t>(s) : nullptr;
  }
}

}  // namespace

Handler FindAccess(const Semantics& s) {
  const bool load = s.operation == Operation::kLoad;
  if (!load && s.operation != Operation::kStore) return nullptr;
  if (load) {
    if (s.type == Type::kS8) return ForRegister<int8_t>(s);
    if (s.type == Type::kS16) return ForRegister<int16_t>(s);
    if (s.type == Type::kS32) return ForRegister<int32_t>(s);
  }
  if (s.type == Type::kPred) return nullptr;
  switch (ptx::BytesOf(s.type)) {
    case 1:
      return ForRegister<uint8_t>(s);
    case 2:
      return ForRegister<uint16_t>(s);
    case 4:
      return ForRegister<uint32_t>(s);
    case 8:
      return ForRegister<uint64_t>(s);
    case 16:
      return ForRegister<unsigned __int128>(s);
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
