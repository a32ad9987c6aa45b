// Chooses the key that a load generator asks for next.
#ifndef CARILLON_TOOLS_TESTBED_LOAD_KEY_CHOICE_H_
#define CARILLON_TOOLS_TESTBED_LOAD_KEY_CHOICE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace carillon::testbed {

// Draws the key numbers before the measurement, so that drawing costs nothing
// during it. Not thread safe.
class KeyChoice {
 public:
  // `zipf` is the exponent: key k is chosen in proportion to (k + 1)^-zipf; 0
  // is uniform, 0.99 is YCSB's default. Requires keys > 0.
  KeyChoice(uint32_t keys, double zipf, uint64_t seed,
            uint32_t draws = 1 << 20) {
    std::mt19937_64 random(seed);
    std::vector<double> cumulative(keys);
    double sum = 0;
    for (uint32_t k = 0; k < keys; ++k)
      cumulative[k] = sum += std::pow(k + 1.0, -zipf);
    std::uniform_real_distribution<double> uniform(0, sum);
    // Spreads popular keys over the whole range, as in YCSB ("scrambled").
    std::vector<uint32_t> number(keys);
    for (uint32_t k = 0; k < keys; ++k) number[k] = k;
    std::shuffle(number.begin(), number.end(), random);
    draws_.resize(draws);
    for (uint32_t& draw : draws_) {
      const auto at = std::upper_bound(cumulative.begin(), cumulative.end(),
                                       uniform(random)) -
                      cumulative.begin();
      draw = number[std::min<size_t>(static_cast<size_t>(at), keys - 1)];
    }
  }

  uint32_t Next() {
    if (++at_ >= draws_.size()) at_ = 0;
    return draws_[at_];
  }

 private:
  std::vector<uint32_t> draws_;
  size_t at_ = 0;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LOAD_KEY_CHOICE_H_
