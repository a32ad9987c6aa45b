#include "mesh/session/memory_changes.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "shm/load_shared.h"

namespace carillon::mesh {
namespace {

using shm::kDoorbellOffset;
using shm::kPageSize;

static_assert(shm::kConsumedOffset - kDoorbellOffset == kPageSize);

constexpr uint64_t kPiece = 64;

uint64_t FirstOf(const shm::Aperture& aperture) {
  return aperture.kind() == shm::RegionKind::kSubmission
             ? shm::kTelemetryOffset
             : aperture.heap_offset();
}

bool IsDoorbell(const shm::Aperture& aperture, uint64_t offset) {
  return aperture.kind() == shm::RegionKind::kSubmission &&
         offset >= kDoorbellOffset && offset < kDoorbellOffset + kPageSize;
}

// Its reader polls it, or has seen a doorbell that was stored after it: release.
template <class Word>
void StoreWord(const char* from, std::byte* to) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  std::atomic_ref(*reinterpret_cast<Word*>(to))
      .store(word, std::memory_order_release);
}

}  // namespace

void MemoryChanges::Collect(uint64_t session,
                            absl::FunctionRef<void(v1::ChangedMemory)> tell) {
  const bool submission = aperture_->kind() == shm::RegionKind::kSubmission;
  Page doorbells;
  if (submission) {
    for (uint64_t at = 0; at < kPageSize; at += sizeof(uint32_t)) {
      // Acquire: the entries that were written before it was rung.
      const uint32_t rung =
          shm::LoadShared(*reinterpret_cast<const uint32_t*>(
                              aperture_->At(kDoorbellOffset + at)),
                          std::memory_order_acquire);
      std::memcpy(&doorbells[at], &rung, sizeof(rung));
    }
  }
  v1::ChangedMemory changed;
  uint64_t bytes = 0;
  const auto look = [&](uint64_t offset, const std::byte* now) {
    const int before = changed.ranges_size();
    AddPage(offset, now, &changed);
    for (int i = before; i < changed.ranges_size(); ++i) {
      bytes += changed.ranges(i).bytes().size();
    }
    if (bytes < kMaxChangedBytes) return;
    changed.set_session(session);
    tell(std::exchange(changed, {}));
    bytes = 0;
  };
  const auto size = static_cast<off_t>(aperture_->size());
  auto at = static_cast<off_t>(FirstOf(*aperture_));
  Page now;
  while (at < size) {
    // What nobody has touched stays without memory.
    const off_t data = lseek(aperture_->fd(), at, SEEK_DATA);
    if (data < 0) break;
    const off_t hole = lseek(aperture_->fd(), data, SEEK_HOLE);
    at = std::max(at, data / off_t{kPageSize} * off_t{kPageSize});
    for (; at < hole && at < size; at += kPageSize) {
      const auto offset = static_cast<uint64_t>(at);
      if (submission && offset == kDoorbellOffset) continue;
      std::memcpy(now.data(), aperture_->At(offset), kPageSize);
      look(offset, now.data());
    }
  }
  if (submission) look(kDoorbellOffset, doorbells.data());
  if (changed.ranges_size() == 0) return;
  changed.set_session(session);
  tell(std::move(changed));
}

void MemoryChanges::AddPage(uint64_t offset, const std::byte* now,
                            v1::ChangedMemory* changed) {
  static constexpr Page kZeros{};
  auto found = told_.find(offset);
  const Page& told = found == told_.end() ? kZeros : *found->second;
  if (std::memcmp(told.data(), now, kPageSize) == 0) return;
  v1::ChangedRange* range = nullptr;
  for (uint64_t at = 0; at < kPageSize; at += kPiece) {
    if (std::memcmp(&told[at], now + at, kPiece) == 0) {
      range = nullptr;
      continue;
    }
    if (range == nullptr) {
      range = changed->add_ranges();
      range->set_offset(offset + at);
    }
    range->mutable_bytes()->append(reinterpret_cast<const char*>(now + at),
                                   kPiece);
  }
  if (found == told_.end()) {
    found = told_.emplace(offset, std::make_unique<Page>()).first;
  }
  std::memcpy(found->second->data(), now, kPageSize);
}

bool StoreChanges(const v1::ChangedMemory& changed,
                  const shm::Aperture& aperture) {
  for (const v1::ChangedRange& range : changed.ranges()) {
    const uint64_t offset = range.offset();
    if (offset < FirstOf(aperture) || offset % sizeof(uint64_t) != 0 ||
        range.bytes().size() % sizeof(uint64_t) != 0 ||
        !aperture.Contains(offset, range.bytes().size())) {
      return false;
    }
    for (size_t at = 0; at < range.bytes().size(); at += sizeof(uint64_t)) {
      const char* const from = range.bytes().data() + at;
      if (IsDoorbell(aperture, offset + at)) {
        StoreWord<uint32_t>(from, aperture.At(offset + at));
        StoreWord<uint32_t>(from + sizeof(uint32_t),
                            aperture.At(offset + at + sizeof(uint32_t)));
      } else {
        StoreWord<uint64_t>(from, aperture.At(offset + at));
      }
    }
  }
  return true;
}

}  // namespace carillon::mesh
