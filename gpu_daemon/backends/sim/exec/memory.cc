#include "gpu_daemon/backends/sim/exec/memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::sim {
namespace {

constexpr uint64_t kAlign = 256;
// Between two segments, so that a run past the end of one does not meet the
// next.
constexpr uint64_t kGap = 4096;

}  // namespace

absl::StatusOr<DeviceAddress> Memory::Place(Segment segment) {
  if (segment.bytes == 0) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': a segment has at least one byte", segment.name));
  }
  const uint64_t taken = next_ - kFirstGlobal;
  if (segment.bytes > kGlobalBytes - taken) {
    return absl::ResourceExhaustedError(
        fmt::format("'{}': {} bytes are more than the {} of addresses that the "
                    "simulated GPU has left",
                    segment.name, segment.bytes, kGlobalBytes - taken));
  }
  segment.begin = next_;
  next_ += (segment.bytes + kGap + kAlign - 1) / kAlign * kAlign;
  const DeviceAddress begin = segment.begin;
  segments_.push_back(std::move(segment));
  return begin;
}

absl::StatusOr<DeviceAddress> Memory::Allocate(uint64_t bytes,
                                               std::string name) {
  std::unique_ptr<std::byte[]> host(
      bytes > kGlobalBytes ? nullptr : new (std::nothrow) std::byte[bytes]{});
  if (host == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("'{}': this machine has no {} bytes", name, bytes));
  }
  const auto address =
      Place({.bytes = bytes, .host = host.get(), .name = std::move(name)});
  if (address.ok()) owned_.emplace_back(*address, std::move(host));
  return address;
}

absl::StatusOr<DeviceAddress> Memory::Map(std::span<std::byte> host,
                                          bool writable, std::string name) {
  return Place({.bytes = host.size(),
                .host = host.data(),
                .writable = writable,
                .name = std::move(name)});
}

absl::Status Memory::Free(DeviceAddress address) {
  const size_t index = Find(address, 1);
  if (index == kNone || segments_[index].begin != address) {
    return absl::NotFoundError(
        fmt::format("no segment begins at {:#x}", address));
  }
  segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(index));
  std::erase_if(owned_, [&](const auto& one) { return one.first == address; });
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> Memory::At(DeviceAddress address,
                                                uint64_t bytes, bool write) {
  const size_t index = Find(address, bytes);
  if (index == kNone) {
    return absl::OutOfRangeError(fmt::format("{} bytes at {:#x}: {}", bytes,
                                             address, Describe(address)));
  }
  const Segment& segment = segments_[index];
  if (write && !segment.writable) {
    return absl::PermissionDeniedError(
        fmt::format("'{}' is read-only", segment.name));
  }
  return std::span(segment.host + (address - segment.begin), bytes);
}

size_t Memory::Find(DeviceAddress address, uint64_t bytes) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), address,
      [](DeviceAddress at, const Segment& s) { return at < s.begin; });
  if (after == segments_.begin()) return kNone;
  const auto segment = after - 1;
  if (!segment->Contains(address, bytes)) return kNone;
  return static_cast<size_t>(segment - segments_.begin());
}

std::string Memory::Describe(DeviceAddress address) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), address,
      [](DeviceAddress at, const Segment& s) { return at < s.begin; });
  if (after == segments_.begin()) {
    if (address < kFirstGlobal && address >= kSharedWindow) {
      return "in a window of shared, local or parameter memory";
    }
    return address < 4096 ? "a null pointer" : "in no segment";
  }
  const Segment& segment = *(after - 1);
  const std::string what = fmt::format("'{}' ({:#x}, {} bytes)", segment.name,
                                       segment.begin, segment.bytes);
  const uint64_t into = address - segment.begin;
  if (into < segment.bytes) {
    return fmt::format("{} bytes before the end of {}", segment.bytes - into,
                       what);
  }
  return fmt::format("{} bytes past the end of {}", into - segment.bytes, what);
}

}  // namespace carillon::sim
