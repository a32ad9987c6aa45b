#include "shm/ring_layout.h"

#include <bit>

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
  if (auto status = CheckRingEntries(layout.entries); !status.ok())
    return status;
  const auto bad = [](std::string_view field, uint64_t value) {
    return absl::FailedPreconditionError(
        fmt::format("invalid ring layout: {} is {}", field, value));
  };
  if (layout.doorbell.value() >= submission.doorbell_count()) {
    return bad("doorbell", layout.doorbell.value());
  }
  if (layout.parameter_offset != sizeof(EsqEntryHeader) &&
      layout.parameter_offset != sizeof(EsqEntryHeader) + sizeof(KmdOverride)) {
    return bad("parameter offset", layout.parameter_offset);
  }
  if (layout.parameter_bytes > kMaxParameterBytes) {
    return bad("parameter bytes", layout.parameter_bytes);
  }
  if (layout.entry_bytes % kCacheLine != 0 ||
      layout.entry_bytes < layout.parameter_offset + layout.parameter_bytes) {
    return bad("entry size", layout.entry_bytes);
  }
  if (layout.esq_offset % kCacheLine != 0 ||
      layout.esq_offset < submission.heap_offset() ||
      !submission.Contains(layout.esq_offset, layout.esq_bytes())) {
    return bad("ESQ offset", layout.esq_offset);
  }
  if (layout.ecq_offset % kCacheLine != 0 ||
      layout.ecq_offset < completion.heap_offset() ||
      !completion.Contains(layout.ecq_offset, layout.ecq_bytes())) {
    return bad("ECQ offset", layout.ecq_offset);
  }
  if (layout.life_offset % kCacheLine != 0 ||
      layout.life_offset < completion.heap_offset() ||
      !completion.Contains(layout.life_offset, layout.life_bytes())) {
    return bad("life offset", layout.life_offset);
  }
  return absl::OkStatus();
}

}  // namespace carillon::shm
