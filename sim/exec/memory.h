// The simulated GPU's address space.
//
// Global memory consists of segments: allocations, a module's variables, and
// mapped host memory. Segments lie apart, and an address is never given out
// twice, so every access that leaves its segment is found. Shared, local and
// kernel parameter memory have windows of their own for generic addresses (PTX
// ISA 5.1, 6.4.1.1).
#ifndef CARILLON_SIM_EXEC_MEMORY_H_
#define CARILLON_SIM_EXEC_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/exec/heap.h"

namespace carillon::sim {

using DeviceAddress = uint64_t;

// A generic address is the window's base plus the address within the space.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr DeviceAddress kSharedWindow = uint64_t{1} << 32;
inline constexpr DeviceAddress kLocalWindow = uint64_t{2} << 32;
inline constexpr DeviceAddress kParamWindow = uint64_t{3} << 32;
inline constexpr DeviceAddress kFirstGlobal = uint64_t{1} << 40;
inline constexpr uint64_t kGlobalBytes = uint64_t{1} << 46;
// Behind it lie ranges that are not a Memory's own (RangeOf()).
inline constexpr DeviceAddress kFirstOfRanges =
    kFirstGlobal + (kGlobalBytes >> 1);
inline constexpr uint32_t kMaxRanges = 256;

struct Segment {
  DeviceAddress begin = 0;
  uint64_t bytes = 0;
  std::byte* host = nullptr;
  bool writable = true;
  std::string name;  // for messages

  bool Contains(DeviceAddress address, uint64_t count) const {
    return address - begin <= bytes && count <= bytes - (address - begin);
  }
};

// An immutable snapshot of all segments, sorted by address.
class SegmentTable {
 public:
  explicit SegmentTable(std::vector<Segment> segments)
      : segments_(std::move(segments)) {}

  // The index of the segment that contains all of these bytes; kNone if there
  // is none.
  static constexpr size_t kNone = ~size_t{0};
  size_t Find(DeviceAddress address, uint64_t bytes) const;
  const Segment& segment(size_t index) const { return segments_[index]; }
  size_t size() const { return segments_.size(); }
  const std::vector<Segment>& segments() const { return segments_; }
  // Describes an address: "12 bytes past the end of 'b' (0x10000000400, 1024
  // bytes)".
  std::string Describe(DeviceAddress address) const;

 private:
  std::vector<Segment>::const_iterator After(DeviceAddress address) const;

  const std::vector<Segment> segments_;
};

// What a segment's addresses are.
enum class Addresses {
  kOwn,   // of the simulated GPU
  kHost,  // those of the host, as with CUDA's unified addressing
};

// Where segments of one kind lie, one behind the other. A Memory's own, or one
// whose addresses depend on nothing but what takes from it. Not thread safe: it
// belongs to the lock of the Memory that takes from it.
struct AddressRange {
  DeviceAddress next = 0;
  DeviceAddress end = 0;
};

// One of kMaxRanges that do not meet.
constexpr AddressRange RangeOf(uint32_t index) {
  constexpr uint64_t kBytes = (kGlobalBytes >> 1) / kMaxRanges;
  // Or the first bytes of all would meet in one set of each cache.
  constexpr uint64_t kShift = 5 * 4096;
  const DeviceAddress begin = kFirstOfRanges + index * kBytes;
  return {begin + index * kShift, begin + kBytes};
}

// Thread safe. Running code works with the segments that existed when it began,
// so none may be freed while running code reaches it.
class Memory {
 public:
  explicit Memory(Addresses addresses = Addresses::kOwn);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Allocates zeroed bytes at a multiple of 256, in `from` if there is one, a
  // RangeOf(). Errors: InvalidArgument (no bytes), ResourceExhausted.
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes, std::string name,
                                         AddressRange* from = nullptr);
  // Maps the caller's memory, which must outlive the mapping, at a multiple of
  // 256 or, with the host's addresses, where it is. Errors: InvalidArgument (no
  // bytes), ResourceExhausted (addresses), AlreadyExists (some of it is mapped).
  absl::StatusOr<DeviceAddress> Map(std::span<std::byte> host, bool writable,
                                    std::string name,
                                    AddressRange* from = nullptr);
  // Frees a segment by its first address. Errors: NotFound.
  absl::Status Free(DeviceAddress address);

  // What malloc() of kernels takes from. SetHeapBytes() empties it; call it
  // before anything executes. Errors: InvalidArgument (too many bytes),
  // ResourceExhausted.
  Heap& heap() const { return *heap_; }
  absl::Status SetHeapBytes(uint64_t bytes);

  // Returns the host's view of these bytes. Errors: OutOfRange (names the
  // nearest segment), PermissionDenied (`write` to a read-only segment).
  absl::StatusOr<std::span<std::byte>> At(DeviceAddress address, uint64_t bytes,
                                          bool write = false) const;

  std::shared_ptr<const SegmentTable> table() const;

 private:
  // Reserves an address range that nothing had before, with a gap behind it.
  // Needs the lock.
  absl::StatusOr<DeviceAddress> TakeAddresses(uint64_t bytes,
                                              const std::string& name,
                                              AddressRange* from);
  absl::Status Add(Segment segment);

  const Addresses addresses_;
  mutable std::mutex mutex_;
  std::shared_ptr<const SegmentTable> table_;
  struct Release {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::vector<std::pair<DeviceAddress, std::unique_ptr<std::byte, Release>>>
      owned_;
  AddressRange own_{kFirstGlobal, kFirstOfRanges};
  std::unique_ptr<Heap> heap_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_MEMORY_H_
