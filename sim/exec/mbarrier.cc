#include "sim/exec/mbarrier.h"

#include "fmt/format.h"

namespace carillon::sim {
namespace {

constexpr uint64_t kValid = uint64_t{1} << 63;
constexpr uint64_t kPhase = uint64_t{1} << 61;
constexpr int kBytesAt = 40;
constexpr int kExpectedAt = 20;
constexpr int32_t kBytesBits = 21;

}  // namespace

std::optional<Mbarrier> Mbarrier::Of(uint64_t bits) {
  if ((bits & kValid) == 0) return std::nullopt;
  Mbarrier barrier;
  barrier.pending_ = static_cast<uint32_t>(bits) & kMaxCount;
  barrier.expected_ = static_cast<uint32_t>(bits >> kExpectedAt) & kMaxCount;
  barrier.phase_ = (bits & kPhase) != 0;
  // The highest bit is the sign.
  const auto bytes = static_cast<uint32_t>(bits >> kBytesAt);
  barrier.bytes_ =
      static_cast<int32_t>(bytes << (32 - kBytesBits)) >> (32 - kBytesBits);
  return barrier;
}

uint64_t Mbarrier::bits() const {
  const auto bytes = static_cast<uint32_t>(bytes_) & ((1u << kBytesBits) - 1);
  return kValid | (phase_ ? kPhase : 0) | uint64_t{bytes} << kBytesAt |
         uint64_t{expected_} << kExpectedAt | pending_;
}

std::string Mbarrier::Arrive(uint32_t count, bool drop, bool completes) {
  if (count == 0 || count > pending_) {
    return fmt::format("{} arrivals at once, at an mbarrier that {}", count,
                       Describe());
  }
  if (!completes && count == pending_ && bytes_ == 0) {
    return fmt::format(
        "this must not complete the phase of an mbarrier that {}", Describe());
  }
  if (drop) expected_ -= count;
  pending_ -= count;
  CompleteIfDone();
  return {};
}

std::string Mbarrier::Expect(int64_t bytes) {
  const int64_t sum = bytes_ + bytes;
  if (sum > int64_t{kMaxCount} || sum < -int64_t{kMaxCount}) {
    return fmt::format("{} bytes more, at an mbarrier that {}: the limit is {}",
                       bytes, Describe(), kMaxCount);
  }
  bytes_ = static_cast<int32_t>(sum);
  // Bytes that are expected complete nothing, even if they have come before.
  if (bytes < 0) CompleteIfDone();
  return {};
}

void Mbarrier::CompleteIfDone() {
  if (pending_ != 0 || bytes_ != 0) return;
  phase_ = !phase_;
  pending_ = expected_;
}

std::string Mbarrier::Describe() const {
  return fmt::format(
      "is in {} phase, and waits for {} of {} arrivals and {} bytes",
      phase_ ? "an odd" : "an even", pending_, expected_, bytes_);
}

}  // namespace carillon::sim
