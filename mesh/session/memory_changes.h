// What has changed in one end's aperture since the other end was told.
#ifndef CARILLON_MESH_SESSION_MEMORY_CHANGES_H_
#define CARILLON_MESH_SESSION_MEMORY_CHANGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/functional/function_ref.h"
#include "proto/link.pb.h"
#include "shm/aperture.h"
#include "shm/layout.h"

namespace carillon::mesh {

// Bytes of one ChangedMemory, at most, but for one page.
inline constexpr uint64_t kMaxChangedBytes = uint64_t{512} << 10;

// Not thread safe. Of a submission aperture these are telemetry, doorbells, what
// is consumed, and the heap; of a completion aperture the heap. Headers and
// control words are each end's own.
class MemoryChanges {
 public:
  // `aperture` must outlive it. The other end has zeros.
  explicit MemoryChanges(const shm::Aperture* aperture) : aperture_(aperture) {}

  // Calls `tell` with all of them, in the order in which they are to be stored.
  // Its writer may write meanwhile: doorbells come last, and none of which the
  // entry was not there.
  void Collect(uint64_t session,
               absl::FunctionRef<void(v1::ChangedMemory)> tell);

 private:
  using Page = std::array<std::byte, shm::kPageSize>;

  void AddPage(uint64_t offset, const std::byte* now,
               v1::ChangedMemory* changed);

  const shm::Aperture* const aperture_;
  std::map<uint64_t, std::unique_ptr<Page>> told_;  // by offset; none: zeros
};

// Stores what the other end has told. False: it lies where that end has nothing
// to say.
bool StoreChanges(const v1::ChangedMemory& changed,
                  const shm::Aperture& aperture);

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_SESSION_MEMORY_CHANGES_H_
