// What a function adds to its frame of local memory while it runs (PTX ISA
// 9.7.15: alloca, stacksave, stackrestore).
#include <algorithm>

#include "fmt/format.h"
#include "sim/exec/warp.h"

namespace carillon::sim {

// Lanes may ask for different sizes, so each has its own end of the stack.
uint64_t Warp::StackEnd(uint32_t lane) const {
  const uint64_t frame = frame_.local_base + frame_.function->local_bytes;
  return stack_ends_.empty() ? frame : std::max(frame, stack_ends_[lane]);
}

uint64_t Warp::StackEnd(LaneMask lanes, uint64_t frame) const {
  uint64_t end = frame;
  if (stack_ends_.empty()) return end;
  for (LaneMask left = lanes; left != 0; left &= left - 1) {
    end = std::max(end, stack_ends_[__builtin_ctz(left)]);
  }
  return end;
}

void Warp::CutStack(LaneMask lanes, uint64_t end) {
  if (stack_ends_.empty()) return;
  for (LaneMask left = lanes; left != 0; left &= left - 1) {
    uint64_t& lane = stack_ends_[__builtin_ctz(left)];
    lane = std::min(lane, end);
  }
}

template <class T>
void Warp::ChangeStack(const Op& op, LaneMask mask) {
  const T* const from = From<T>(op.operands[1]);
  T* const to = To<T>(op.operands[0]);
  if (stack_ends_.empty()) stack_ends_.resize(kLanes);
  for (LaneMask left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
    const uint64_t end = StackEnd(lane);
    switch (static_cast<StackChange>(op.variant)) {
      case StackChange::kAllocate: {
        const auto align = static_cast<uint64_t>(op.offset);
        const uint64_t begin = (end + align - 1) / align * align;
        const uint64_t bytes = from[lane];
        if (begin > kMaxLocalBytes || bytes > kMaxLocalBytes - begin) {
          return Fail(op, LaneMask{1} << lane,
                      fmt::format("the stack overflows: {} bytes more than the "
                                  "{} that are in use, of {}",
                                  bytes, end, kMaxLocalBytes));
        }
        stack_ends_[lane] = begin + bytes;
        local_.Grow((begin + bytes + 15) / 16 * 16 * kLanes);
        to[lane] = static_cast<T>(begin);
        break;
      }
      case StackChange::kSave:
        to[lane] = static_cast<T>(end);
        break;
      case StackChange::kRestore:
        if (from[lane] > end ||
            from[lane] < frame_.local_base + frame_.function->local_bytes) {
          return Fail(
              op, LaneMask{1} << lane,
              fmt::format("{:#x} is no end of the stack: the running "
                          "function has {:#x} to {:#x}",
                          from[lane],
                          frame_.local_base + frame_.function->local_bytes,
                          end));
        }
        stack_ends_[lane] = from[lane];
        break;
    }
  }
}

void Warp::Stack(const Op& op, LaneMask mask) {
  if (op.address_bytes == 4) {
    ChangeStack<uint32_t>(op, mask);
  } else {
    ChangeStack<uint64_t>(op, mask);
  }
}

}  // namespace carillon::sim
