// Numbers drawn from a seed: the same on every machine and with every library.
#ifndef CARILLON_SIM_EXEC_SEEDED_RANDOM_H_
#define CARILLON_SIM_EXEC_SEEDED_RANDOM_H_

#include <bit>
#include <cstdint>

namespace carillon::sim {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014).
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  // From 0 to `count` - 1; `count` is not 0.
  uint64_t Below(uint64_t count) {
    return static_cast<uint64_t>(
        static_cast<unsigned __int128>(Next()) * count >> 64);
  }
  bool OneIn(uint64_t count) { return Below(count) == 0; }
  // From 1 to `most`, each power of two as probable as the next, so that small
  // numbers and large ones are both frequent. `most` is not 0.
  uint64_t Scaled(uint64_t most) {
    const uint64_t width = Below(static_cast<uint64_t>(std::bit_width(most)));
    const uint64_t first = uint64_t{1} << width;
    return first +
           Below(width + 1 == static_cast<uint64_t>(std::bit_width(most))
                     ? most - first + 1
                     : first);
  }

 private:
  uint64_t state_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_SEEDED_RANDOM_H_
