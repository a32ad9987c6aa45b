#include "sim/exec/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::sim {
namespace {

constexpr uint64_t kAlign = 256;
// The gap between two segments keeps an access past the end of one from meeting
// the next.
constexpr uint64_t kGap = 4096;

absl::Status NoBytes(std::string_view name) {
  return absl::InvalidArgumentError(
      fmt::format("'{}': a segment has at least one byte", name));
}

}  // namespace

std::vector<Segment>::const_iterator SegmentTable::After(
    DeviceAddress address) const {
  return std::ranges::upper_bound(segments_, address, {}, &Segment::begin);
}

size_t SegmentTable::Find(DeviceAddress address, uint64_t bytes) const {
  const auto after = After(address);
  if (after == segments_.begin()) return kNone;
  const auto segment = after - 1;
  if (!segment->Contains(address, bytes)) return kNone;
  return static_cast<size_t>(segment - segments_.begin());
}

std::string SegmentTable::Describe(DeviceAddress address) const {
  const auto after = After(address);
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

Memory::Memory(Addresses addresses)
    : addresses_(addresses),
      table_(std::make_shared<SegmentTable>(std::vector<Segment>())),
      heap_(std::make_unique<Heap>(Heap::kDefaultBytes)) {}

absl::Status Memory::SetHeapBytes(uint64_t bytes) {
  if (bytes > kMaxHeapBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "a heap of {} bytes: at most {} are possible", bytes, kMaxHeapBytes));
  }
  auto heap = std::make_unique<Heap>(bytes);
  if (!heap->ok()) {
    return absl::ResourceExhaustedError(
        fmt::format("a heap of {} bytes: this machine has not so many", bytes));
  }
  heap_ = std::move(heap);
  return absl::OkStatus();
}

absl::Status Memory::Add(Segment segment) {
  std::vector<Segment> segments = table_->segments();
  const auto after =
      std::ranges::upper_bound(segments, segment.begin, {}, &Segment::begin);
  const auto overlap = [&](const Segment& first, const Segment& second) {
    return second.begin - first.begin < first.bytes;
  };
  if ((after != segments.end() && overlap(segment, *after)) ||
      (after != segments.begin() && overlap(*(after - 1), segment))) {
    return absl::AlreadyExistsError(
        fmt::format("'{}': some of its {} bytes at {:#x} are mapped already",
                    segment.name, segment.bytes, segment.begin));
  }
  segments.insert(after, std::move(segment));
  table_ = std::make_shared<SegmentTable>(std::move(segments));
  return absl::OkStatus();
}

absl::StatusOr<DeviceAddress> Memory::TakeAddresses(uint64_t bytes,
                                                    const std::string& name,
                                                    AddressRange* from) {
  AddressRange& range = from != nullptr ? *from : own_;
  const uint64_t left = range.end - range.next;
  if (bytes > left) {
    return absl::ResourceExhaustedError(
        fmt::format("'{}': {} bytes are more than the {} of addresses that the "
                    "simulated GPU has left: each is given once, and a new "
                    "GPU has all of them",
                    name, bytes, left));
  }
  const DeviceAddress begin = range.next;
  range.next += std::min(left, (bytes + kGap + kAlign - 1) / kAlign * kAlign);
  return begin;
}

absl::StatusOr<DeviceAddress> Memory::Allocate(uint64_t bytes, std::string name,
                                               AddressRange* from) {
  if (bytes == 0) return NoBytes(name);
  std::lock_guard lock(mutex_);
  const bool own = addresses_ == Addresses::kOwn;
  absl::StatusOr<DeviceAddress> begin = DeviceAddress{0};
  if (own) begin = TakeAddresses(bytes, name, from);
  if (!begin.ok()) return begin;
  // calloc does not use host memory for pages that nobody touches.
  std::unique_ptr<std::byte, Release> host(static_cast<std::byte*>(
      own ? std::calloc(bytes, 1)
          : std::aligned_alloc(kAlign,
                               (bytes + kAlign - 1) / kAlign * kAlign)));
  if (host == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("'{}': this machine has no {} bytes", name, bytes));
  }
  if (!own) {
    std::memset(host.get(), 0, bytes);
    begin = reinterpret_cast<DeviceAddress>(host.get());
    // The host gives what nobody has: whoever mapped it has freed it since.
    std::vector<Segment> segments = table_->segments();
    std::erase_if(segments, [&](const Segment& segment) {
      return segment.begin < *begin + bytes &&
             *begin < segment.begin + segment.bytes;
    });
    table_ = std::make_shared<SegmentTable>(std::move(segments));
  }
  if (auto status = Add({.begin = *begin,
                         .bytes = bytes,
                         .host = host.get(),
                         .name = std::move(name)});
      !status.ok()) {
    return status;
  }
  owned_.emplace_back(*begin, std::move(host));
  return begin;
}

absl::StatusOr<DeviceAddress> Memory::Map(std::span<std::byte> host,
                                          bool writable, std::string name,
                                          AddressRange* from) {
  if (host.empty()) return NoBytes(name);
  std::lock_guard lock(mutex_);
  absl::StatusOr<DeviceAddress> begin =
      reinterpret_cast<DeviceAddress>(host.data());
  if (addresses_ == Addresses::kOwn) {
    begin = TakeAddresses(host.size(), name, from);
  }
  if (!begin.ok()) return begin;
  if (auto status = Add({.begin = *begin,
                         .bytes = host.size(),
                         .host = host.data(),
                         .writable = writable,
                         .name = std::move(name)});
      !status.ok()) {
    return status;
  }
  return begin;
}

absl::Status Memory::Free(DeviceAddress address) {
  std::lock_guard lock(mutex_);
  const size_t index = table_->Find(address, 1);
  if (index == SegmentTable::kNone || table_->segment(index).begin != address) {
    return absl::NotFoundError(
        fmt::format("no segment begins at {:#x}", address));
  }
  std::vector<Segment> segments = table_->segments();
  segments.erase(segments.begin() + static_cast<ptrdiff_t>(index));
  table_ = std::make_shared<SegmentTable>(std::move(segments));
  std::erase_if(owned_, [&](const auto& one) { return one.first == address; });
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::byte>> Memory::At(DeviceAddress address,
                                                uint64_t bytes,
                                                bool write) const {
  const std::shared_ptr<const SegmentTable> segments = table();
  const size_t index = segments->Find(address, bytes);
  if (index == SegmentTable::kNone) {
    const bool in_heap = heap_->Holds(address);
    std::byte* const host = in_heap ? heap_->Find(address, bytes) : nullptr;
    if (host != nullptr) return std::span(host, bytes);
    return absl::OutOfRangeError(fmt::format(
        "{} bytes at {:#x}: {}", bytes, address,
        in_heap ? heap_->Describe(address) : segments->Describe(address)));
  }
  const Segment& segment = segments->segment(index);
  if (write && !segment.writable) {
    return absl::PermissionDeniedError(
        fmt::format("'{}' is read-only", segment.name));
  }
  return std::span(segment.host + (address - segment.begin), bytes);
}

std::shared_ptr<const SegmentTable> Memory::table() const {
  std::lock_guard lock(mutex_);
  return table_;
}

}  // namespace carillon::sim
