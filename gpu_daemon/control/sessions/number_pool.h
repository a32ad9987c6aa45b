// Numbers that are given out, the lowest free one first.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NUMBER_POOL_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NUMBER_POOL_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace carillon::gpud {

// The numbers from 0 to `count` - 1, which all calls must keep to. Finds a free
// one in count / 64 steps at most. Not thread safe.
class NumberPool {
 public:
  explicit NumberPool(uint32_t count)
      : count_(count), free_((count + 63) / 64, ~uint64_t{0}) {}

  // Nothing if all are taken.
  std::optional<uint32_t> LowestFree() const {
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i] == 0) continue;
      const auto number = static_cast<uint32_t>(i * 64) +
                          static_cast<uint32_t>(std::countr_zero(free_[i]));
      if (number < count_) return number;
    }
    return std::nullopt;
  }
  bool taken(uint32_t number) const {
    return (free_[number / 64] & Bit(number)) == 0;
  }
  void Take(uint32_t number) { free_[number / 64] &= ~Bit(number); }
  void GiveBack(uint32_t number) { free_[number / 64] |= Bit(number); }

  uint32_t count() const { return count_; }
  uint32_t used() const {
    uint32_t used = 0;
    for (const uint64_t word : free_) {
      used += static_cast<uint32_t>(std::popcount(~word));
    }
    return used;
  }

 private:
  static uint64_t Bit(uint32_t number) { return uint64_t{1} << (number % 64); }

  uint32_t count_;
  std::vector<uint64_t> free_;  // a bit a number; 1: free
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NUMBER_POOL_H_
