// What optical mapping is for: when each pixel of the tissue was activated,
// recovered from processed frames and compared with the times that the wave is
// known to have.
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
  // A recovered time counts as wrong when it is off by more than this many
  // frames.
  static constexpr double kTolerance = 1.0;

  explicit ActivationMap(const CardiacWave* wave);

  // Frames in ascending order; after a gap the map starts afresh, since a
  // crossing in the gap cannot be placed.
  void Add(uint64_t index, std::span<const uint8_t> pixels);

  // Crossings found; those off by more than kTolerance, plus pixels that were
  // not activated exactly once in a whole period; the largest error so far,
  // frames.
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
