// The simulated GPU's address space.
//
// Global memory is segments: allocations, a module's variables, and memory of
// the host that is mapped in. They lie apart, and an address is never given out
// twice, so that every access that leaves its segment is found. Shared, local
// and kernel parameter memory have windows of their own for generic addresses
// (PTX ISA 5.1, 6.4.1.1).
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

namespace carillon::sim {

using DeviceAddress = uint64_t;

// Generic addresses: window + address within the space.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;
inline constexpr DeviceAddress kSharedWindow = uint64_t{1} << 32;
inline constexpr DeviceAddress kLocalWindow = uint64_t{2} << 32;
inline constexpr DeviceAddress kParamWindow = uint64_t{3} << 32;
inline constexpr DeviceAddress kFirstGlobal = uint64_t{1} << 40;
// Of the address space.
inline constexpr uint64_t kGlobalBytes = uint64_t{1} << 46;

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

// All segments at one moment, by address. Immutable.
class SegmentTable {
 public:
  explicit SegmentTable(std::vector<Segment> segments)
      : segments_(std::move(segments)) {}

  // The index of the segment that has all of these bytes; kNone otherwise.
  static constexpr size_t kNone = ~size_t{0};
  size_t Find(DeviceAddress address, uint64_t bytes) const;
  const Segment& segment(size_t index) const { return segments_[index]; }
  size_t size() const { return segments_.size(); }
  const std::vector<Segment>& segments() const { return segments_; }
  // "12 bytes past the end of 'b' (0x10000000400, 1024 bytes)".
  std::string Describe(DeviceAddress address) const;

 private:
  // The first segment that begins after the address.
  std::vector<Segment>::const_iterator After(DeviceAddress address) const;

  const std::vector<Segment> segments_;
};

// Thread safe. What executes works with the segments that were there when it
// began, so none may be freed while something that reaches it executes.
class Memory {
 public:
  Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Zeroed bytes of it, at a multiple of 256. Errors: InvalidArgument (no
  // bytes), ResourceExhausted.
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes, std::string name);
  // The caller's memory, which must outlive its mapping; at a multiple of 256.
  // Errors: InvalidArgument (no bytes), ResourceExhausted (addresses).
  absl::StatusOr<DeviceAddress> Map(std::span<std::byte> host, bool writable,
                                    std::string name);
  // A segment by its first address. Errors: NotFound.
  absl::Status Free(DeviceAddress address);

  // Where the host has it. Errors: OutOfRange (names the nearest segment),
  // PermissionDenied (`write`, and it is read-only).
  absl::StatusOr<std::span<std::byte>> At(DeviceAddress address, uint64_t bytes,
                                          bool write = false) const;

  std::shared_ptr<const SegmentTable> table() const;

 private:
  // Lock held:
  // An address range that nothing had before, with a gap behind it.
  absl::StatusOr<DeviceAddress> TakeAddresses(uint64_t bytes,
                                              const std::string& name);
  void Add(Segment segment);

  mutable std::mutex mutex_;
  std::shared_ptr<const SegmentTable> table_;
  struct Release {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::vector<std::pair<DeviceAddress, std::unique_ptr<std::byte, Release>>>
      owned_;
  DeviceAddress next_ = kFirstGlobal;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_MEMORY_H_
