// Divides by a number of the configuration, which is usually a power of two.
#ifndef CARILLON_SIM_TIMING_DIVISOR_H_
#define CARILLON_SIM_TIMING_DIVISOR_H_

#include <bit>
#include <cstdint>

namespace carillon::sim::timing {

class Divisor {
 public:
  explicit Divisor(uint64_t number)
      : number_(number),
        shift_(static_cast<uint32_t>(std::countr_zero(number))),
        is_power_((number & (number - 1)) == 0) {}

  uint64_t Quotient(uint64_t x) const {
    return is_power_ ? x >> shift_ : x / number_;
  }
  uint64_t Remainder(uint64_t x) const {
    return is_power_ ? x & (number_ - 1) : x % number_;
  }
  bool is_power() const { return is_power_; }  // of two

 private:
  uint64_t number_;
  uint32_t shift_;
  bool is_power_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_DIVISOR_H_
