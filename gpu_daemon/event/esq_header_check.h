// What an ESQ entry's header must say before the event may run: the check of CPUs and of GPUs.
#ifndef CARILLON_GPU_DAEMON_EVENT_ESQ_HEADER_CHECK_H_
#define CARILLON_GPU_DAEMON_EVENT_ESQ_HEADER_CHECK_H_

#include <cstdint>

#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::gpud {

// `header` is from gpud's own copy of the entry. `allowed_flags`: kEsqKmdOverride
// for a modifyable event kernel; else 0. kOk, or why the entry is refused.
CARILLON_HOST_DEVICE constexpr shm::EventStatus CheckEsqHeader(
    const shm::EsqEntryHeader& header, uint32_t generation, uint64_t sequence,
    uint32_t allowed_flags) {
  if (header.generation != generation) {
    return shm::EventStatus::kStaleGeneration;
  }
  if (header.sequence != sequence) return shm::EventStatus::kBadSequence;
  if ((header.flags & ~allowed_flags) != 0) return shm::EventStatus::kBadFlags;
  return shm::EventStatus::kOk;
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_ESQ_HEADER_CHECK_H_
