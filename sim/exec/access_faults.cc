#include "sim/exec/access_faults.h"

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

bool GlobalFault(const Op& op, Warp& warp, uint32_t lane, uint32_t bytes,
                 const Segment* segment) {
  const Core& core = warp.core();
  const uint64_t address = core.access.address[lane];
  warp.Fail(op, LaneMask{1} << lane,
            segment != nullptr
                ? fmt::format("a store to {:#x}: '{}' is read-only", address,
                              segment->name)
                : fmt::format("{} bytes at {:#x}: {}", bytes, address,
                              core.segments->Describe(address)));
  return false;
}

bool StoreToParameters(const Op& op, Warp& warp, LaneMask mask) {
  warp.Fail(op, mask, "a store to a kernel's parameters");
  return false;
}

}  // namespace carillon::sim
