// The small vocabulary of numbers that cross process boundaries. Those that
// count the same things are types of their own, so that a doorbell's index is
// never taken for a sequence.
#ifndef CARILLON_SHM_TYPES_H_
#define CARILLON_SHM_TYPES_H_

#include <compare>
#include <cstdint>

namespace carillon::shm {

// A number that is only comparable with, and assignable from, its own kind.
template <class Tag, class T>
class Strong {
 public:
  using ValueType = T;
  constexpr Strong() = default;
  constexpr explicit Strong(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  constexpr auto operator<=>(const Strong&) const = default;
  constexpr Strong& operator++() {
    ++value_;
    return *this;
  }
  constexpr Strong operator+(T n) const { return Strong(value_ + n); }
  constexpr T operator-(Strong other) const { return value_ - other.value_; }

 private:
  T value_{};
};

// Which event of a ring: 1, 2, 3, ... for ever (64 bits never wrap). 0 is
// "none".
using Sequence = Strong<struct SequenceTag, uint64_t>;
// Which life of an aperture or ring; 0 is never valid.
using Generation = Strong<struct GenerationTag, uint32_t>;
// Which doorbell of a device, and at the same time which of its rings.
using DoorbellIndex = Strong<struct DoorbellIndexTag, uint32_t>;

}  // namespace carillon::shm

#endif  // CARILLON_SHM_TYPES_H_
