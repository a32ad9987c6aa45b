#include "shm/ring_layout.h"

#include <bit>
#include <string_view>

#include "fmt/format.h"

namespace carillon::shm {

absl::Status CheckRingEntries(uint64_t entries) {
  if (entries == 0 || entries > kMaxRingEntries ||
      !std::has_single_bit(entries)) {
    return absl::InvalidArgumentError(
        fmt::format("a ring of {} entries: must be a power of two from 1 to {}",
                    entries, kMaxRingEntries));
  }
  return absl::OkStatus();
}

RingLayout MakeRingLayout(uint32_t entries, uint32_t parameter_bytes,
                          bool modifyable) {
  RingLayout layout;
  layout.entries = entries;
  layout.parameter_offset =
      sizeof(EsqEntryHeader) + (modifyable ? sizeof(KmdOverride) : 0);
  layout.parameter_bytes = parameter_bytes;
  layout.entry_bytes = static_cast<uint32_t>(
      AlignUp(layout.parameter_offset + parameter_bytes, kCacheLine));
  return layout;
}

absl::Status CheckRingLayout(const RingLayout& layout,
                             const Aperture& submission,
                             const Aperture& completion) {
  const auto bad = [](std::string_view field, uint64_t value,
                      std::string_view rule) {
    return absl::FailedPreconditionError(fmt::format(
        "invalid ring layout: {} is {}, must be {}; do gpud and the device "
        "come from the same build?",
        field, value, rule));
  };
  if (!CheckRingEntries(layout.entries).ok()) {
    return bad("entries", layout.entries,
               fmt::format("a power of two up to {}", kMaxRingEntries));
  }
  if (layout.generation == Generation())
    return bad("generation", 0, "1 or more");
  if (layout.doorbell.value() >= submission.doorbell_count()) {
    return bad("doorbell", layout.doorbell.value(),
               fmt::format("below {}", submission.doorbell_count()));
  }
  constexpr uint32_t kPlain = sizeof(EsqEntryHeader);
  constexpr uint32_t kModifyable = kPlain + sizeof(KmdOverride);
  if (layout.parameter_offset != kPlain &&
      layout.parameter_offset != kModifyable) {
    return bad("parameter offset", layout.parameter_offset,
               fmt::format("{} or {}", kPlain, kModifyable));
  }
  if (layout.parameter_bytes > kMaxParameterBytes) {
    return bad("parameter bytes", layout.parameter_bytes,
               fmt::format("at most {}", kMaxParameterBytes));
  }
  const uint32_t used = layout.parameter_offset + layout.parameter_bytes;
  if (layout.entry_bytes % kCacheLine != 0 || layout.entry_bytes < used) {
    return bad("entry size", layout.entry_bytes,
               fmt::format("a multiple of {} from {} on", kCacheLine, used));
  }
  const auto check_place = [&](std::string_view field, uint64_t offset,
                               uint64_t bytes, const Aperture& aperture) {
    if (offset % kCacheLine == 0 && offset >= aperture.heap_offset() &&
        aperture.Contains(offset, bytes)) {
      return absl::OkStatus();
    }
    return bad(
        field, offset,
        fmt::format("a multiple of {} with {} bytes inside {}..{}", kCacheLine,
                    bytes, aperture.heap_offset(), aperture.size()));
  };
  for (const auto& status : {check_place("ESQ offset", layout.esq_offset,
                                         layout.esq_bytes(), submission),
                             check_place("ECQ offset", layout.ecq_offset,
                                         layout.ecq_bytes(), completion),
                             check_place("life offset", layout.life_offset,
                                         layout.life_bytes(), completion)}) {
    if (!status.ok()) return status;
  }
  if (layout.life_offset < layout.ecq_offset + layout.ecq_bytes() &&
      layout.ecq_offset < layout.life_offset + layout.life_bytes()) {
    return bad("life offset", layout.life_offset,
               fmt::format("outside the ECQ, {} bytes at {}",
                           layout.ecq_bytes(), layout.ecq_offset));
  }
  return absl::OkStatus();
}

}  // namespace carillon::shm
