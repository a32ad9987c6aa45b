#include "sim/exec/access_faults.h"

#include <bit>
#include <string>

#include "fmt/format.h"

namespace carillon::sim {

bool Misaligned(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes) {
  const auto& address = warp.core().access.address;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0 || address[lane] % bytes == 0) continue;
    warp.Fail(op, LaneMask{1} << lane,
              fmt::format("misaligned address {:#x}: must be a multiple of {}",
                          address[lane], bytes));
    break;
  }
  return false;
}

bool OutOfRange(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                std::string_view space, uint64_t size) {
  const auto& address = warp.core().access.address;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0 ||
        (address[lane] <= size && bytes <= size - address[lane])) {
      continue;
    }
    warp.Fail(op, LaneMask{1} << lane,
              fmt::format("{} bytes at {:#x} of {} memory, which has {} bytes",
                          bytes, address[lane], space, size));
    break;
  }
  return false;
}

bool ResolveOutside(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                    bool store) {
  Core& core = warp.core();
  const auto& address = core.access.address;
  const Heap& heap = core.memory->heap();
  // Lanes outside the mask have another's address.
  bool all_in_heap = true;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto wrong = (mask >> lane & 1) != 0
                           ? lane
                           : static_cast<uint32_t>(std::countr_zero(mask));
    if (heap.Holds(address[lane])) {
      core.places[lane] = heap.Find(address[lane], bytes);
      if (core.places[lane] == nullptr) {
        return GlobalFault(op, warp, wrong, bytes, nullptr);
      }
      continue;
    }
    all_in_heap = false;
    const size_t index = core.segments->Find(address[lane], bytes);
    if (index == SegmentTable::kNone) {
      return GlobalFault(op, warp, wrong, bytes, nullptr);
    }
    const Segment& segment = core.segments->segment(index);
    if (store && !segment.writable) {
      return GlobalFault(op, warp, wrong, bytes, &segment);
    }
    core.places[lane] = segment.host + (address[lane] - segment.begin);
  }
  core.scattered = !all_in_heap;
  core.base = heap.host() - static_cast<ptrdiff_t>(kHeapBegin);
  return true;
}

bool GlobalFault(const Op& op, Warp& warp, uint32_t lane, uint32_t bytes,
                 const Segment* segment) {
  const Core& core = warp.core();
  const uint64_t address = core.access.address[lane];
  const Heap& heap = core.memory->heap();
  const auto describe = [&] {
    if (heap.Holds(address)) return heap.Describe(address);
    std::string what = core.segments->Describe(address);
    if (address < 4096 && heap.failures() != 0) {
      what += fmt::format(
          "; malloc() has returned null {} times, as the heap has {} bytes",
          heap.failures(), heap.bytes());
    }
    return what;
  };
  warp.Fail(
      op, LaneMask{1} << lane,
      segment != nullptr
          ? fmt::format("a store to {:#x}: '{}' is read-only", address,
                        segment->name)
          : fmt::format("{} bytes at {:#x}: {}", bytes, address, describe()));
  return false;
}

bool StoreToParameters(const Op& op, Warp& warp, LaneMask mask) {
  warp.Fail(op, mask, "a store to a kernel's parameters");
  return false;
}

}  // namespace carillon::sim
