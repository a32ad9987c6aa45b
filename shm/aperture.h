// Making, handing over and mapping the two memory regions of a device.
#ifndef CARILLON_SHM_APERTURE_H_
#define CARILLON_SHM_APERTURE_H_

#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::shm {

struct ApertureSpec {
  RegionKind kind = RegionKind::kSubmission;
  uint64_t heap_bytes = 0;  // for rings and buffers; rounded up to pages
  // How much further the heap reaches: addresses without memory, until
  // Reserve(). Rounded up to pages.
  uint64_t growth_bytes = 0;
  Generation generation;
  uint32_t device_id = 0;
  // A multiple of kDoorbellsPerLine.
  uint32_t doorbell_count = kDoorbellsPerLine;
};

// A mapped aperture. Everything the header says was checked once and is kept
// here, in private memory: the shared header is not read again. Move-only; not
// thread safe itself, the memory behind it is.
class Aperture {
 public:
  // Makes, reserves and seals an aperture, mapped read-write. All but its growth
  // is reserved, so that no later access there can raise SIGBUS. Errors:
  // InvalidArgument (spec), ResourceExhausted (no memory or descriptors).
  static absl::StatusOr<Aperture> Create(const ApertureSpec& spec);

  // Reserves bytes [begin, end), whole pages of the growth, which nobody may
  // touch before. To be called by its maker. Errors: ResourceExhausted; then
  // some of them may be reserved.
  absl::Status Reserve(uint64_t begin, uint64_t end) const;

  // The memory that the aperture takes. More than was reserved: the other side
  // has touched what it was not given.
  uint64_t TakenBytes() const;

  // Maps an aperture that somebody handed over: read-write if it is a
  // submission aperture, read-only if it is a completion aperture. Checks
  // seals, size, magic, layout version, kind and generation. Errors:
  // FailedPrecondition, naming the field, the value and what was expected.
  static absl::StatusOr<Aperture> Map(UniqueFd fd, RegionKind kind,
                                      Generation generation);

  // Maps this aperture in the place of `old`, which must have the same size and
  // kind: addresses into the old one are good for the new one from now on. `old`
  // is to be destroyed. Errors: FailedPrecondition (size, kind),
  // ResourceExhausted.
  absl::Status TakePlaceOf(Aperture& old);

  Aperture() = default;
  Aperture(Aperture&&) = default;
  Aperture& operator=(Aperture&&) = default;

  RegionKind kind() const { return kind_; }
  uint64_t size() const { return region_.get_size(); }
  Generation generation() const { return generation_; }
  uint32_t doorbell_count() const { return doorbell_count_; }
  uint64_t heap_offset() const { return heap_offset_; }
  uint64_t heap_size() const { return heap_size_; }
  int fd() const { return fd_.get(); }

  // Bytes [offset, offset + length) of the aperture. The range must be inside:
  // callers check ranges that come from outside with Contains() first.
  std::byte* At(uint64_t offset) const { return base() + offset; }
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size() && length <= size() - offset;
  }

  // kSubmission only.
  SubmissionControl& submission_control() const {
    return *reinterpret_cast<SubmissionControl*>(At(kControlOffset));
  }
  Telemetry& telemetry() const {
    return *reinterpret_cast<Telemetry*>(At(kTelemetryOffset));
  }
  uint32_t* doorbells() const {
    return reinterpret_cast<uint32_t*>(At(kDoorbellOffset));
  }
  uint64_t* consumed() const {
    return reinterpret_cast<uint64_t*>(At(kConsumedOffset));
  }
  // kCompletion only.
  CompletionControl& completion_control() const {
    return *reinterpret_cast<CompletionControl*>(At(kControlOffset));
  }

 private:
  Aperture(UniqueFd fd, boost::interprocess::mapped_region region,
           const RegionHeader& header);
  std::byte* base() const {
    return static_cast<std::byte*>(region_.get_address());
  }

  UniqueFd fd_;
  boost::interprocess::mapped_region region_;
  RegionKind kind_ = RegionKind::kSubmission;
  Generation generation_;
  uint32_t doorbell_count_ = 0;
  uint64_t heap_offset_ = 0;
  uint64_t heap_size_ = 0;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_APERTURE_H_
