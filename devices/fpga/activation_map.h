// The purpose of optical mapping: finds when each pixel of the tissue was
// activated, from processed frames, and compares with the known times of the
// wave.
#ifndef CARILLON_DEVICES_FPGA_ACTIVATION_MAP_H_
#define CARILLON_DEVICES_FPGA_ACTIVATION_MAP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "devices/fpga/cardiac_wave.h"

namespace carillon::fpga {

// Not thread safe.
class ActivationMap {
 public:
  // A recovered time is wrong if it is off by more than so many frames.
  static constexpr double kTolerance = 1.0;

  explicit ActivationMap(const CardiacWave* wave);

  // Takes frames in ascending order. After a gap the map starts afresh, since a
  // crossing in the gap cannot be placed.
  void Add(uint64_t index, std::span<const uint8_t> pixels);

  // The crossings found; those off by more than kTolerance, plus pixels that
  // were not activated exactly once in a whole period; and the largest error so
  // far, in frames.
  uint64_t activations() const { return activations_; }
  uint64_t errors() const { return errors_; }
  double largest_error() const { return largest_error_; }

 private:
  const CardiacWave* const wave_;
  std::optional<uint64_t> last_index_;
  std::vector<uint8_t> last_;
  uint32_t steps_ = 0;         // frame pairs of the current period
  std::vector<uint8_t> seen_;  // activations of each pixel in it
  uint64_t activations_ = 0;
  uint64_t errors_ = 0;
  double largest_error_ = 0;
};

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_ACTIVATION_MAP_H_
