// The functions of CUDA and EDGE that a kernel can call and of which there is no
// PTX.
#include <bit>
#include <utility>

#include "fmt/format.h"
#include "sim/exec/print.h"
#include "sim/exec/warp.h"

namespace carillon::sim {

uint64_t Warp::Argument(const Call& call, size_t which, uint32_t lane) {
  uint64_t value = 0;
  const FrameVariable& at = call.arguments[which];
  for (uint32_t byte = 0; byte < at.bytes && byte < 8; ++byte) {
    value |= static_cast<uint64_t>(
                 *Local(frame_.local_base + at.offset + byte, lane))
             << (8 * byte);
  }
  return value;
}

void Warp::WaitThreads(const Op& op, const Call& call, LaneMask mask) {
  if (!AllAreHere(op, 0, mask)) return;
  const auto first = static_cast<uint32_t>(std::countr_zero(mask));
  const uint64_t barrier =
      call.arguments.empty() ? 0 : Argument(call, 0, first);
  for (uint32_t lane = first; lane < kLanes; ++lane) {
    const bool other = (mask >> lane & 1) != 0 && !call.arguments.empty() &&
                       Argument(call, 0, lane) != barrier;
    if (barrier < kWaitReleaseBarriers && !other) continue;
    Fail(op, LaneMask{1} << lane,
         other ? "lanes of a warp wait at different wait-release barriers"
               : fmt::format("wait-release barrier {}: there are {}", barrier,
                             kWaitReleaseBarriers));
    return;
  }
  if (!block_->Wait(*this, static_cast<uint32_t>(barrier))) {
    state_ = State::kWaits;
  }
  // The exited warp may be the last one that others waited for.
  block_->WakeReleased();
}

void Warp::ReleaseThreads(const Op& op, const Call& call, LaneMask mask) {
  uint32_t barriers = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint64_t barrier =
        call.arguments.empty() ? 0 : Argument(call, 0, lane);
    if (barrier >= kWaitReleaseBarriers) {
      Fail(op, LaneMask{1} << lane,
           fmt::format("wait-release barrier {}: there are {}", barrier,
                       kWaitReleaseBarriers));
      return;
    }
    barriers |= 1u << barrier;
  }
  for (uint32_t i = 0; i < kWaitReleaseBarriers; ++i) {
    if (barriers >> i & 1) core_->releases.Release(i);
  }
  Wrote();
}

void Warp::CallBuiltin(const Op& op, const Call& call, LaneMask mask) {
  if (call.builtin == Builtin::kWaitThreads) return WaitThreads(op, call, mask);
  if (call.builtin == Builtin::kReleaseThreads) {
    return ReleaseThreads(op, call, mask);
  }
  if (call.builtin == Builtin::kGraphLaunch) return LaunchGraph(op, call, mask);
  if (call.builtin == Builtin::kFree) return Free(op, call, mask);
  if (call.builtin == Builtin::kMalloc ||
      call.builtin == Builtin::kAlignedMalloc) {
    return Malloc(op, call, mask);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const ByteReader read = [&](DeviceAddress address, std::byte& byte) {
      if (address - kLocalWindow < local_bytes()) {
        byte = *Local(address - kLocalWindow, lane);
        return true;
      }
      const auto found = core_->memory->At(address, 1);
      if (found.ok()) byte = found->front();
      return found.ok();
    };
    std::string text;
    if (call.builtin == Builtin::kAssertFail) {
      std::string why = "assertion failed: ";
      if (!ReadText(read, Argument(call, 0, lane), why)) why += "(unreadable)";
      Fail(op, LaneMask{1} << lane, why);
      return;
    }
    if (!Print(read, Argument(call, 0, lane), Argument(call, 1, lane), text)) {
      Fail(op, LaneMask{1} << lane, fmt::format("printf: {}", text));
      return;
    }
    if (core_->printed != nullptr) core_->printed->Append(std::move(text));
    if (!call.results.empty()) {
      // CUDA returns the number of arguments or of bytes here; nobody looks at
      // it.
      *Local(frame_.local_base + call.results[0].offset, lane) = std::byte{0};
    }
  }
}

void Warp::Malloc(const Op& op, const Call& call, LaneMask mask) {
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    uint64_t align = Heap::kStep;
    if (call.builtin == Builtin::kAlignedMalloc) {
      align = Argument(call, 1, lane);
      if (!std::has_single_bit(align)) {
        return Fail(op, LaneMask{1} << lane,
                    fmt::format("an alignment of {} bytes: must be a power of "
                                "two",
                                align));
      }
    }
    const uint64_t address =
        core_->memory->heap().Allocate(Argument(call, 0, lane), align);
    for (uint32_t byte = 0; byte < sizeof(address); ++byte) {
      *Local(frame_.local_base + call.results[0].offset + byte, lane) =
          static_cast<std::byte>(address >> (8 * byte));
    }
  }
  Wrote();
}

void Warp::Free(const Op& op, const Call& call, LaneMask mask) {
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    std::string wrong = core_->memory->heap().Free(Argument(call, 0, lane));
    if (!wrong.empty()) {
      return Fail(op, LaneMask{1} << lane, std::move(wrong));
    }
  }
  Wrote();
}

void Warp::LaunchGraph(const Op& op, const Call& call, LaneMask mask) {
  if (!core_->launch_graph) {
    return Fail(op, mask, "graphs are not launched by kernels here");
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const uint32_t result = core_->launch_graph(*this, Argument(call, 0, lane),
                                                Argument(call, 1, lane));
    for (uint32_t byte = 0; byte < sizeof(result); ++byte) {
      *Local(frame_.local_base + call.results[0].offset + byte, lane) =
          static_cast<std::byte>(result >> (8 * byte));
    }
  }
  Wrote();
}

}  // namespace carillon::sim
