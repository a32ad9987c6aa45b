// Where one ring lies in its device's two apertures. gpud decides it at
// registration and tells the device; each side keeps its own copy in private
// memory.
#ifndef CARILLON_SHM_RING_LAYOUT_H_
#define CARILLON_SHM_RING_LAYOUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::shm {

struct RingLayout {
  DoorbellIndex doorbell;
  Generation generation;
  uint32_t entries = 0;      // power of two, 1..kMaxRingEntries
  uint32_t entry_bytes = 0;  // stride, a multiple of kCacheLine
  // In an entry: after the header and, if any, the KmdOverride.
  uint32_t parameter_offset = 0;
  uint32_t parameter_bytes = 0;
  uint64_t esq_offset = 0;   // in the submission aperture
  uint64_t ecq_offset = 0;   // in the completion aperture
  uint64_t life_offset = 0;  // EventLife array, in the completion aperture

  friend bool operator==(const RingLayout&, const RingLayout&) = default;
  bool modifyable() const { return parameter_offset > sizeof(EsqEntryHeader); }
  // Entries have the sequence at kEntryStampOffset, too.
  bool stamped() const {
    return parameter_offset + parameter_bytes <= kEntryStampOffset;
  }
  uint64_t esq_bytes() const { return uint64_t{entries} * entry_bytes; }
  uint64_t ecq_bytes() const { return uint64_t{entries} * sizeof(EcqEntry); }
  uint64_t life_bytes() const { return uint64_t{entries} * sizeof(EventLife); }
  uint32_t SlotOf(Sequence sequence) const {
    return static_cast<uint32_t>(sequence.value()) & (entries - 1);
  }
};

// The layout in gpud's answer to RegisterEvent (v1::RegisterEventResponse), to
// be checked with CheckRingLayout().
template <class RegisterEventResponse>
RingLayout LayoutOf(const RegisterEventResponse& answer) {
  return {.doorbell = DoorbellIndex(answer.event_id()),
          .generation = Generation(answer.generation()),
          .entries = answer.entries(),
          .entry_bytes = answer.entry_bytes(),
          .parameter_offset = answer.parameter_offset(),
          .parameter_bytes = answer.parameter_bytes(),
          .esq_offset = answer.esq_offset(),
          .ecq_offset = answer.ecq_offset(),
          .life_offset = answer.life_offset()};
}

// Errors: InvalidArgument if entries is not a power of two in range.
absl::Status CheckRingEntries(uint64_t entries);

// Fills in the entry geometry (not the offsets) of a ring.
RingLayout MakeRingLayout(uint32_t entries, uint32_t parameter_bytes,
                          bool modifyable);

// Checks a layout against the apertures that it claims to lie in.
// Errors: FailedPrecondition naming the field.
absl::Status CheckRingLayout(const RingLayout& layout,
                             const Aperture& submission,
                             const Aperture& completion);

}  // namespace carillon::shm

#endif  // CARILLON_SHM_RING_LAYOUT_H_
