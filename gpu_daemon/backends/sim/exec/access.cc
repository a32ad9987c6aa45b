// ld and st (PTX ISA 9.7.9).
#include "gpu_daemon/backends/sim/exec/access.h"

#include <atomic>

#include "gpu_daemon/backends/sim/exec/access_faults.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

bool ResolveGlobal(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                   bool store) {
  Core& core = warp.core();
  const auto& address = core.access.address;
  const auto first = static_cast<uint32_t>(__builtin_ctz(mask));
  const SegmentTable& segments = *core.segments;
  size_t& hint = core.hints[op.pc];
  if (hint >= segments.size() ||
      !segments.segment(hint).Contains(address[first], bytes)) {
    hint = segments.Find(address[first], bytes);
    if (hint == SegmentTable::kNone) {
      return GlobalFault(op, warp, first, bytes, nullptr);
    }
  }
  const Segment& segment = segments.segment(hint);
  if (store && !segment.writable) {
    return GlobalFault(op, warp, first, bytes, &segment);
  }
  // The lanes that are not in the mask have the first one's address here.
  const uint64_t room = segment.bytes - bytes;
  uint64_t outside = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    outside |= static_cast<uint64_t>(address[lane] - segment.begin > room);
  }
  std::byte* const base = segment.host - static_cast<ptrdiff_t>(segment.begin);
  if (outside == 0) [[likely]] {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      core.host[lane] = base + address[lane];
    }
    return true;
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const size_t index = segments.Find(address[lane], bytes);
    if (index == SegmentTable::kNone) {
      return GlobalFault(op, warp, lane, bytes, nullptr);
    }
    const Segment& other = segments.segment(index);
    if (store && !other.writable) {
      return GlobalFault(op, warp, lane, bytes, &other);
    }
    core.host[lane] = other.host + (address[lane] - other.begin);
  }
  return true;
}

bool ResolveFlat(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                 std::byte* base, uint64_t size, std::string_view space) {
  Core& core = warp.core();
  const auto& address = core.access.address;
  uint64_t outside = size < bytes;
  const uint64_t room = size - bytes;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    outside |= static_cast<uint64_t>(address[lane] > room);
  }
  if (outside != 0) [[unlikely]] {
    return OutOfRange(op, warp, mask, bytes, space, size);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    core.host[lane] = base + address[lane];
  }
  return true;
}

bool ResolveLocal(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes) {
  Core& core = warp.core();
  const auto& address = core.access.address;
  const uint64_t size = warp.local_bytes();
  uint64_t outside = size < bytes;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    outside |= static_cast<uint64_t>(address[lane] > size - bytes);
  }
  if (outside != 0) [[unlikely]] {
    return OutOfRange(op, warp, mask, bytes, "local", size);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    core.host[lane] = warp.Local(address[lane], lane);
  }
  return true;
}

// To a parameter is a mistake of the program: they are constant.
bool ResolveParameters(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                       bool store) {
  if (store) {
    return StoreToParameters(op, warp, mask);
  }
  const auto& parameters = warp.launch().parameters;
  return ResolveFlat(op, warp, mask, bytes,
                     const_cast<std::byte*>(parameters.data()),
                     parameters.size(), "parameter");
}

bool ResolveIn(MemorySpace space, const Op& op, Warp& warp, LaneMask mask,
               uint32_t bytes, bool store) {
  switch (space) {
    case MemorySpace::kGlobal:
    case MemorySpace::kConst:
      return ResolveGlobal(op, warp, mask, bytes, store);
    case MemorySpace::kShared:
      return ResolveFlat(op, warp, mask, bytes, warp.block().shared(),
                         warp.block().shared_bytes(), "shared");
    case MemorySpace::kLocal:
      return ResolveLocal(op, warp, mask, bytes);
    case MemorySpace::kKernelParam:
      return ResolveParameters(op, warp, mask, bytes, store);
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

// By window; usually all lanes are in the same.
bool ResolveGeneric(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                    bool store) {
  Core& core = warp.core();
  auto& address = core.access.address;
  const std::array<uint64_t, kLanes> generic = address;
  std::array<std::byte*, kLanes> host{};
  LaneMask left = mask;
  while (left != 0) {
    const auto first = static_cast<uint32_t>(__builtin_ctz(left));
    const MemorySpace space = SpaceOf(generic[first]);
    const LaneMask here =
        left & MaskOf([&](uint32_t i) { return SpaceOf(generic[i]) == space; });
    const uint64_t window = space == MemorySpace::kGlobal
                                ? 0
                                : generic[first] & ~(kWindowBytes - 1);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      address[lane] = generic[here >> lane & 1 ? lane : first] - window;
    }
    core.access.space = space;
    core.access.mask = here;
    if (!ResolveIn(space, op, warp, here, bytes, store)) return false;
    if (here == mask) return true;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (here >> lane & 1) host[lane] = core.host[lane];
    }
    left &= ~here;
  }
  // Mixed: a timing model sees them as global.
  core.host = host;
  core.access.space = MemorySpace::kGlobal;
  core.access.mask = mask;
  address = generic;
  return true;
}

}  // namespace

bool Resolve(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
             bool store, bool atomic) {
  Core& core = warp.core();
  Access& access = core.access;
  access.space = op.space;
  access.store = store;
  access.atomic = atomic;
  access.bytes = bytes;
  access.mask = mask;
  uint64_t bits = 0;
  const auto offset =
      static_cast<uint64_t>(op.offset) +
      (op.space == MemorySpace::kLocal && op.operands[kAddress].is_constant()
           ? warp.local_base()
           : 0);
  const Slot slot = op.operands[kAddress];
  const auto first = static_cast<uint32_t>(__builtin_ctz(mask));
  // Lanes that are not in the mask take the first one's, so that nothing about
  // them needs to be asked below.
  if (op.address_bytes == 4) {
    // The sum has 32 bits, too: an index may be negative.
    const uint32_t* const from = warp.From<uint32_t>(slot);
    const uint32_t mine = from[first];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      access.address[lane] =
          static_cast<uint32_t>(((mask >> lane & 1) != 0 ? from[lane] : mine) +
                                static_cast<uint32_t>(offset));
      bits |= access.address[lane];
    }
  } else {
    const uint64_t* const from = warp.From<uint64_t>(slot);
    const uint64_t mine = from[first];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      access.address[lane] =
          ((mask >> lane & 1) != 0 ? from[lane] : mine) + offset;
      bits |= access.address[lane];
    }
  }
  if ((bits & (bytes - 1)) != 0) [[unlikely]] {
    return Misaligned(op, warp, mask, bytes);
  }
  const bool resolved = op.space == MemorySpace::kGeneric
                            ? ResolveGeneric(op, warp, mask, bytes, store)
                            : ResolveIn(op.space, op, warp, mask, bytes, store);
  if (resolved && mask != kAllLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) == 0) core.host[lane] = core.nowhere.data();
    }
  }
  return resolved;
}

namespace {

// M: in memory. R: the register, unsigned. Other processes may write there at
// this moment: each element is one load, or one store.
template <class M, class R>
void Load(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t elements = op.elements;
  if (!Resolve(op, warp, mask, static_cast<uint32_t>(sizeof(M)) * elements,
               false, false)) {
    return;
  }
  const auto& host = warp.core().host;
  for (uint32_t element = 0; element < elements; ++element) {
    const Slot slot = op.operands[element];
    if (slot.is_constant()) continue;  // "_"
    ForLanes(mask, warp.To<R>(slot), [&](uint32_t i) {
      return static_cast<R>(reinterpret_cast<const M*>(host[i])[element]);
    });
  }
  if (op.order == MemoryOrder::kAcquire) {
    std::atomic_thread_fence(std::memory_order_acquire);
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
  ++core.writes;
  if (op.order == MemoryOrder::kRelease) {
    std::atomic_thread_fence(std::memory_order_release);
  }
  for (uint32_t element = 0; element < elements; ++element) {
    const R* const from = warp.From<R>(op.operands[element]);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      reinterpret_cast<M*>(core.host[lane])[element] =
          static_cast<M>(from[lane]);
    }
  }
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
  return s.register_bytes == 8 ? Code<M, uint64_t>(s) : nullptr;
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
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
