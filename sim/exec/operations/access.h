// Finds where the lanes' addresses lie in the host's memory. The files with the
// operations' code include it (lanes.h), once for each instruction set.
#ifndef CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_
#define CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_

#include <array>

#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {

// Fills Core::access and finds where the lanes of the mask are (Core::At()).
// `bytes` is what each lane touches, 16 at most. Returns false after reporting
// a fault.
bool Resolve(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
             bool store, bool atomic);
// The same for all lanes, at these addresses instead of the operation's.
bool ResolveAt(const Op& op, Warp& warp,
               const std::array<uint64_t, kLanes>& addresses, uint32_t bytes,
               bool store);

namespace {

// Stands for what the lanes of the mask read, and where, after `seen`
// (Warp::Looks()).
template <class T>
uint64_t Seen(const Core& core, LaneMask mask, const T* values, uint64_t seen) {
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
    const auto value = static_cast<uint64_t>(values[lane]);
    seen = (seen ^ value) * 0x9e37'79b9'7f4a'7c15;
    seen =
        (seen ^ seen >> 32 ^ core.access.address[lane]) * 0xd6e8'feb8'6659'fd93;
  }
  return seen;
}

}  // namespace

}  // namespace carillon::sim::CARILLON_SIM_ISA

#endif  // CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_
