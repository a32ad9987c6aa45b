#include "gpu_daemon/dispatch/doorbell_line.h"

#include <bit>

namespace carillon::gpud {

void DoorbellLine::Add(const std::shared_ptr<EventKernel>& event) {
  const uint32_t index = IndexOf(*event);
  events_[index] = event;
  registered_ |= 1u << index;
  MarkRung(index);
}

void DoorbellLine::Remove(uint32_t index) {
  registered_ &= ~(1u << index);
  marked_ &= ~(1u << index);
  events_[index].reset();
}

void DoorbellLine::Looked(uint32_t index, uint32_t shown, bool more) {
  shown_[index] = shown;
  marked_ = (marked_ & ~(1u << index)) | uint32_t{more} << index;
}

// Volatile: one load each, in every call. To the sanitizer it is a race, which
// nothing but the hint depends on.
__attribute__((no_sanitize("thread"))) uint32_t DoorbellLine::Changed() const {
  const auto* const now = reinterpret_cast<const volatile Words*>(doorbells_);
  const auto* const shown = reinterpret_cast<const Words*>(shown_.data());
  Words bit = {1, 2, 4, 8};
  Words same = {};
  for (uint32_t i = 0; i < kDoorbells / kWide; ++i, bit <<= kWide) {
    same |= reinterpret_cast<Words>(now[i] == shown[i]) & bit;
  }
  const uint32_t all_same = same[0] | same[1] | same[2] | same[3];
  return (~all_same | marked_) & registered_;
}

bool DoorbellLine::AnyRung() const {
  for (uint32_t left = registered_; left != 0; left &= left - 1) {
    const int index = std::countr_zero(left);
    EventKernel& event = *events_[index];
    if ((marked_ >> index & 1) == 0 &&
        event.ring().LoadDoorbell() == shown_[index]) {
      continue;
    }
    if (event.cursor().PendingRings().rings != 0) return true;
  }
  return false;
}

}  // namespace carillon::gpud
