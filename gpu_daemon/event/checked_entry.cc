#include "gpu_daemon/event/checked_entry.h"

#include <cstring>

#include "base/clock.h"
#include "gpu_daemon/event/esq_header_check.h"

namespace carillon::gpud {
namespace {

using shm::EventStatus;
using shm::Sequence;

// gpud's private copy of an ESQ entry.
struct EntryCopy {
  // clang-format 14 breaks after the parenthesis of alignas.
  // clang-format off
  alignas(64) std::byte bytes[sizeof(shm::EsqEntryHeader) +
                              sizeof(shm::KmdOverride) +
                              shm::kMaxParameterBytes];
  // clang-format on

  shm::EsqEntryHeader header() const {
    shm::EsqEntryHeader header;
    std::memcpy(&header, bytes, sizeof(header));
    return header;
  }
  shm::KmdOverride kmd() const {
    shm::KmdOverride kmd;
    std::memcpy(&kmd, bytes + sizeof(shm::EsqEntryHeader), sizeof(kmd));
    return kmd;
  }
};

}  // namespace

shm::EventStatus CheckEntry(const EventKernel& event, shm::Sequence sequence,
                            Nanoseconds seen_ns, const GpuModel& gpu,
                            CheckedEntry& checked) {
  const shm::RingLayout& layout = event.ring().layout();
  EntryCopy entry;
  event.ring().CopyEntry(sequence, entry.bytes,
                         layout.parameter_offset + layout.parameter_bytes);
  const shm::EsqEntryHeader header = entry.header();
  if (const EventStatus status =
          CheckEsqHeader(header, layout.generation.value(), sequence.value(),
                         event.modifyable() ? shm::kEsqKmdOverride : 0);
      status != EventStatus::kOk) {
    return status;
  }

  KernelMetadata& kmd = checked.kmd;
  kmd = event.kmd();
  if ((header.flags & shm::kEsqKmdOverride) != 0) {
    const shm::KmdOverride own = entry.kmd();
    kmd.grid = {own.grid[0], own.grid[1], own.grid[2]};
    kmd.block = {own.block[0], own.block[1], own.block[2]};
    kmd.shared_bytes = own.shared_bytes;
    if (!CheckKernelMetadata(kmd, gpu).ok()) return EventStatus::kBadKmd;
  }

  if (const EventStatus status = event.arguments().Build(
          layout.SlotOf(sequence), entry.bytes + layout.parameter_offset,
          checked.args.data());
      status != EventStatus::kOk) {
    return status;
  }
  if (event.validate_each_launch() && event.takes_from() == nullptr &&
      kmd.kernel->validate({kmd.grid, kmd.block, kmd.total_shared()},
                           checked.args.data()) != nullptr) {
    return EventStatus::kBadParameter;
  }
  checked.rung_ns = header.rung_ns;
  if (seen_ns != 0) {
    checked.life.rung_ns = header.rung_ns;
    checked.life.seen_ns = seen_ns;
    checked.life.queued_ns = NowNs();
  }
  return EventStatus::kOk;
}

}  // namespace carillon::gpud
